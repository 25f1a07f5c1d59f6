// Stages that change how weights are stored: quantize, convert.
#include <fmt/format.h>

#include "pith/pipeline/stage.h"
#include "pith/prune/sparsity.h"
#include "pith/quantize/convert.h"
#include "pith/quantize/quantize.h"
#include "src/base/text.h"

namespace pith {
namespace {

// Whole rows at a time: codes are made and decoded again.
class QuantizeStream : public StageStream {
 public:
  explicit QuantizeStream(Quantizer quantizer) : quantizer_(std::move(quantizer)) {}

  bool needs_pass() const override { return quantizer_.needs_scan(); }

  Status feed(std::span<const float> values) override {
    PITH_TRY(TensorView part, part_of(values));
    PITH_OK(quantizer_.scan(part, next_));
    next_ += part.shape().elements();
    return {};
  }

  Status end_pass() override {
    next_ = 0;
    return quantizer_.end_scan();
  }

  Status apply(std::span<float> values) override {
    const Scheme& scheme = quantizer_.scheme();
    const Shape& shape = quantizer_.shape();
    PITH_TRY(TensorView part, part_of(values));
    const std::int64_t end = next_ + part.shape().elements();
    const bool per_tensor = scheme.group == Group::kTensor;
    const std::int64_t groups =
        per_tensor ? 1
                   : scheme.group_offset(shape, end) - scheme.group_offset(shape, next_);
    codes_.resize(static_cast<std::size_t>(scheme.code_offset(shape, end) -
                                           scheme.code_offset(shape, next_)));
    if (scheme.layout == Layout::kSplit) {
      scales_.resize(static_cast<std::size_t>(groups * bits_of(scheme.scale_type) / 8));
    }
    if (!scheme.symmetric) zero_points_.resize(static_cast<std::size_t>(groups));
    PITH_OK(quantizer_.encode(part, next_, {codes_, scales_, zero_points_}));
    PITH_OK(
        dequantize_part(scheme, shape, next_, {codes_, scales_, zero_points_}, values));
    next_ = end;
    return {};
  }

  Status rewind() override {
    next_ = 0;
    return {};
  }

 private:
  Result<TensorView> part_of(std::span<const float> values) const {
    const std::int64_t count = static_cast<std::int64_t>(values.size());
    PITH_TRY(Shape shape, Shape::make({count}));
    return TensorView::of(values, std::move(shape));
  }

  Quantizer quantizer_;
  std::int64_t next_ = 0;
  std::vector<std::byte> codes_;
  std::vector<std::byte> scales_;
  std::vector<std::byte> zero_points_;
};

class QuantizeStage : public Stage {
 public:
  explicit QuantizeStage(const Scheme& scheme) : scheme_(scheme) {}

  std::string_view name() const override { return "quantize"; }
  std::string describe() const override { return scheme_.to_string(); }
  Status validate() const override { return scheme_.validate(); }

  Status fits(const TensorHeader& tensor) const override {
    const Status status = scheme_.validate(tensor.shape);
    if (status.ok()) return status;
    return status.with_context(fmt::format("tensor '{}'", printable(tensor.name)));
  }

  bool stores() const override { return true; }
  Storage storage(const Storage& before) const override {
    return {DType::kF32, scheme_, before.column_scale};
  }

  Status apply(const TensorHeader& tensor, std::span<float> values) const override {
    // Zeros decode to zeros; leaving them alone keeps the sign of -0, as the reference.
    if (count_sparsity(values).nonzero == 0) return {};
    PITH_TRY(TensorView view, TensorView::of(values, tensor.shape, tensor.name));
    PITH_TRY(QuantizedTensor codes, quantize(view, scheme_));
    return dequantize(codes, values);
  }

  Result<std::unique_ptr<StageStream>> stream(
      std::span<const TensorHeader> tensors) const override {
    const TensorHeader& tensor = tensors.front();
    PITH_TRY(Quantizer quantizer, Quantizer::make(scheme_, tensor.shape, tensor.name));
    // A flat block that does not divide a row is cut by every chunk of rows.
    if (tensor.shape.cols() % scheme_.part_alignment(tensor.shape) != 0) {
      return Stage::stream(tensors);
    }
    return std::unique_ptr<StageStream>(
        std::make_unique<QuantizeStream>(std::move(quantizer)));
  }

 private:
  Scheme scheme_;
};

class ConvertStage : public Stage {
 public:
  ConvertStage(DType dtype, bool allow_overflow)
      : dtype_(dtype), allow_overflow_(allow_overflow) {}

  std::string_view name() const override { return "convert"; }
  std::string describe() const override { return std::string(to_string(dtype_)); }

  Status validate() const override {
    if (dtype_ == DType::kF32 || dtype_ == DType::kF16 || dtype_ == DType::kBF16) {
      return {};
    }
    return Status::invalid_argument(
        fmt::format("dtype is {}, expected f32, f16 or bf16", to_string(dtype_)));
  }

  bool stores() const override { return true; }
  Storage storage(const Storage& before) const override {
    return {dtype_, {}, before.column_scale};
  }

  Status apply(const TensorHeader& tensor, std::span<float> values) const override {
    if (dtype_ == DType::kF32) return {};
    PITH_TRY(TensorView view, TensorView::of(values, tensor.shape, tensor.name));
    std::vector<std::uint16_t> halves(values.size());
    PITH_TRY(ConvertCounts counts,
             convert(view, dtype_, std::as_writable_bytes(std::span(halves))));
    if (counts.overflowed != 0 && !allow_overflow_) {
      return Status::invalid_argument(fmt::format(
          "convert: tensor '{}' has {} values beyond the largest {}, the first at index "
          "{}: {}; allow overflow, or store it in another type",
          printable(tensor.name), counts.overflowed, to_string(dtype_),
          counts.first_overflowed,
          values[static_cast<std::size_t>(counts.first_overflowed)]));
    }
    PITH_TRY(TensorView back,
             TensorView::make(dtype_, tensor.shape, std::as_bytes(std::span(halves))));
    return convert(back, DType::kF32, std::as_writable_bytes(values)).status();
  }

 private:
  DType dtype_;
  bool allow_overflow_;
};

}  // namespace

StagePtr quantize_stage(const Scheme& scheme) {
  return std::make_shared<QuantizeStage>(scheme);
}

StagePtr convert_stage(DType dtype, bool allow_overflow) {
  return std::make_shared<ConvertStage>(dtype, allow_overflow);
}

}  // namespace pith
