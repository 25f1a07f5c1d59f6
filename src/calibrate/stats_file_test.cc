#include "pith/calibrate/stats_file.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "tests/support/safetensors_builder.h"
#include "tests/support/temp_folder.h"
#include "tests/support/values.h"

namespace pith {
namespace {

using testing::normal_values;

using testing::ByteBuilder;
using testing::SafetensorsBuilder;
using testing::TempFolder;

ByteBuilder floats(const std::vector<float>& values) {
  ByteBuilder out;
  for (const float value : values) out.f32(value);
  return out;
}

TEST(StatsFile, ReadsBackWhatWasWritten) {
  const TempFolder folder;
  Observer observer;
  ASSERT_TRUE(observer.record("few", normal_values(60, 1, 0.5f, 2), 12).ok());
  ASSERT_TRUE(observer.record("many", normal_values(40'000, 2, 0.5f, 2), 16).ok());
  ASSERT_TRUE(observer.record("zeros", std::vector<float>(8), 4).ok());
  ASSERT_TRUE(observer.record("no columns", normal_values(5, 3, 0.5f, 2)).ok());
  const auto path = folder / "stats.safetensors";
  const Status written = write_statistics(observer, path);
  ASSERT_TRUE(written.ok()) << written.message();
  const auto again = read_statistics(path);
  ASSERT_TRUE(again) << again.error().message();
  ASSERT_EQ(again->layers().size(), 4u);
  for (const auto& [name, layer] : observer.layers()) {
    const LayerStats* other = again->find(name);
    ASSERT_NE(other, nullptr);
    EXPECT_EQ(other->values, layer.values) << name;
    EXPECT_EQ(other->columns.rows(), layer.columns.rows());
    EXPECT_EQ(other->columns.sum(), layer.columns.sum());
    EXPECT_EQ(other->columns.sum_squares(), layer.columns.sum_squares());
    EXPECT_TRUE(std::ranges::equal(other->columns.min(), layer.columns.min()));
    EXPECT_TRUE(std::ranges::equal(other->columns.absmax(), layer.columns.absmax()));
  }
  EXPECT_EQ(write_statistics(observer, path).code(), StatusCode::kAlreadyExists);
  EXPECT_EQ(write_statistics(Observer(), folder / "none").code(),
            StatusCode::kInvalidArgument);
}

TEST(StatsFile, ActivationsOfFilesAreRecordedAndStatisticsMerged) {
  const TempFolder folder;
  const std::vector<float> a = normal_values(6 * 10, 4, 0.5f, 2);
  const std::vector<float> b = normal_values(6 * 3, 5, 0.5f, 2);
  const auto first =
      folder.write("a.safetensors",
                   SafetensorsBuilder().add("layer", "F32", {2, 5, 6}, floats(a)).str());
  const auto second = folder.write(
      "b.safetensors", SafetensorsBuilder().add("x", "F32", {3, 6}, floats(b)).str());
  Observer whole;
  ASSERT_TRUE(whole.record("layer", a, 6).ok());
  ASSERT_TRUE(whole.record("layer", b, 6).ok());

  Observer one;
  const auto seen = record_activations(one, first);
  ASSERT_TRUE(seen) << seen.error().message();
  EXPECT_EQ(seen->rows, 10);
  ASSERT_TRUE(write_statistics(one, folder / "one.safetensors").ok());
  Observer both;
  ASSERT_TRUE(record_activations(both, second, "layer"));
  const auto merged = record_activations(both, folder / "one.safetensors");
  ASSERT_TRUE(merged) << merged.error().message();
  EXPECT_TRUE(merged->statistics);
  const LayerStats* layer = both.input_of("layer.weight");
  ASSERT_NE(layer, nullptr);
  EXPECT_EQ(layer->values, whole.find("layer")->values);
  EXPECT_EQ(layer->columns.rows(), 13);
  EXPECT_TRUE(
      std::ranges::equal(layer->columns.max(), whole.find("layer")->columns.max()));
  const auto mean = layer->columns.mean();
  const auto expected = whole.find("layer")->columns.mean();
  for (std::size_t j = 0; j < mean.size(); ++j) EXPECT_NEAR(mean[j], expected[j], 1e-12);
}

TEST(StatsFile, WhatIsNoStatisticsIsRefused) {
  const TempFolder folder;
  const auto plain =
      folder.write("p.safetensors",
                   SafetensorsBuilder().add("w", "F32", {1, 2}, floats({1, 2})).str());
  EXPECT_EQ(read_statistics(plain).error().code(), StatusCode::kUnsupported);
  const auto newer =
      folder.write("n.safetensors", SafetensorsBuilder()
                                        .add("w.min", "F32", {1, 2}, floats({1, 2}))
                                        .metadata("pith_statistics", "2")
                                        .str());
  EXPECT_EQ(read_statistics(newer).error().code(), StatusCode::kUnsupported);
  const auto missing =
      folder.write("m.safetensors", SafetensorsBuilder()
                                        .add("w.min", "F32", {1, 2}, floats({1, 2}))
                                        .metadata("pith_statistics", "1")
                                        .str());
  const auto refused = read_statistics(missing);
  EXPECT_EQ(refused.error().code(), StatusCode::kCorrupt);
  EXPECT_NE(refused.error().message().find("layer 'w'"), std::string::npos);
  Observer observer;
  const auto nan =
      folder.write("nan.safetensors",
                   SafetensorsBuilder().add("w", "F32", {1, 2}, floats({1, NAN})).str());
  EXPECT_EQ(record_activations(observer, nan).error().code(), StatusCode::kNotFinite);
  const auto integers =
      folder.write("i.safetensors",
                   SafetensorsBuilder().add("w", "I32", {1}, ByteBuilder().u32(1)).str());
  EXPECT_EQ(record_activations(observer, integers).error().code(),
            StatusCode::kUnsupported);
}

// A sum that no floats have, and a range that the largest magnitude contradicts.
TEST(StatsFile, FiguresThatContradictEachOtherAreCorrupt) {
  ColumnState state;
  state.rows = 1;
  state.absmax = {2};
  state.min = {-2};
  state.max = {1};
  state.sum.resize(1);
  state.sum_squares.resize(1);
  state.sum_squares[0].add(4);
  ASSERT_TRUE(ColumnStats::from_state(state));
  ColumnState wrong = state;
  wrong.max = {3};
  EXPECT_EQ(ColumnStats::from_state(wrong).error().code(), StatusCode::kCorrupt);
  wrong = state;
  wrong.sum = {};
  EXPECT_EQ(ColumnStats::from_state(wrong).error().code(), StatusCode::kCorrupt);
  wrong = state;
  wrong.min = {5};
  wrong.max = {-5};
  wrong.absmax = {0};
  wrong.sum_squares = {ExactSum()};
  EXPECT_EQ(ColumnStats::from_state(wrong).error().code(), StatusCode::kCorrupt);
}

}  // namespace
}  // namespace pith
