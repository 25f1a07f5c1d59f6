// What holds for every scheme, tensor and cut.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "pith/base/threads.h"
#include "pith/quantize/quantize.h"
#include "pith/tensor/half.h"
#include "src/kernels/target.h"

namespace pith {
namespace {

struct Case {
  Scheme scheme;
  Shape shape;
  std::vector<float> values;
};

std::vector<float> some_values(std::int64_t n, unsigned seed, int spread) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(static_cast<std::size_t>(n));
  const auto zeros = 1 + random() % 40;
  for (float& v : values) {
    v = std::ldexp(normal(random), static_cast<int>(random() % 5) * spread);
    if (random() % zeros == 0) v = 0;
    if (random() % 50 == 0) v = std::round(v);
  }
  return values;
}

rc::Gen<Scheme> schemes() {
  return rc::gen::exec([] {
    const int named = *rc::gen::inRange(0, 8);
    const std::int64_t block =
        2 * *rc::gen::element<std::int64_t>(1, 3, 8, 16, 32, 50, 64, 1000, 1500);
    if (named == 0) return Scheme::q8_0();
    if (named == 1) return Scheme::q4_0();
    if (named == 2) return Scheme::w8a8();
    if (named == 3) return Scheme::w4a16(block);
    if (named == 4) return Scheme::w4a16_asymmetric(block);
    if (named == 5)
      return Scheme::int8_flat_blocks(
          *rc::gen::element<std::int64_t>(1, 7, 32, 64, 100, 4097));
    Scheme scheme;
    scheme.bits = *rc::gen::element(4, 8);
    scheme.group =
        *rc::gen::element(Group::kTensor, Group::kRow, Group::kBlock, Group::kFlatBlock);
    scheme.block_size = block;
    scheme.scale_type = *rc::gen::element(DType::kF32, DType::kF16, DType::kBF16);
    scheme.rule =
        *rc::gen::element(ScaleRule::kAbsmax, ScaleRule::kAbsmax, ScaleRule::kHalfRange);
    scheme.symmetric = *rc::gen::element(true, true, false);
    scheme.range = *rc::gen::element(Range::kSymmetric, Range::kFull);
    scheme.rounding = *rc::gen::element(Rounding::kHalfAway, Rounding::kHalfEven);
    if (scheme.symmetric) {
      scheme.coding =
          *rc::gen::element(Coding::kStored, Coding::kExact, Coding::kInverse);
    }
    scheme.zero_group =
        *rc::gen::element(ZeroGroup::kZero, ZeroGroup::kOne, ZeroGroup::kEpsilon);
    return scheme;
  });
}

rc::Gen<Case> cases() {
  return rc::gen::exec([] {
    Case c;
    c.scheme = *schemes();
    std::int64_t rows = *rc::gen::inRange<std::int64_t>(1, 20);
    std::int64_t cols =
        *rc::gen::element<std::int64_t>(1, 2, 3, 17, 64, 100, 129, 2048, 2049, 5000);
    if (c.scheme.group == Group::kBlock) {
      cols = c.scheme.block_size * *rc::gen::inRange<std::int64_t>(1, 9);
    }
    if (*rc::gen::inRange(0, 8) == 0 && c.scheme.group != Group::kBlock) {
      rows = 2;  // longer than a piece
      cols = 70001;
    }
    c.shape = Shape::make({rows, cols}).value();
    c.values = some_values(rows * cols, *rc::gen::arbitrary<unsigned>(),
                           *rc::gen::element(0, 1, 4));
    return c;
  });
}

TensorView view(const Case& c) { return TensorView::of(c.values, c.shape, "w").value(); }

std::vector<std::byte> bytes_of(const QuantizedTensor& tensor) {
  std::vector<std::byte> all;
  for (const Buffer* buffer : {&tensor.codes, &tensor.scales, &tensor.zero_points}) {
    all.insert(all.end(), buffer->bytes().begin(), buffer->bytes().end());
  }
  return all;
}

// Half a step, what the scale lost in rounding, and a few roundings of f32. In steps of
// the scale a code is at most 128 (or 256 from the other end) away from 0.
double allowed_error(const Scheme& scheme, double scale) {
  double steps = 0.5;
  const double farthest =
      scheme.symmetric ? scheme.max_code() + 1 : 2 * scheme.max_code() + 2;
  const double lost = scheme.scale_type == DType::kF16    ? 0x1p-11
                      : scheme.scale_type == DType::kBF16 ? 0x1p-8
                                                          : 0;
  if (scheme.coding != Coding::kStored || scheme.rule == ScaleRule::kHalfRange ||
      !scheme.symmetric) {
    // Codes were not made with the scale that is stored, or that does not reach both ends.
    steps += farthest * lost;
  }
  if (!scheme.symmetric) steps += 0.5;  // the zero point is rounded, too
  if (scheme.rule == ScaleRule::kSignedMax) steps += 0.5;  // 8 becomes 7
  return scale * (steps + farthest * 0x1p-22);
}

RC_GTEST_PROP(QuantizeProperty, DecodedIsWithinHalfAStep, ()) {
  const Case c = *cases();
  RC_LOG() << c.scheme.to_string() << " of " << c.shape.to_string() << "\n";
  ErrorFigures figures;
  const QuantizedTensor q = quantize(view(c), c.scheme, {.figures = &figures}).value();
  std::vector<float> back(c.values.size());
  RC_ASSERT(dequantize(q, back).ok());
  const std::int64_t size = c.scheme.group_size(c.shape);
  double largest = 0;
  for (std::size_t i = 0; i < back.size(); ++i) {
    const double scale = std::fabs(q.scale(static_cast<std::int64_t>(i) / size));
    const double error = std::fabs(double{c.values[i]} - double{back[i]});
    largest = std::max(largest, error);
    RC_ASSERT(error <= allowed_error(c.scheme, scale));
    RC_ASSERT(c.values[i] != 0 || back[i] == 0);
  }
  // The figures are those of the decoded values.
  RC_ASSERT(figures.max_error == largest);
  const ErrorFigures expected = measure_error(c.values, back).value();
  RC_ASSERT(figures.count == expected.count);
  RC_ASSERT(figures.max_index == expected.max_index);
  RC_ASSERT(figures.zeros_before == expected.zeros_before);
  RC_ASSERT(figures.zeros_after == expected.zeros_after);
  RC_ASSERT(std::fabs(figures.rmse() - expected.rmse()) <= 1e-6 * expected.rmse());
  RC_ASSERT(std::fabs(figures.mae() - expected.mae()) <= 1e-6 * expected.mae());
  RC_ASSERT(figures.sqnr_db() == expected.sqnr_db() ||
            std::fabs(figures.sqnr_db() - expected.sqnr_db()) <= 1e-6);
}

RC_GTEST_PROP(QuantizeProperty, CodesAreNeverTheMostNegativeOfASymmetricRange, ()) {
  Case c = *cases();
  RC_PRE(c.scheme.symmetric && c.scheme.range == Range::kSymmetric);
  const QuantizedTensor q = quantize(view(c), c.scheme).value();
  for (std::int64_t i = 0; i < q.elements(); ++i) {
    RC_ASSERT(std::abs(q.code(i)) <= c.scheme.max_code());
  }
}

RC_GTEST_PROP(QuantizeProperty, ThreadsAndInstructionSetsDoNotMatter, ()) {
  const Case c = *cases();
  RC_LOG() << c.scheme.to_string() << " of " << c.shape.to_string() << "\n";
  ErrorFigures expected;
  const QuantizedTensor q = quantize(view(c), c.scheme, {.figures = &expected}).value();
  const std::vector<std::byte> bytes = bytes_of(q);
  std::vector<float> decoded(c.values.size());
  RC_ASSERT(dequantize(q, decoded).ok());
  for (const std::string& target : kernels::available_targets()) {
    for (int threads : {1, 3}) {
      RC_ASSERT(kernels::set_target(target).ok());
      const ThreadLimit limit(threads);
      ErrorFigures figures;
      const QuantizedTensor again =
          quantize(view(c), c.scheme, {.figures = &figures}).value();
      std::vector<float> back(c.values.size());
      RC_ASSERT(dequantize(again, back).ok());
      RC_ASSERT(bytes_of(again) == bytes);
      RC_ASSERT(figures == expected);
      RC_ASSERT(std::memcmp(back.data(), decoded.data(), back.size() * 4) == 0);
    }
  }
  RC_ASSERT(kernels::set_target("").ok());
}

RC_GTEST_PROP(QuantizeProperty, PartsGiveTheBytesOfTheWhole, ()) {
  Case c = *cases();
  if (c.scheme.symmetric && c.scheme.layout == Layout::kSplit &&
      *rc::gen::arbitrary<bool>()) {
    c.scheme.rule = ScaleRule::kPercentile;
    c.scheme.percentile = *rc::gen::element(0.5, 0.9, 0.999, 1.0);
  }
  RC_LOG() << c.scheme.to_string() << " of " << c.shape.to_string() << "\n";
  const QuantizedTensor whole = quantize(view(c), c.scheme).value();

  const std::int64_t n = c.shape.elements();
  const std::int64_t alignment = c.scheme.part_alignment(c.shape);
  const std::int64_t step = alignment * *rc::gen::inRange<std::int64_t>(1, 5);
  Quantizer quantizer = Quantizer::make(c.scheme, c.shape, "w").value();
  const auto part_at = [&](std::int64_t first) {
    const std::int64_t some = std::min(step, n - first);
    return TensorView::of({c.values.data() + first, static_cast<std::size_t>(some)},
                          Shape::make({some}).value(), "w")
        .value();
  };
  while (quantizer.needs_scan()) {
    for (std::int64_t i = 0; i < n; i += step) {
      RC_ASSERT(quantizer.scan(part_at(i), i).ok());
    }
    RC_ASSERT(quantizer.end_scan().ok());
  }
  std::vector<std::byte> codes(static_cast<std::size_t>(c.scheme.code_bytes(c.shape)));
  std::vector<std::byte> scales(static_cast<std::size_t>(c.scheme.scale_bytes(c.shape)));
  std::vector<std::byte> zero_points(
      static_cast<std::size_t>(c.scheme.zero_point_bytes(c.shape)));
  std::vector<float> decoded(c.values.size());
  const bool one = c.scheme.group == Group::kTensor;
  for (std::int64_t i = 0; i < n; i += step) {
    const std::int64_t end = std::min(n, i + step);
    const auto cut = [&](std::vector<std::byte>& all, std::int64_t from,
                         std::int64_t to) {
      return std::span(all).subspan(static_cast<std::size_t>(from),
                                    static_cast<std::size_t>(to - from));
    };
    const std::int64_t group = one ? 0 : c.scheme.group_offset(c.shape, i);
    const std::int64_t groups = one ? 1 : c.scheme.group_offset(c.shape, end);
    const std::int64_t width =
        c.scheme.layout == Layout::kBlocks ? 0 : bits_of(c.scheme.scale_type) / 8;
    const CodeSpans out = {
        cut(codes, c.scheme.code_offset(c.shape, i), c.scheme.code_offset(c.shape, end)),
        cut(scales, group * width, groups * width),
        c.scheme.symmetric ? std::span<std::byte>() : cut(zero_points, group, groups)};
    RC_ASSERT(quantizer.encode(part_at(i), i, out).ok());
    RC_ASSERT(
        dequantize_part(c.scheme, c.shape, i, {out.codes, out.scales, out.zero_points},
                        std::span(decoded).subspan(static_cast<std::size_t>(i),
                                                   static_cast<std::size_t>(end - i)))
            .ok());
  }
  std::vector<std::byte> all(codes);
  all.insert(all.end(), scales.begin(), scales.end());
  all.insert(all.end(), zero_points.begin(), zero_points.end());
  RC_ASSERT(all == bytes_of(whole));
  std::vector<float> expected(c.values.size());
  RC_ASSERT(dequantize(whole, expected).ok());
  RC_ASSERT(std::memcmp(decoded.data(), expected.data(), expected.size() * 4) == 0);
}

RC_GTEST_PROP(QuantizeProperty, SixteenBitSourcesGiveTheBytesOfTheirF32Values, ()) {
  Case c = *cases();
  const DType type = *rc::gen::element(DType::kF16, DType::kBF16);
  std::vector<std::uint16_t> narrow;
  for (float& v : c.values) {
    v /= 64;  // so that f16 holds it
    const std::uint16_t bits = type == DType::kF16 ? f32_to_f16(v) : f32_to_bf16(v);
    v = type == DType::kF16 ? f16_to_f32(bits) : bf16_to_f32(bits);
    narrow.push_back(bits);
  }
  if (c.scheme.symmetric && c.scheme.layout == Layout::kSplit &&
      *rc::gen::arbitrary<bool>()) {
    c.scheme.rule = ScaleRule::kPercentile;
    c.scheme.percentile = 0.9;
  }
  const TensorView source =
      TensorView::make(type, c.shape, std::as_bytes(std::span(narrow)), "w").value();
  ErrorFigures figures;
  ErrorFigures expected;
  const auto got = quantize(source, c.scheme, {.figures = &figures}).value();
  const auto same = quantize(view(c), c.scheme, {.figures = &expected}).value();
  RC_ASSERT(bytes_of(got) == bytes_of(same));
  RC_ASSERT(figures == expected);
}

RC_GTEST_PROP(QuantizeProperty, PermutedRowsGivePermutedCodes, ()) {
  Case c = *cases();
  RC_PRE(c.scheme.group == Group::kRow || c.scheme.group == Group::kBlock);
  const std::int64_t rows = c.shape.rows();
  const std::int64_t cols = c.shape.cols();
  Case turned = c;
  for (std::int64_t r = 0; r < rows; ++r) {
    std::copy_n(c.values.begin() + r * cols, cols,
                turned.values.begin() + (rows - 1 - r) * cols);
  }
  const QuantizedTensor a = quantize(view(c), c.scheme).value();
  const QuantizedTensor b = quantize(view(turned), c.scheme).value();
  const std::int64_t bytes = c.scheme.code_bytes(c.shape) / rows;
  for (std::int64_t r = 0; r < rows; ++r) {
    RC_ASSERT(std::memcmp(a.codes.data() + r * bytes,
                          b.codes.data() + (rows - 1 - r) * bytes,
                          static_cast<std::size_t>(bytes)) == 0);
  }
}

}  // namespace
}  // namespace pith
