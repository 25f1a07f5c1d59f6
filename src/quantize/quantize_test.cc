#include "pith/quantize/quantize.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "pith/tensor/half.h"

namespace pith {
namespace {

TensorView view(const std::vector<float>& values,
                std::initializer_list<std::int64_t> extents,
                std::string_view name = "w") {
  return TensorView::of(values, Shape::make(extents).value(), name).value();
}

std::vector<int> codes_of(const QuantizedTensor& tensor) {
  std::vector<int> codes;
  for (std::int64_t i = 0; i < tensor.elements(); ++i) codes.push_back(tensor.code(i));
  return codes;
}

std::string hex(std::span<const std::byte> bytes) {
  std::string text;
  for (std::byte b : bytes) {
    constexpr std::string_view kDigits = "0123456789abcdef";
    text += kDigits[std::to_integer<std::size_t>(b >> 4)];
    text += kDigits[std::to_integer<std::size_t>(b & std::byte{15})];
    text += ' ';
  }
  if (!text.empty()) text.pop_back();
  return text;
}

std::vector<float> decoded(const QuantizedTensor& tensor) {
  std::vector<float> values(static_cast<std::size_t>(tensor.elements()));
  EXPECT_TRUE(dequantize(tensor, values).ok());
  return values;
}

// A failure of that kind whose message has all of `words`.
template <typename T>
void expect_refused(const Result<T>& result, StatusCode code,
                    std::initializer_list<std::string_view> words) {
  ASSERT_FALSE(result.has_value());
  EXPECT_EQ(result.error().code(), code) << result.error().message();
  for (std::string_view word : words) {
    EXPECT_NE(result.error().message().find(word), std::string::npos)
        << result.error().message();
  }
}

TEST(Quantize, RowsByHand) {
  const QuantizedTensor q =
      quantize(view({127, 2.5F, -2.5F, 0.4F, 0, 0, 0, -0.0F}, {2, 4}),
               Scheme::int8_rows())
          .value();
  EXPECT_EQ(codes_of(q), (std::vector<int>{127, 3, -3, 0, 0, 0, 0, 0}));
  EXPECT_EQ(q.scale(0), 1);
  EXPECT_EQ(q.scale(1), 0);
  EXPECT_EQ(q.stored_bytes(), 8 + 2 * 4);
  EXPECT_EQ(decoded(q), (std::vector<float>{127, 3, -3, 0, 0, 0, 0, 0}));
}

// Groups whose scale is subnormal or 0 interrupt the kernel for ordinary ones; a row alone
// has too few groups for it.
TEST(Quantize, RareGroupsAmongOrdinaryOnes) {
  constexpr std::int64_t kTestRows = 200;
  constexpr std::int64_t kTestCols = 64;
  std::vector<float> values(kTestRows * kTestCols);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::size_t block = i / 32;
    const float size = block % 37 == 5 ? 1e-7F : block % 41 == 6 ? 0.0F : 1.0F;
    values[i] = size * std::sin(static_cast<float>(i * i % 1001));
  }
  for (const Scheme& scheme :
       {Scheme::int8_blocks(32), Scheme::int8_blocks(64), Scheme::int4_blocks(32),
        Scheme::int8_flat_blocks(64), Scheme::q8_0(), Scheme::q4_0()}) {
    SCOPED_TRACE(scheme.to_string());
    ErrorFigures figures;
    const TensorView all = view(values, {kTestRows, kTestCols});
    const QuantizedTensor whole = quantize(all, scheme).value();
    const QuantizedTensor measured = quantize(all, scheme, {.figures = &figures}).value();
    EXPECT_EQ(hex(measured.codes.bytes()), hex(whole.codes.bytes()));
    std::string codes;
    std::string scales;
    for (auto row = values.begin(); row != values.end(); row += kTestCols) {
      const std::vector<float> alone(row, row + kTestCols);
      const QuantizedTensor q = quantize(view(alone, {1, kTestCols}), scheme).value();
      codes += hex(q.codes.bytes()) + ' ';
      scales += hex(q.scales.bytes()) + ' ';
    }
    EXPECT_EQ(hex(whole.codes.bytes()) + ' ', codes);
    if (scheme.layout == Layout::kSplit) {
      EXPECT_EQ(hex(whole.scales.bytes()) + ' ', scales);
    }
    figures.saturated = 0;  // which measure_error() cannot know
    EXPECT_EQ(figures, measure_error(values, decoded(whole)).value());
  }
}

TEST(Quantize, FourBitCodesLieTwoPerByteAndRowsBeginAByte) {
  const QuantizedTensor q =
      quantize(view({7, -7, 1, -1, 2, 3}, {2, 3}), Scheme::int4_tensor()).value();
  EXPECT_EQ(hex(q.codes.bytes()), "97 01 2f 03");
  EXPECT_EQ(codes_of(q), (std::vector<int>{7, -7, 1, -1, 2, 3}));
  EXPECT_EQ(decoded(q), (std::vector<float>{7, -7, 1, -1, 2, 3}));
}

TEST(Quantize, GgufBlocksAreThoseOfItsReferenceQuantizer) {
  std::vector<float> ramp(32);
  std::iota(ramp.begin(), ramp.end(), -16.0F);
  const auto bytes = [](const std::vector<float>& values, const Scheme& scheme) {
    return hex(quantize(view(values, {1, 32}), scheme).value().codes.bytes());
  };
  EXPECT_EQ(
      bytes(ramp, Scheme::q8_0()),
      "08 30 81 89 91 99 a1 a9 b1 b9 c0 c8 d0 d8 e0 e8 f0 f8 00 08 10 18 20 28 30 38 "
      "40 47 4f 57 5f 67 6f 77");
  EXPECT_EQ(bytes(ramp, Scheme::q4_0()),
            "00 40 80 91 91 a2 a2 b3 b3 c4 c4 d5 d5 e6 e6 f7 f7 f8");
  std::vector<float> ties = {127, 0.5F, -0.5F, 1.5F, -1.5F, 2.5F, -2.5F};
  ties.resize(32);
  EXPECT_EQ(bytes(ties, Scheme::q8_0()).substr(0, 26), "00 3c 7f 01 ff 02 fe 03 fd");
  std::vector<float> equal = {1, -1};
  equal.resize(32);
  EXPECT_EQ(bytes(equal, Scheme::q4_0()).substr(0, 14), "00 b0 80 8f 88");
  std::swap(equal[0], equal[1]);
  EXPECT_EQ(bytes(equal, Scheme::q4_0()).substr(0, 14), "00 30 80 8f 88");
  const std::vector<float> zeros(32);
  EXPECT_EQ(bytes(zeros, Scheme::q4_0()).substr(0, 8), "00 80 88");
  EXPECT_EQ(bytes(zeros, Scheme::q8_0()).substr(0, 8), "00 00 00");
}

TEST(Quantize, GgufKeepsQuantsOfAScaleThatVanishes) {
  std::vector<float> tiny(32, 1e-7F);
  const QuantizedTensor q8 = quantize(view(tiny, {32}), Scheme::q8_0()).value();
  EXPECT_EQ(q8.scale(0), 0);
  EXPECT_EQ(q8.code(0), 127);
  EXPECT_EQ(decoded(q8)[0], 0);
  // 1 / scale is infinite: bytes of 0.
  tiny.assign(32, 1e-38F);
  const QuantizedTensor smaller = quantize(view(tiny, {32}), Scheme::q8_0()).value();
  EXPECT_EQ(smaller.code(0), 0);
  tiny.assign(32, 1e-39F);
  const QuantizedTensor q4 = quantize(view(tiny, {32}), Scheme::q4_0()).value();
  EXPECT_EQ(q4.code(0), -8);
}

TEST(Quantize, GgufScaleBeyondF16IsRefused) {
  std::vector<float> large(64, 1);
  large[40] = 127.0F * 65520;
  expect_refused(quantize(view(large, {64}), Scheme::q8_0()),
                 StatusCode::kInvalidArgument, {"'w'", "element 32", "f16"});
  large[40] = 127.0F * 65500;
  EXPECT_TRUE(quantize(view(large, {64}), Scheme::q8_0()).has_value());
}

TEST(Quantize, CompressedTensorsScales) {
  // amax / 127.5 and amax / 7.5, ties to even, all codes.
  const QuantizedTensor w8 =
      quantize(view({127.5F, -127.5F, 0.5F, 1.5F}, {1, 4}), Scheme::w8a8()).value();
  EXPECT_EQ(w8.scale(0), 1);
  EXPECT_EQ(codes_of(w8), (std::vector<int>{127, -128, 0, 2}));
  const QuantizedTensor w4 =
      quantize(view({7.5F, -7.5F, 2.5F, -1, 0, 0, 0, 0}, {2, 4}), Scheme::w4a16(4))
          .value();
  EXPECT_EQ(w4.scale(0), 1);
  EXPECT_EQ(codes_of(w4), (std::vector<int>{7, -8, 2, -1, 0, 0, 0, 0}));
  EXPECT_EQ(w4.scale(1), 0.0078125F);
}

TEST(Quantize, AsymmetricCodesHaveAnExactZero) {
  const QuantizedTensor q =
      quantize(view({-1, 0, 14, 3, 2, 4, 6, 30}, {2, 4}), Scheme::w4a16_asymmetric(4))
          .value();
  EXPECT_EQ(q.scale(0), 1);
  EXPECT_EQ(q.zero_point(0), -7);
  EXPECT_EQ(q.scale(1), 2);
  EXPECT_EQ(q.zero_point(1), -8);
  EXPECT_EQ(codes_of(q), (std::vector<int>{-8, -7, 7, -4, -7, -6, -5, 7}));
  EXPECT_EQ(decoded(q), (std::vector<float>{-1, 0, 14, 3, 2, 4, 6, 30}));
}

TEST(Quantize, AsymmetricWidthBeyondF32) {
  constexpr float kMax = std::numeric_limits<float>::max();
  Scheme scheme = Scheme::int8_rows();
  scheme.symmetric = false;
  const QuantizedTensor q = quantize(view({kMax, -kMax, 0}, {1, 3}), scheme).value();
  EXPECT_TRUE(std::isfinite(q.scale(0)));
  EXPECT_EQ(q.code(2), q.zero_point(0));
}

TEST(Quantize, FlatBlocksAreTheReferencesBlockwiseCodec) {
  // Codes come from the f32 scale, the stored one is rounded; a block of zeros has 1.
  const QuantizedTensor q =
      quantize(view({0.9488422F, 0.1F, 0, 0, 0.3F}, {5}), Scheme::int8_flat_blocks(2))
          .value();
  EXPECT_EQ(f32_to_f16(q.scale(0)), 0x1fa7);
  EXPECT_EQ(q.scale(1), 1);
  EXPECT_EQ(codes_of(q), (std::vector<int>{127, 13, 0, 0, 127}));
}

TEST(Quantize, SmallGroupsDoNotVanishInF16) {
  // Scales below 2^-14 are coarse in f16, below 2^-25 they would be 0.
  for (float v : {1.2e-5F, 3e-6F, 7.5e-6F, 2e-7F, 5e-8F}) {
    for (const Scheme& scheme : {Scheme::int8_blocks(2), Scheme::int8_flat_blocks(2)}) {
      const QuantizedTensor q = quantize(view({v, -v / 3}, {2}), scheme).value();
      EXPECT_GT(q.scale(0), 0);
      const std::vector<float> back = decoded(q);
      EXPECT_LE(std::fabs(back[0] - v), q.scale(0) / 2) << v;
      EXPECT_LE(std::fabs(back[1] + v / 3), q.scale(0) / 2) << v;
    }
  }
}

TEST(Quantize, ScaleBeyondF16IsAnErrorThatSaysWhatToDo) {
  expect_refused(quantize(view({1, 2, 1e9F, 1}, {2, 2}), Scheme::int8_flat_blocks(2)),
                 StatusCode::kInvalidArgument,
                 {"'w'", "element 2", "1000000000", "f16", "f32"});
  Scheme bf16 = Scheme::int8_blocks(2);
  bf16.scale_type = DType::kBF16;
  EXPECT_TRUE(quantize(view({1, 2, 3e38F, 1}, {2, 2}), bf16).has_value());
  Scheme tensor;
  tensor.scale_type = DType::kF16;
  expect_refused(quantize(view({1e9F}, {1}), tensor), StatusCode::kInvalidArgument,
                 {"f16"});
}

TEST(Quantize, SubnormalValuesKeepTheirCodes) {
  // A scale of one or two units of the last place saturates, as the reference does.
  const float unit = std::numeric_limits<float>::denorm_min();
  const QuantizedTensor q =
      quantize(view({180 * unit, -180 * unit, unit}, {3}), Scheme::int8_tensor()).value();
  EXPECT_EQ(q.scale(0), unit);
  EXPECT_EQ(codes_of(q), (std::vector<int>{127, -127, 1}));
  // A scale that underflows to 0 gives codes 0.
  const QuantizedTensor zero =
      quantize(view({60 * unit, -unit}, {2}), Scheme::int8_tensor()).value();
  EXPECT_EQ(zero.scale(0), 0);
  EXPECT_EQ(codes_of(zero), (std::vector<int>{0, 0}));
}

TEST(Quantize, NonFiniteIsRefusedWithTensorAndIndex) {
  for (const Scheme& scheme : {Scheme::int8_tensor(), Scheme::int8_rows(),
                               Scheme::int8_flat_blocks(7), Scheme::int4_rows()}) {
    std::vector<float> values(300000, 1);
    values[200001] = NAN;
    values[200002] = values[250000] = -INFINITY;
    expect_refused(quantize(view(values, {3, 100000}, "layers.3.w"), scheme),
                   StatusCode::kNotFinite, {"'layers.3.w'", "element 200001", "nan"});
    values[200001] = 1;
    expect_refused(quantize(view(values, {3, 100000}), scheme), StatusCode::kNotFinite,
                   {"element 200002", "-inf"});
  }
}

TEST(Quantize, NonFiniteCanBeCounted) {
  for (Scheme scheme :
       {Scheme::int8_tensor(), Scheme::int8_rows(), Scheme::int8_blocks(5)}) {
    scheme.scale_type = DType::kF32;
    ErrorFigures figures;
    const QuantizedTensor q =
        quantize(view({NAN, INFINITY, -INFINITY, 127, -1}, {1, 5}), scheme,
                 {.non_finite = NonFinite::kCount, .figures = &figures})
            .value();
    EXPECT_EQ(q.scale(0), 1);
    EXPECT_EQ(codes_of(q), (std::vector<int>{0, 127, -127, 127, -1}));
    EXPECT_EQ(figures.non_finite, 3);
    EXPECT_EQ(figures.count, 2);
    EXPECT_EQ(figures.max_error, 0);
  }
}

TEST(Quantize, PercentileSaturatesAndIsCounted) {
  std::vector<float> values(100, 1);
  values[50] = 3;
  values[51] = -3;
  Scheme scheme;
  scheme.rule = ScaleRule::kPercentile;
  scheme.percentile = 0.98;
  ErrorFigures figures;
  const QuantizedTensor q =
      quantize(view(values, {100}), scheme, {.figures = &figures}).value();
  EXPECT_EQ(q.scale(0), 1 / 127.0F);
  EXPECT_EQ(q.code(50), 127);
  EXPECT_EQ(q.code(51), -127);
  EXPECT_EQ(figures.saturated, 2);
  EXPECT_EQ(figures.max_index, 50);
  EXPECT_NEAR(figures.max_error, 2, 1e-6);
  // Mostly zeros: the percentile is 0, and the largest magnitude counts.
  values.assign(100, 0);
  values[7] = 5;
  EXPECT_EQ(quantize(view(values, {100}), scheme).value().scale(0), 5 / 127.0F);
}

// Chunks whose largest errors grow little by little: none may be passed over because its
// scales are thought to be too small for it.
TEST(Quantize, LargestErrorAmongScalesThatGrow) {
  std::vector<Scheme> schemes;
  for (const Scheme& scheme : {Scheme::int8_rows(), Scheme::int8_blocks(32),
                               Scheme::int8_blocks(64), Scheme::int4_blocks(32)}) {
    for (DType type : {DType::kF32, DType::kF16, DType::kBF16}) {
      for (Coding coding : {Coding::kStored, Coding::kExact}) {
        schemes.push_back(scheme);
        schemes.back().scale_type = type;
        schemes.back().coding = coding;
      }
    }
  }
  schemes.push_back(Scheme::q8_0());
  constexpr std::int64_t kTestRows = 400;
  constexpr std::int64_t kTestCols = 4096;
  for (const Scheme& scheme : schemes) {
    const auto most = static_cast<float>(scheme.max_code());
    std::mt19937 random(3);
    std::vector<float> values(kTestRows * kTestCols);
    for (std::size_t i = 0; i < values.size(); ++i) {
      const auto row = static_cast<float>(i / kTestCols);
      const float code = static_cast<float>(random() % 1000) / 1000 * most;
      const float step = 1 + 0.0007F * row;
      values[i] = (i % 32 == 0 ? most : random() % 2 == 0 ? code : -code) * step;
    }
    ErrorFigures figures;
    const QuantizedTensor q =
        quantize(view(values, {kTestRows, kTestCols}), scheme, {.figures = &figures})
            .value();
    const ErrorFigures expected = measure_error(values, decoded(q)).value();
    EXPECT_EQ(figures.max_error, expected.max_error) << scheme.to_string();
    EXPECT_EQ(figures.max_index, expected.max_index) << scheme.to_string();
  }
}

// Errors of values that were changed before are measured against what they were.
TEST(Quantize, FiguresAgainstOriginals) {
  std::vector<float> originals(std::size_t{6} * 4096);
  for (std::size_t i = 0; i < originals.size(); ++i) {
    originals[i] = std::sin(static_cast<float>(i)) + (i == 9000 ? 3.0F : 0.0F);
  }
  std::vector<float> changed = originals;
  for (float& value : changed) value = std::fabs(value) < 0.5F ? 0 : value;
  for (const Scheme& scheme :
       {Scheme::int8_rows(), Scheme::int8_tensor(), Scheme::int8_blocks(32),
        Scheme::int4_blocks(64), Scheme::q8_0(), Scheme::q4_0(),
        Scheme::w4a16_asymmetric(32)}) {
    const TensorView weight = view(changed, {6, 4096});
    Quantizer quantizer = Quantizer::make(scheme, weight.shape()).value();
    while (quantizer.needs_scan()) {
      ASSERT_TRUE(quantizer.scan(weight, 0).ok());
      ASSERT_TRUE(quantizer.end_scan().ok());
    }
    QuantizedTensor q = quantize(weight, scheme).value();
    ErrorFigures figures;
    ASSERT_TRUE(quantizer
                    .encode(weight, 0,
                            {q.codes.bytes(), q.scales.bytes(), q.zero_points.bytes()},
                            &figures, originals)
                    .ok());
    const ErrorFigures expected = measure_error(originals, decoded(q)).value();
    EXPECT_EQ(figures.count, expected.count);
    EXPECT_NEAR(figures.rmse() / expected.rmse(), 1, 1e-6) << scheme.to_string();
    EXPECT_NEAR(figures.mae() / expected.mae(), 1, 1e-6);
    EXPECT_EQ(figures.max_error, expected.max_error);
    EXPECT_EQ(figures.max_index, expected.max_index);
    EXPECT_EQ(figures.zeros_before, expected.zeros_before);
    EXPECT_EQ(figures.zeros_after, expected.zeros_after);
    const std::span<const float> few = std::span(originals).first(7);
    EXPECT_FALSE(quantizer
                     .encode(weight, 0,
                             {q.codes.bytes(), q.scales.bytes(), q.zero_points.bytes()},
                             &figures, few)
                     .ok());
  }
}

TEST(Quantize, GivenScale) {
  Scheme scheme;
  scheme.rule = ScaleRule::kGiven;
  scheme.given_scale = 0.5F;
  const QuantizedTensor q = quantize(view({1, -1.25F, 1000}, {3}), scheme).value();
  EXPECT_EQ(q.scale(0), 0.5F);
  EXPECT_EQ(codes_of(q), (std::vector<int>{2, -3, 127}));
}

TEST(Quantize, ScalesOfAnotherMethod) {
  const std::vector<float> values = {1, 2, 3, 10, 20, 300};
  const Shape shape = Shape::make({2, 3}).value();
  Scheme scheme = Scheme::int8_rows();
  const Quantizer quantizer = Quantizer::make(scheme, shape, "w").value();
  std::vector<std::byte> codes(6);
  std::vector<float> scales = {0.5F, 10};
  ErrorFigures figures;
  ASSERT_TRUE(quantizer
                  .encode_with_scales(view(values, {2, 3}), 0,
                                      {codes, std::as_writable_bytes(std::span(scales))},
                                      &figures)
                  .ok());
  EXPECT_EQ(hex(codes), "02 04 06 01 02 1e");
  EXPECT_EQ(figures.max_error, 0);
  scales[1] = -1;
  const Status status = quantizer.encode_with_scales(
      view(values, {2, 3}), 0, {codes, std::as_writable_bytes(std::span(scales))});
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("scale of element 3 is -1"), std::string::npos)
      << status.message();
}

TEST(Quantize, NothingGivesNothing) {
  const QuantizedTensor tensor = quantize(view({}, {0}), Scheme::int8_tensor()).value();
  EXPECT_EQ(tensor.codes.size(), 0);
  EXPECT_EQ(tensor.scale(0), 0);
  const QuantizedTensor rows = quantize(view({}, {3, 0}), Scheme::int8_rows()).value();
  EXPECT_EQ(rows.stored_bytes(), 0);
  const QuantizedTensor blocks =
      quantize(view({}, {0, 64}), Scheme::int8_blocks(32)).value();
  EXPECT_EQ(blocks.stored_bytes(), 0);
  EXPECT_TRUE(dequantize(blocks, {}).ok());
}

TEST(Quantize, OtherElementTypesAreUnsupported) {
  const std::vector<std::byte> bytes(4);
  const TensorView ints =
      TensorView::make(DType::kI8, Shape::make({4}).value(), bytes, "ids").value();
  expect_refused(quantize(ints, Scheme::int8_tensor()), StatusCode::kUnsupported,
                 {"'ids'", "i8", "f32, f16 or bf16"});
}

TEST(Quantize, PartsThatDoNotFitAreRefused) {
  const std::vector<float> values(12, 1);
  const Shape shape = Shape::make({4, 6}).value();
  const Quantizer rows = Quantizer::make(Scheme::int8_rows(), shape, "w").value();
  std::vector<std::byte> codes(12);
  std::vector<std::byte> scales(8);
  EXPECT_TRUE(rows.encode(view(values, {2, 6}), 12, {codes, scales}).ok());
  EXPECT_NE(rows.encode(view(values, {2, 6}), 3, {codes, scales})
                .message()
                .find("multiples of 6"),
            std::string::npos);
  EXPECT_FALSE(rows.encode(view(values, {2, 6}), 18, {codes, scales}).ok());
  EXPECT_NE(rows.encode(view(values, {2, 6}), 0, {codes, codes})
                .message()
                .find("scales has 12 bytes, expected 8"),
            std::string::npos);
  Quantizer tensor = Quantizer::make(Scheme::int8_tensor(), shape, "w").value();
  EXPECT_FALSE(tensor.encode(view(values, {2, 6}), 0, {codes, scales}).ok());
  EXPECT_TRUE(tensor.scan(view(values, {2, 6}), 0).ok());
  EXPECT_NE(tensor.end_scan().message().find("saw 12 elements, expected 24"),
            std::string::npos);
}

TEST(Quantize, ATensorThatGrowsAfterItsScanIsNoticed) {
  std::vector<float> values(8, 1);
  Quantizer quantizer =
      Quantizer::make(Scheme::int8_tensor(), Shape::make({8}).value(), "w").value();
  ASSERT_TRUE(quantizer.scan(view(values, {8}), 0).ok());
  ASSERT_TRUE(quantizer.end_scan().ok());
  values[3] = 2;
  std::vector<std::byte> codes(8);
  std::vector<std::byte> scale(4);
  EXPECT_NE(
      quantizer.encode(view(values, {8}), 0, {codes, scale}).message().find("changed"),
      std::string::npos);
}

TEST(Dequantize, SizesMustAgree) {
  const QuantizedTensor q = quantize(view({1, 2}, {2}), Scheme::int8_tensor()).value();
  std::vector<float> out(3);
  EXPECT_EQ(dequantize(q, out).code(), StatusCode::kInvalidArgument);
}

TEST(ComputeScale, Rules) {
  const std::vector<float> values = {1, -4, 2, -3, 0};
  EXPECT_EQ(compute_scale(values, 127).value(), 4 / 127.0F);
  const auto percentile = [&](double p) {
    return compute_scale(values, 7, ScaleRule::kPercentile, p).value();
  };
  EXPECT_EQ(percentile(1), 4 / 7.0F);
  EXPECT_EQ(percentile(0.8), 3 / 7.0F);
  EXPECT_EQ(percentile(0.6), 2 / 7.0F);
  EXPECT_EQ(percentile(0), 4 / 7.0F);  // 0 is the percentile: the largest instead
  EXPECT_EQ(compute_scale({}, 127).value(), 0);
}

TEST(ComputeScale, LargestOfManyIsSeenByThePercentile) {
  std::vector<float> values(100000);
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = i % 20 == 0 ? static_cast<float>(i + 1) : 0.0F;
  }
  const auto percentile = [&](double p, NonFinite policy = NonFinite::kError) {
    return compute_scale(values, 1, ScaleRule::kPercentile, p, policy);
  };
  EXPECT_EQ(percentile(1).value(), 99981);
  EXPECT_EQ(percentile(0.5).value(), 99981);  // 0 is the percentile
  EXPECT_EQ(percentile(0.9500049).value(), 1);
  values[77777] = -INFINITY;
  expect_refused(percentile(0.99), StatusCode::kNotFinite, {"value 77777 is -inf"});
  EXPECT_EQ(percentile(0.5, NonFinite::kCount).value(), 99981);
}

TEST(ComputeScale, BadArguments) {
  const std::vector<float> values = {1, NAN, 2};
  for (float code : {0.0F, -127.0F, NAN, INFINITY}) {
    expect_refused(compute_scale(values, code), StatusCode::kInvalidArgument,
                   {"largest_code", "above 0"});
  }
  for (double p : {-0.1, 1.1, std::nan(""), HUGE_VAL}) {
    expect_refused(compute_scale(values, 127, ScaleRule::kPercentile, p),
                   StatusCode::kInvalidArgument, {"percentile", "[0, 1]"});
  }
  expect_refused(compute_scale(values, 127), StatusCode::kNotFinite, {"value 1 is nan"});
  EXPECT_EQ(compute_scale(values, 127, ScaleRule::kAbsmax, 1, NonFinite::kCount).value(),
            2 / 127.0F);
}

TEST(ComputeScale, CountsBeyond24BitsAreExact) {
  std::vector<float> values((1 << 24) + 1, 1);
  values[5] = 100;
  EXPECT_EQ(compute_scale(values, 127, ScaleRule::kPercentile, 1).value(), 100 / 127.0F);
}

}  // namespace
}  // namespace pith
