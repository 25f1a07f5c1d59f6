// SmoothQuant: columns are multiplied by factors before weights are quantized.
#include <fmt/format.h>
#include <xxhash.h>

#include <utility>

#include "pith/pipeline/stage.h"
#include "src/base/text.h"
#include "src/kernels/moments.h"

namespace pith {
namespace {

class SmoothStream : public StageStream {
 public:
  SmoothStream(const TensorHeader& tensor, const ColumnStats& input,
               const SmoothOptions& options)
      : name_(tensor.name),
        cols_(tensor.shape.cols()),
        input_(input),
        options_(options),
        absmax_(static_cast<std::size_t>(cols_)) {}

  bool needs_pass() const override { return factors_.empty(); }

  Status feed(std::span<const float> values) override {
    kernels::column_absmax(values.data(),
                           static_cast<std::int64_t>(values.size()) / cols_, cols_, cols_,
                           absmax_.data());
    return {};
  }

  Status end_pass() override {
    const auto named = [&](const Status& status) {
      return status.with_context(fmt::format("smooth: tensor '{}'", printable(name_)));
    };
    Result<std::vector<float>> factors = smooth_factors(input_, absmax_, options_);
    if (!factors) return named(factors.error());
    Result<std::vector<float>> inverse = inverse_factors(*factors);
    if (!inverse) return named(inverse.error());
    factors_ = *std::move(factors);
    inverse_ = *std::move(inverse);
    return {};
  }

  Status apply(std::span<float> values) override {
    return smooth_weights(values, static_cast<std::int64_t>(values.size()) / cols_, cols_,
                          factors_);
  }

  std::span<const float> column_scale() const override { return inverse_; }

 private:
  std::string name_;
  std::int64_t cols_;
  const ColumnStats& input_;
  SmoothOptions options_;
  std::vector<float> absmax_;   // of the weight's columns
  std::vector<float> factors_;  // after the pass
  std::vector<float> inverse_;
};

class SmoothStage : public Stage {
 public:
  SmoothStage(std::shared_ptr<const Observer> statistics, const SmoothOptions& options)
      : statistics_(std::move(statistics)), options_(options) {}

  std::string_view name() const override { return "smooth"; }
  std::string describe() const override {
    return fmt::format("smooth {}", options_.alpha);
  }
  Status validate() const override { return options_.validate(); }

  std::string skip_reason(const TensorHeader& tensor) const override {
    if (tensor.shape.rank() != 2) return "is not two-dimensional";
    if (tensor.shape.elements() == 0) return "has no elements";
    return input_of(tensor) == nullptr ? "has no statistics of its input" : "";
  }

  Status fits(const TensorHeader& tensor) const override {
    const ColumnStats* input = input_of(tensor);
    if (input == nullptr || input->cols() == tensor.shape.cols()) return {};
    return Status::invalid_argument(
        fmt::format("smooth: tensor '{}' has {} inputs, but the statistics have {}",
                    printable(tensor.name), tensor.shape.cols(), input->cols()));
  }

  Storage storage(const Storage& before) const override {
    Storage after = before;
    after.column_scale = true;
    return after;
  }

  std::uint64_t data_hash() const override {
    std::uint64_t hash = 0;
    for (const auto& [layer, stats] : statistics_->layers()) {
      const std::span<const float> absmax = stats.columns.absmax();
      hash = XXH3_64bits_withSeed(layer.data(), layer.size(), hash);
      hash = XXH3_64bits_withSeed(absmax.data(), absmax.size_bytes(), hash);
    }
    return hash;
  }

  Status apply(const TensorHeader& tensor, std::span<float> values) const override {
    PITH_TRY(const std::unique_ptr<StageStream> stream, this->stream({&tensor, 1}));
    PITH_OK(stream->feed(values));
    PITH_OK(stream->end_pass());
    return stream->apply(values);
  }

  Result<std::unique_ptr<StageStream>> stream(
      std::span<const TensorHeader> tensors) const override {
    const TensorHeader& tensor = tensors.front();
    const std::string reason = skip_reason(tensor);
    if (!reason.empty()) {
      return Status::invalid_argument(
          fmt::format("smooth: tensor '{}' {}", printable(tensor.name), reason));
    }
    PITH_OK(fits(tensor));
    return std::unique_ptr<StageStream>(
        std::make_unique<SmoothStream>(tensor, *input_of(tensor), options_));
  }

 private:
  [[nodiscard]] const ColumnStats* input_of(const TensorHeader& tensor) const {
    const LayerStats* stats = statistics_->input_of(tensor.name);
    return stats != nullptr && stats->columns.cols() > 0 ? &stats->columns : nullptr;
  }

  std::shared_ptr<const Observer> statistics_;
  SmoothOptions options_;
};

}  // namespace

StagePtr smooth_stage(std::shared_ptr<const Observer> statistics,
                      const SmoothOptions& options) {
  return std::make_shared<SmoothStage>(std::move(statistics), options);
}

}  // namespace pith
