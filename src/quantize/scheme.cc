#include "pith/quantize/scheme.h"

#include <fmt/format.h>

#include <cmath>

#include "src/base/checked.h"
#include "src/base/parallel.h"

namespace pith {
namespace {

bool is_block(Group group) {
  return group == Group::kBlock || group == Group::kFlatBlock;
}

// Elements that lie together in whole bytes: a row, or all if nothing is lost at its end.
std::int64_t run_length(const Scheme& scheme, const Shape& shape) {
  return scheme.group == Group::kFlatBlock ? shape.elements() : shape.cols();
}

Scheme blocks(int bits, std::int64_t block_size) {
  Scheme scheme;
  scheme.bits = bits;
  scheme.group = Group::kBlock;
  scheme.block_size = block_size;
  scheme.scale_type = DType::kF16;
  return scheme;
}

Status check_choices(const Scheme& scheme) {
  const auto refuse = [](std::string_view what, std::string_view expected) {
    return Status::invalid_argument(
        fmt::format("scheme: {}, expected {}", what, expected));
  };
  if (!scheme.symmetric) {
    if (scheme.rule != ScaleRule::kAbsmax && scheme.rule != ScaleRule::kHalfRange) {
      return refuse("rule of an asymmetric scheme is neither kAbsmax nor kHalfRange",
                    "one of them");
    }
    if (scheme.coding != Coding::kStored) {
      return refuse("coding of an asymmetric scheme is not kStored", "kStored");
    }
  }
  const bool full = scheme.symmetric && scheme.range == Range::kFull;
  if (scheme.rule == ScaleRule::kSignedMax && !(full && is_block(scheme.group))) {
    return refuse("rule is kSignedMax without blocks or all codes",
                  "a symmetric scheme of blocks with range kFull");
  }
  if (scheme.rounding == Rounding::kHalfUp && !full) {
    return refuse("rounding is kHalfUp without all codes",
                  "a symmetric scheme with range kFull");
  }
  if (scheme.layout == Layout::kBlocks && scheme != Scheme::q8_0() &&
      scheme != Scheme::q4_0()) {
    return refuse("layout is kBlocks for another scheme", "q8_0() or q4_0()");
  }
  return {};
}

}  // namespace

Scheme Scheme::int8_tensor() { return {}; }

Scheme Scheme::int8_rows() {
  Scheme scheme;
  scheme.group = Group::kRow;
  return scheme;
}

Scheme Scheme::int8_blocks(std::int64_t block_size) { return blocks(8, block_size); }

Scheme Scheme::int8_flat_blocks(std::int64_t block_size) {
  Scheme scheme = blocks(8, block_size);
  scheme.group = Group::kFlatBlock;
  scheme.coding = Coding::kExact;
  scheme.zero_group = ZeroGroup::kOne;
  return scheme;
}

Scheme Scheme::int4_tensor() {
  Scheme scheme;
  scheme.bits = 4;
  return scheme;
}

Scheme Scheme::int4_rows() {
  Scheme scheme = int8_rows();
  scheme.bits = 4;
  return scheme;
}

Scheme Scheme::int4_blocks(std::int64_t block_size) { return blocks(4, block_size); }

Scheme Scheme::q8_0() {
  Scheme scheme = blocks(8, 32);
  scheme.coding = Coding::kInverse;
  scheme.layout = Layout::kBlocks;
  return scheme;
}

Scheme Scheme::q4_0() {
  Scheme scheme = blocks(4, 32);
  scheme.rule = ScaleRule::kSignedMax;
  scheme.range = Range::kFull;
  scheme.rounding = Rounding::kHalfUp;
  scheme.coding = Coding::kInverse;
  scheme.layout = Layout::kBlocks;
  return scheme;
}

Scheme Scheme::w8a8() {
  Scheme scheme = int8_rows();
  scheme.rule = ScaleRule::kHalfRange;
  scheme.range = Range::kFull;
  scheme.rounding = Rounding::kHalfEven;
  scheme.zero_group = ZeroGroup::kEpsilon;
  return scheme;
}

Scheme Scheme::w4a16(std::int64_t block_size) {
  Scheme scheme = w8a8();
  scheme.bits = 4;
  scheme.group = Group::kBlock;
  scheme.block_size = block_size;
  scheme.scale_type = DType::kBF16;
  return scheme;
}

Scheme Scheme::w4a16_asymmetric(std::int64_t block_size) {
  Scheme scheme = w4a16(block_size);
  scheme.symmetric = false;
  return scheme;
}

Status Scheme::validate() const {
  if (bits != 8 && bits != 4) {
    return Status::invalid_argument(
        fmt::format("scheme: bits is {}, expected 8 or 4", bits));
  }
  if (is_block(group)) {
    constexpr std::int64_t kEnd = std::int64_t{1} << 31;
    if (block_size < 1 || block_size >= kEnd) {
      return Status::invalid_argument(fmt::format(
          "scheme: block_size is {}, expected a value in [1, {}]", block_size, kEnd - 1));
    }
    if (bits == 4 && block_size % 2 != 0) {
      return Status::invalid_argument(fmt::format(
          "scheme: block_size is {}, expected an even value for 4 bits", block_size));
    }
  }
  if (scale_type != DType::kF32 && scale_type != DType::kF16 &&
      scale_type != DType::kBF16) {
    return Status::invalid_argument(
        fmt::format("scheme: scale_type is {}, expected f32, f16 or bf16",
                    pith::to_string(scale_type)));
  }
  if (rule == ScaleRule::kPercentile && !(percentile >= 0 && percentile <= 1)) {
    return Status::invalid_argument(
        fmt::format("scheme: percentile is {}, expected a value in [0, 1]", percentile));
  }
  if (rule == ScaleRule::kGiven && !(given_scale > 0 && std::isfinite(given_scale))) {
    return Status::invalid_argument(fmt::format(
        "scheme: given_scale is {}, expected a finite value above 0", given_scale));
  }
  return check_choices(*this);
}

Status Scheme::validate(const Shape& shape) const {
  PITH_OK(validate());
  if (group == Group::kRow && shape.rank() == 0) {
    return Status::invalid_argument(
        "scheme: the group is a row, but the shape is [], expected at least one extent");
  }
  if (group == Group::kBlock && shape.cols() % block_size != 0) {
    return Status::invalid_argument(fmt::format(
        "scheme: block_size is {}, expected a divisor of the row length {} of shape {}",
        block_size, shape.cols(), shape.to_string()));
  }
  // Scales of tiny blocks can need more bytes than the codes.
  const CheckedSize bytes = CheckedSize::from_signed(shape.elements()) * 9 + 64;
  if (!bytes.fits_int64()) {
    return Status::invalid_argument(
        fmt::format("scheme: shape {} has {} elements, too many for codes and scales",
                    shape.to_string(), shape.elements()));
  }
  return {};
}

int Scheme::min_code() const {
  return symmetric && range == Range::kSymmetric ? -max_code() : -max_code() - 1;
}

std::int64_t Scheme::group_size(const Shape& shape) const {
  switch (group) {
    case Group::kTensor:
      return shape.elements();
    case Group::kRow:
      return shape.cols();
    case Group::kBlock:
    case Group::kFlatBlock:
      return block_size;
  }
  return 0;
}

std::int64_t Scheme::groups(const Shape& shape) const {
  if (group == Group::kTensor) return 1;
  return shape.elements() == 0 ? 0 : piece_count(shape.elements(), group_size(shape));
}

std::int64_t Scheme::code_bytes(const Shape& shape) const {
  return code_offset(shape, shape.elements());
}

std::int64_t Scheme::scale_bytes(const Shape& shape) const {
  return layout == Layout::kBlocks ? 0 : groups(shape) * (bits_of(scale_type) / 8);
}

std::int64_t Scheme::zero_point_bytes(const Shape& shape) const {
  return symmetric ? 0 : groups(shape);
}

std::int64_t Scheme::part_alignment(const Shape& shape) const {
  const std::int64_t size =
      group == Group::kFlatBlock ? block_size : run_length(*this, shape);
  return size == 0 ? 1 : size;
}

std::int64_t Scheme::code_offset(const Shape& shape, std::int64_t first) const {
  if (layout == Layout::kBlocks) {
    return first / block_size * (block_size * bits / 8 + bits_of(scale_type) / 8);
  }
  if (bits == 8) return first;
  const std::int64_t run = run_length(*this, shape);
  if (run == 0) return 0;
  return first / run * piece_count(run, 2) + piece_count(first % run, 2);
}

std::int64_t Scheme::group_offset(const Shape& shape, std::int64_t first) const {
  if (group == Group::kTensor || first == 0) return 0;
  return piece_count(first, group_size(shape));
}

std::string Scheme::to_string() const {
  if (*this == q8_0()) return "q8_0";
  if (*this == q4_0()) return "q4_0";
  std::string text = fmt::format("{}int{}", symmetric ? "" : "asymmetric ", bits);
  switch (group) {
    case Group::kTensor:
      text += " tensor";
      break;
    case Group::kRow:
      text += " row";
      break;
    case Group::kBlock:
      text += fmt::format(" block({})", block_size);
      break;
    case Group::kFlatBlock:
      text += fmt::format(" flat_block({})", block_size);
      break;
  }
  text += fmt::format(" {}", pith::to_string(scale_type));
  switch (rule) {
    case ScaleRule::kAbsmax:
      break;
    case ScaleRule::kPercentile:
      text += fmt::format(" percentile({})", percentile);
      break;
    case ScaleRule::kGiven:
      text += fmt::format(" scale({})", given_scale);
      break;
    case ScaleRule::kHalfRange:
      text += " half_range";
      break;
    case ScaleRule::kSignedMax:
      text += " signed_max";
      break;
  }
  if (symmetric && range == Range::kFull) text += " full";
  if (rounding == Rounding::kHalfEven) text += " half_even";
  if (rounding == Rounding::kHalfUp) text += " half_up";
  if (coding == Coding::kExact) text += " exact";
  if (coding == Coding::kInverse) text += " inverse";
  return text;
}

}  // namespace pith
