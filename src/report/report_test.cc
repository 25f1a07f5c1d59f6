#include "pith/report/report.h"

#include <gtest/gtest.h>

#include <cmath>

#include "src/report/example.h"

namespace pith {
namespace {

TEST(Report, LayersAreNamedByTheirFirstNumber) {
  EXPECT_EQ(layer_of("model.layers.3.mlp.up_proj.weight"), "model.layers.3");
  EXPECT_EQ(layer_of("blk.12.experts.7.weight"), "blk.12");
  EXPECT_EQ(layer_of("0.weight"), "0");
  EXPECT_EQ(layer_of("model.embed_tokens.weight"), "model.embed_tokens");
  EXPECT_EQ(layer_of("fc1.weight"), "fc1");
  EXPECT_EQ(layer_of("weight"), "weight");
  EXPECT_EQ(layer_of(""), "");
  EXPECT_EQ(layer_of("."), ".");
  EXPECT_EQ(layer_of("a.b2.c"), "a.b2");
}

TEST(Report, TotalsCountWhatIsStoredOnce) {
  const ReportTotals totals = report_totals(example_report());
  EXPECT_EQ(totals.tensors, 5);
  EXPECT_EQ(totals.kept, 1);
  EXPECT_EQ(totals.compressed, 2);
  EXPECT_EQ(totals.aliased, 1);
  EXPECT_EQ(totals.dropped, 1);
  EXPECT_EQ(totals.parameters, 64 * 32 + 32 * 8 + 32);
  EXPECT_EQ(totals.compressed_parameters, 64 * 32 + 32 * 8);
  EXPECT_EQ(totals.zeros, 1024 + 3);
  EXPECT_DOUBLE_EQ(totals.ratio, 12000.0 / 3000);
  EXPECT_DOUBLE_EQ(totals.bits_per_weight, 8 * 3000.0 / 2336);
  EXPECT_DOUBLE_EQ(totals.bytes_per_second, 12000.0 / 0.25);
}

TEST(Report, TotalsOfNothingAreZeros) {
  const ReportTotals totals = report_totals({});
  EXPECT_EQ(totals.ratio, 0);
  EXPECT_EQ(totals.bits_per_weight, 0);
  EXPECT_EQ(totals.bytes_per_second, 0);
  EXPECT_TRUE(std::isinf(totals.sqnr_db));
}

TEST(Report, WorstTensorsHaveTheLowestSqnr) {
  Report report = example_report();
  EXPECT_EQ(worst_tensors(report, 5), (std::vector<std::size_t>{0, 1}));
  EXPECT_EQ(worst_tensors(report, 1), (std::vector<std::size_t>{0}));
  report.tensors[0].error->sum_error_squared = 0;
  EXPECT_EQ(worst_tensors(report, 5), (std::vector<std::size_t>{1}));
}

TEST(Report, EnvironmentNamesTheInstructionSet) {
  const ReportEnvironment environment = report_environment(3);
  EXPECT_EQ(environment.threads, 3);
  EXPECT_FALSE(environment.isa.empty());
}

}  // namespace
}  // namespace pith
