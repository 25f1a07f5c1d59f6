// Stages that zero or limit weights: prune, clip, limit.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "pith/pipeline/stage.h"
#include "pith/prune/clip.h"
#include "pith/prune/magnitude.h"
#include "pith/prune/stream.h"
#include "src/base/text.h"

namespace pith {
namespace {

bool needs_matrix(Granularity granularity) {
  return granularity == Granularity::kRow || granularity == Granularity::kColumn ||
         granularity == Granularity::kBlock;
}

class PruneStageStream : public StageStream {
 public:
  explicit PruneStageStream(PruneStream stream) : stream_(std::move(stream)) {}

  void preview(std::span<const float> sample, std::int64_t run) override {
    stream_.preview(sample, run);
  }
  bool needs_pass() const override { return stream_.needs_pass(); }
  std::int64_t memory_bytes() const override { return stream_.memory_bytes(); }
  std::optional<float> largest() const override { return stream_.largest(); }
  Status feed(std::span<const float> values) override { return stream_.feed(values); }
  Status end_pass() override { return stream_.end_pass(); }
  Status apply(std::span<float> values) override { return stream_.apply(values); }
  Status apply_with_mask(std::span<float> values, std::span<std::byte> mask) override {
    return stream_.apply(values, mask);
  }
  bool works_apart() const override { return stream_.works_apart(); }
  Status feed_apart(std::span<const float> values, std::int64_t first) override {
    return stream_.feed_apart(values, first);
  }
  Result<std::int64_t> apply_apart(std::span<const float> values, std::int64_t first,
                                   std::span<float> out,
                                   std::span<std::byte> mask) override {
    return stream_.apply_apart(values, first, out, mask);
  }
  Status rewind() override {
    stream_.rewind();
    return {};
  }
  Result<std::unique_ptr<StageStream>> part(std::size_t tensor) const override {
    PITH_TRY(PruneStream stream, stream_.part(tensor));
    return std::unique_ptr<StageStream>(
        std::make_unique<PruneStageStream>(std::move(stream)));
  }

 private:
  PruneStream stream_;
};

class PruneStage : public Stage {
 public:
  explicit PruneStage(const PruneOptions& options) : options_(options) {}

  std::string_view name() const override { return "prune"; }
  std::string describe() const override {
    std::string text = options_.granularity == Granularity::kNM
                           ? fmt::format("prune {}:{}", options_.n, options_.m)
                           : fmt::format("prune {}", options_.sparsity);
    constexpr std::string_view kUnits[] = {"", " of rows", " of columns", " of blocks",
                                           ""};
    text += kUnits[static_cast<std::size_t>(options_.granularity)];
    return fmt::format("{} {}", text, to_string(options_.importance));
  }

  Status validate() const override {
    PITH_OK(check(options_));
    if (options_.importance == Importance::kWanda) {
      return Status::invalid_argument(
          "importance is wanda, which needs statistics of activations: expected l1, l2, "
          "taylor_proxy or random");
    }
    return {};
  }

  std::string skip_reason(const TensorHeader& tensor) const override {
    if (tensor.shape.elements() == 0) return "has no elements";
    if (needs_matrix(options_.granularity) && tensor.shape.rank() != 2) {
      return "is not two-dimensional";
    }
    return {};
  }

  bool joint() const override { return options_.scope == PruneScope::kGlobal; }

  std::optional<std::int64_t> kept(const TensorHeader& tensor) const override {
    return kept_by_shape(options_, tensor.shape);
  }

  Status apply(const TensorHeader& tensor, std::span<float> values) const override {
    return prune({tensor.name, values, tensor.shape}, options_).status();
  }

  Status apply_all(std::span<const StageTensor> tensors) const override {
    if (options_.scope != PruneScope::kGlobal) return Stage::apply_all(tensors);
    std::vector<PruneTensor> list;
    list.reserve(tensors.size());
    for (const StageTensor& tensor : tensors) {
      list.push_back({tensor.spec.name, tensor.values, tensor.spec.shape});
    }
    return prune_model(list, options_).status();
  }

  Result<std::unique_ptr<StageStream>> stream(
      std::span<const TensorHeader> tensors) const override {
    std::vector<PruneStreamTensor> list;
    for (const TensorHeader& tensor : tensors) {
      list.push_back({tensor.name, tensor.shape});
    }
    PITH_TRY(PruneStream stream, PruneStream::make(options_, std::move(list), joint()));
    return std::unique_ptr<StageStream>(
        std::make_unique<PruneStageStream>(std::move(stream)));
  }

 private:
  PruneOptions options_;
};

class ClipStream : public StageStream {
 public:
  ClipStream(std::string name, std::int64_t count)
      : name_(std::move(name)), selector_(count) {}

  bool needs_pass() const override { return !pruner_; }

  Status feed(std::span<const float> values) override {
    const auto nan = std::find_if(values.begin(), values.end(),
                                  [](float value) { return std::isnan(value); });
    if (nan != values.end()) {
      return Status::not_finite(
          fmt::format("clip: tensor '{}' has a NaN at index {}, expected numbers",
                      printable(name_), fed_ + (nan - values.begin())));
    }
    fed_ += static_cast<std::int64_t>(values.size());
    selector_.feed(values);
    return {};
  }

  Status end_pass() override {
    fed_ = 0;
    if (!selector_.next_pass()) make_pruner();
    return {};
  }

  Status apply(std::span<float> values) override {
    pruner_->apply(values);
    return {};
  }

  Status rewind() override {
    make_pruner();
    return {};
  }

 private:
  void make_pruner() {
    // With a threshold of 0 every zero goes, so that no -0 is left.
    const float threshold = selector_.threshold();
    pruner_.emplace(threshold, threshold == 0 ? std::numeric_limits<std::int64_t>::max()
                                              : selector_.ties());
  }

  std::string name_;
  std::int64_t fed_ = 0;  // in this pass
  MagnitudeSelector selector_;
  std::optional<ThresholdPruner> pruner_;
};

class ClipStage : public Stage {
 public:
  explicit ClipStage(float percentile) : percentile_(percentile) {}

  std::string_view name() const override { return "clip"; }
  std::string describe() const override { return fmt::format("clip {}", percentile_); }
  Status validate() const override { return check_percentile(percentile_); }
  Status apply(const TensorHeader& tensor, std::span<float> values) const override {
    return clip(values, percentile_, tensor.name).status();
  }
  Result<std::unique_ptr<StageStream>> stream(
      std::span<const TensorHeader> tensors) const override {
    PITH_OK(validate());
    const TensorHeader& tensor = tensors.front();
    const std::int64_t count = clip_count(percentile_, tensor.shape.elements());
    return std::unique_ptr<StageStream>(std::make_unique<ClipStream>(tensor.name, count));
  }

 private:
  float percentile_;
};

class LimitStage : public Stage {
 public:
  explicit LimitStage(float percentile) : percentile_(percentile) {}

  std::string_view name() const override { return "limit"; }
  std::string describe() const override { return fmt::format("limit {}", percentile_); }
  Status validate() const override { return check_percentile(percentile_); }
  Status apply(const TensorHeader& tensor, std::span<float> values) const override {
    return limit(values, percentile_, tensor.name).status();
  }

 private:
  float percentile_;
};

}  // namespace

StagePtr prune_stage(const PruneOptions& options) {
  return std::make_shared<PruneStage>(options);
}

StagePtr clip_stage(float percentile) { return std::make_shared<ClipStage>(percentile); }

StagePtr limit_stage(float percentile) {
  return std::make_shared<LimitStage>(percentile);
}

}  // namespace pith
