#include "pith/report/sample.h"

#include <gtest/gtest.h>

#include <rapidcheck/gtest.h>
#include <limits>
#include <numeric>

#include "pith/quantize/quantize.h"
#include "tests/support/values.h"

namespace pith {
namespace {

using testing::shape_of;

TEST(TensorSample, SmallTensorsAreTakenWhole) {
  TensorSample sample(shape_of({2, 4}));
  sample.add_before(0, std::vector<float>{-4, -2, -1, 0, 0, 1, 2, 4});
  const Histogram histogram = sample.weights();
  EXPECT_EQ(histogram.low, -4);
  EXPECT_EQ(histogram.high, 4);
  ASSERT_EQ(histogram.counts.size(), 64U);
  EXPECT_EQ(histogram.sampled(), 8);
  EXPECT_EQ(histogram.counts[0], 1);
  EXPECT_EQ(histogram.counts[16], 1);  // -2
  EXPECT_EQ(histogram.counts[32], 2);  // 0
  EXPECT_EQ(histogram.counts[63], 1);  // the end belongs to the last bin
  EXPECT_TRUE(sample.codes().empty());
  EXPECT_TRUE(sample.nonzeros().empty());
}

TEST(TensorSample, LargeTensorsAreSampledOverAllColumns) {
  for (const auto& extents :
       {std::vector<std::int64_t>{4096, 4096}, {1000, 3072}, {7, 100000}, {300, 30}}) {
    const Shape s = Shape::make(extents).value();
    TensorSample sample(s);
    EXPECT_EQ(std::gcd(sample.stride(), s.cols()), 1);
    const std::int64_t taken = s.elements() / sample.stride();
    EXPECT_GE(taken, 2048) << s.to_string();
    EXPECT_LE(taken, 17000) << s.to_string();
  }
}

TEST(TensorSample, NotManyFewerThanWantedAreTaken) {
  EXPECT_EQ(TensorSample(shape_of({64, 96})).stride(), 1);
  EXPECT_EQ(TensorSample(shape_of({64, 128})).stride(), 1);
  EXPECT_EQ(TensorSample(shape_of({300, 30})).stride(), 1);
  EXPECT_EQ(TensorSample(shape_of({512, 512})).stride(), 63);
  EXPECT_EQ(TensorSample(shape_of({64, 32, 3, 3})).stride(), 5);  // rows of 288
}

TEST(TensorSample, ExtremesOfFloatsHaveAHistogram) {
  constexpr float kMost = std::numeric_limits<float>::max();
  TensorSample sample(shape_of({5}));
  sample.add_before(
      0, std::vector<float>{kMost, -kMost, 0, std::numeric_limits<float>::infinity(),
                            std::numeric_limits<float>::quiet_NaN()});
  EXPECT_EQ(sample.weights().sampled(), 3);
  TensorSample zeros(shape_of({3}));
  zeros.add_before(0, std::vector<float>{0, 0, -0.0F});
  EXPECT_EQ(zeros.weights().counts[32], 3);
  EXPECT_TRUE(TensorSample(shape_of({0, 4})).weights().empty());
}

TEST(TensorSample, ThumbnailShowsWhichRowsAreLeft) {
  TensorSample sample(shape_of({4, 2}), {.pruned = true});
  sample.add_after(4, std::vector<float>{1, 1, 0, 1});
  sample.add_after(0, std::vector<float>{0, -0.0F, 1, 1});
  const Thumbnail thumbnail = sample.nonzeros();
  EXPECT_EQ(thumbnail.rows, 4);
  EXPECT_EQ(thumbnail.cols, 2);
  EXPECT_EQ(thumbnail.density,
            (std::vector<std::uint8_t>{0, 0, 255, 255, 255, 255, 0, 255}));
}

TEST(TensorSample, ThumbnailOfALargeTensorHasWholeCells) {
  const Shape s = shape_of({512, 512});
  TensorSample sample(s, {.pruned = true});
  std::vector<float> values(512 * 512, 1);
  std::fill(values.begin(), values.begin() + 512 * 256, 0.0F);
  sample.add_after(0, values);
  const Thumbnail thumbnail = sample.nonzeros();
  EXPECT_EQ(thumbnail.rows, 6);
  EXPECT_EQ(thumbnail.cols, 6);
  for (std::size_t i = 0; i < 36; ++i) {
    EXPECT_EQ(thumbnail.density[i], i < 18 ? 0 : 255) << i;
  }
}

TEST(TensorSample, CellsOfAThumbnailHaveEnoughSamples) {
  for (const auto& extents : {std::vector<std::int64_t>{130, 100},
                              {512, 512},
                              {256, 384},
                              {2048, 5632},
                              {128, 64, 3, 3}}) {
    const Shape s = Shape::make(extents).value();
    std::vector<float> values(static_cast<std::size_t>(s.elements()));
    std::uint32_t state = 1;
    for (float& value : values) {
      state = state * 1664525U + 1013904223U;
      value = state >> 31U != 0 ? 1.0F : 0.0F;
    }
    TensorSample sample(s, {.pruned = true});
    sample.add_after(0, values);
    const Thumbnail thumbnail = sample.nonzeros();
    EXPECT_GE(s.elements() / sample.stride() / thumbnail.rows / thumbnail.cols, 99);
    for (const std::uint8_t density : thumbnail.density) {
      EXPECT_NEAR(density, 127.5, 255 * 0.18) << s.to_string();
    }
  }
}

TEST(TensorSample, ThumbnailsHaveTheShapeOfTheMatrix) {
  const auto cells = [](std::initializer_list<std::int64_t> extents) {
    const Thumbnail thumbnail =
        TensorSample(shape_of(extents), {.pruned = true}).nonzeros();
    return std::pair(thumbnail.rows, thumbnail.cols);
  };
  EXPECT_EQ(cells({64, 128}), std::pair(16, 32));
  EXPECT_EQ(cells({128, 64}), std::pair(32, 16));
  EXPECT_EQ(cells({256, 512}), std::pair(4, 9));  // not all are sampled
  EXPECT_EQ(cells({64, 64}), std::pair(32, 32));
  EXPECT_EQ(cells({64, 16, 1, 1}), std::pair(32, 8));
  EXPECT_EQ(cells({16, 4, 3, 3}), std::pair(14, 32));  // 16 x 36
  EXPECT_EQ(cells({10, 256}), std::pair(8, 32));       // no narrower than 4 : 1
  EXPECT_EQ(cells({5000, 2}), std::pair(11, 2));
  EXPECT_EQ(cells({100}), std::pair(1, 32));
  EXPECT_EQ(cells({}), std::pair(1, 1));
}

// All layouts of codes, and cuts at any part.
RC_GTEST_PROP(TensorSample, CodesAreThoseOfTheTensorHoweverItIsCut, ()) {
  const std::vector<Scheme> schemes = {Scheme::int8_tensor(),
                                       Scheme::int8_rows(),
                                       Scheme::int8_blocks(32),
                                       Scheme::int4_rows(),
                                       Scheme::int8_flat_blocks(6),
                                       Scheme::q8_0(),
                                       Scheme::q4_0(),
                                       Scheme::int4_blocks(16),
                                       Scheme::int4_tensor(),
                                       Scheme::w4a16_asymmetric(32)};
  const Scheme scheme = schemes[*rc::gen::inRange<std::size_t>(0, schemes.size())];
  const auto rows = *rc::gen::inRange<std::int64_t>(1, 40);
  const auto wide = *rc::gen::inRange<std::int64_t>(1, 10);
  const bool odd = scheme.group == Group::kTensor || scheme.group == Group::kRow;
  const Shape s = shape_of({rows, odd ? wide * 3 : wide * 32});
  std::vector<float> values(static_cast<std::size_t>(s.elements()));
  std::uint32_t state = *rc::gen::arbitrary<std::uint32_t>();
  for (float& value : values) {
    state = state * 1664525U + 1013904223U;
    value = static_cast<float>(static_cast<std::int32_t>(state)) * 1e-9F;
  }
  const QuantizedTensor q =
      quantize(TensorView::of(values, s, "w").value(), scheme).value();
  TensorSample sample(s, {.scheme = scheme});
  std::vector<std::int64_t> expected(scheme.bits == 8 ? 64 : 16);
  for (std::int64_t i = 0; i < s.elements(); i += sample.stride()) {
    ++expected[static_cast<std::size_t>(scheme.bits == 8 ? (q.code(i) + 128) / 4
                                                         : q.code(i) + 8)];
  }
  const std::int64_t unit = scheme.part_alignment(s);
  const std::int64_t step = unit * *rc::gen::inRange<std::int64_t>(1, 9);
  for (std::int64_t first = 0; first < s.elements(); first += step) {
    const std::int64_t count = std::min(step, s.elements() - first);
    sample.add_codes(
        first, count,
        q.codes.bytes().subspan(static_cast<std::size_t>(scheme.code_offset(s, first))));
  }
  RC_ASSERT(sample.codes().counts == expected);
}

}  // namespace
}  // namespace pith
