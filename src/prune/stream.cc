#include "pith/prune/stream.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <mutex>
#include <optional>
#include <utility>

#include "src/base/checked.h"
#include "src/kernels/select.h"
#include "src/prune/check.h"
#include "src/prune/row_pruner.h"
#include "src/prune/scores.h"
#include "src/prune/threshold.h"
#include "src/prune/units.h"

namespace pith {
namespace {

constexpr std::int64_t kStreamScores = 4096;  // made at once

// Elements of all tensors by one threshold, found in passes.
class ElementChoice {
 public:
  ElementChoice(const PruneOptions& options, std::int64_t n, std::size_t split_into = 0)
      : importance_(options.importance),
        min_nonzero_(options.min_nonzero),
        n_(n),
        count_(prune_count(options, n)),
        all_(std::max<std::int64_t>(0, count_ - 1)),
        ties_of_(split_into) {
    if (!orders_by_magnitude(importance_) && count_ > 0) nonzero_.emplace(0);
  }

  [[nodiscard]] bool needs_pass() const {
    return count_ > 0 && (!known_ || counts_ties_);
  }
  void preview(std::span<const float> sample, std::int64_t run) {
    if (orders_by_magnitude(importance_) && count_ > 0) all_.preview(sample, run, n_);
  }
  [[nodiscard]] std::optional<float> largest() const { return largest_; }

  /// What goes of one of the tensors that the stream is split into.
  [[nodiscard]] Threshold part(std::size_t tensor) const {
    Threshold part = whole_;
    if (part.ties == kAllTies) return part;
    for (std::size_t i = 0; i < tensor; ++i) part.ties -= ties_of_[i];
    part.ties = std::clamp<std::int64_t>(part.ties, 0, ties_of_[tensor]);
    return part;
  }
  void set_threshold(const Threshold& threshold) {
    known_ = true;
    whole_ = threshold_ = threshold;
  }
  /// Its budgets shrink as rows are pruned.
  [[nodiscard]] Threshold& threshold() { return threshold_; }
  void rewind() { threshold_ = whole_; }
  /// Several threads may add() in this pass.
  [[nodiscard]] bool adds_apart() const {
    return orders_by_magnitude(importance_) && !counts_ties_ && all_.adds_apart();
  }
  /// What goes of some rows does not depend on others.
  [[nodiscard]] bool applies_apart() const {
    return orders_by_magnitude(importance_) &&
           (whole_.ties == kAllTies || whole_.ties == 0);
  }

  /// True if there is a NaN among values that are ordered by magnitude.
  bool add(const ImportanceOptions& options, std::span<const float> values,
           std::size_t tensor, std::int64_t first, std::int64_t cols) {
    if (counts_ties_) {
      const float tie = std::bit_cast<float>(whole_.bits);
      ties_of_[tensor] += std::count_if(values.begin(), values.end(), [&](float value) {
        return std::fabs(value) == tie;
      });
      return false;
    }
    if (orders_by_magnitude(importance_)) {
      return all_.add(values.data(), static_cast<std::int64_t>(values.size()));
    }
    float scores[kStreamScores];
    for (std::size_t begin = 0; begin < values.size(); begin += kStreamScores) {
      const auto part = values.subspan(
          begin, std::min<std::size_t>(kStreamScores, values.size() - begin));
      fill_scores(options, part, first + static_cast<std::int64_t>(begin),
                  static_cast<std::int64_t>(begin) % cols, scores);
      all_.add(scores, static_cast<std::int64_t>(part.size()));
      if (!nonzero_) continue;
      std::int64_t nonzero = 0;
      for (std::size_t i = 0; i < part.size(); ++i) {
        scores[nonzero] = scores[i];
        nonzero += part[i] != 0.0f ? 1 : 0;
      }
      nonzero_->add(scores, nonzero);
    }
    return false;
  }

  void end_pass() {
    if (counts_ties_) {
      counts_ties_ = false;
      return;
    }
    if (nonzero_ && !ranked_) {
      const std::int64_t total = nonzero_->seen();
      may_go_ = total - std::min(min_nonzero_, total);
      if (may_go_ == total)
        nonzero_.reset();  // no floor
      else
        nonzero_->set_rank(may_go_);
    }
    ranked_ = true;
    if (nonzero_) nonzero_->next_pass();
    if (all_.next_pass()) return;
    known_ = true;
    threshold_ = Threshold::first(count_, all_.result());
    if (nonzero_) threshold_.limit_nonzero(may_go_, nonzero_->result());
    whole_ = threshold_;
    if (!orders_by_magnitude(importance_)) return;
    // If something is left: by magnitude the largest goes last.
    if (count_ < n_) largest_ = std::bit_cast<float>(all_.result().largest);
    counts_ties_ = !ties_of_.empty() && whole_.ties != kAllTies;
  }

 private:
  Importance importance_;
  std::int64_t min_nonzero_;
  std::int64_t n_;
  std::int64_t count_;
  kernels::MagnitudeHistogram all_;
  std::optional<kernels::MagnitudeHistogram> nonzero_;  // of non-zero weights only
  std::int64_t may_go_ = 0;
  bool ranked_ = false;                // of nonzero_, after the first pass
  bool known_ = false;                 // the threshold is
  bool counts_ties_ = false;           // in this pass
  std::vector<std::int64_t> ties_of_;  // of each tensor, if the stream is to be split
  std::optional<float> largest_;
  Threshold threshold_ = Threshold::none();
  Threshold whole_ = Threshold::none();  // as it was before any row
};

}  // namespace

struct PruneStream::Impl {
  PruneOptions options;
  std::vector<PruneStreamTensor> tensors;
  std::optional<ElementChoice> elements;
  std::optional<Units> units;
  bool chosen = false;  // by units
  bool fed = false;     // all values were seen once, and have no NaN

  // The place of the next chunk.
  std::size_t tensor = 0;
  std::int64_t row = 0;
  std::int64_t first = 0;  // elements of the tensors before

  std::mutex mutex;            // of what follows, where rows come apart
  std::int64_t fed_apart = 0;  // elements, in this pass
  std::int64_t pruned = 0;
  Sparsity after;

  [[nodiscard]] const PruneStreamTensor& current() const { return tensors[tensor]; }
  [[nodiscard]] std::int64_t cols() const { return current().shape.cols(); }
  [[nodiscard]] ImportanceOptions importance() const {
    return {options.importance, options.seed, current().column_norms};
  }

  void skip_finished() {
    while (tensor < tensors.size() &&
           row == (current().shape.elements() == 0 ? 0 : current().shape.rows())) {
      first += current().shape.elements();
      ++tensor;
      row = 0;
    }
  }
  void rewind() {
    tensor = 0;
    row = 0;
    first = 0;
    skip_finished();
  }
  void advance(std::size_t values) {
    row += static_cast<std::int64_t>(values) / cols();
    skip_finished();
  }

  /// Rows of the only tensor from element `at` on.
  [[nodiscard]] Status check_apart(std::size_t values, std::int64_t at) const {
    const Shape& shape = current().shape;
    const auto n = static_cast<std::int64_t>(values);
    if (at >= 0 && at % cols() == 0 && n % cols() == 0 && at + n <= shape.elements()) {
      return {};
    }
    return Status::invalid_argument(
        fmt::format("{}: {} values from element {} on, expected whole rows of {}",
                    describe("prune", current().name), n, at, shape.to_string()));
  }

  Applied apply(std::span<const float> rows, std::int64_t at, float* out,
                std::uint8_t* bits) {
    if (elements && orders_by_magnitude(options.importance)) {
      return apply_threshold(rows, cols(), out, bits, elements->threshold());
    }
    const std::span<float> changed(out, rows.size());
    if (out != rows.data()) std::copy(rows.begin(), rows.end(), out);
    if (units) return units->apply(changed, at / cols(), bits);
    if (!elements) {
      return prune_rows_alone(changed, cols(), bits, options, current().column_norms, at);
    }
    return apply_score_threshold(changed, cols(), bits, importance(), first + at,
                                 elements->threshold());
  }

  [[nodiscard]] Status check_rows(std::size_t values) const {
    if (values == 0) return {};
    if (tensor == tensors.size()) {
      return Status::invalid_argument(
          fmt::format("prune: {} values more than the tensors have", values));
    }
    const auto n = static_cast<std::int64_t>(values);
    const std::int64_t left = current().shape.rows() - row;
    if (n % cols() != 0 || n / cols() > left) {
      return Status::invalid_argument(
          fmt::format("{}: {} values given, expected at most {} whole rows of {}, those "
                      "that are left",
                      describe("prune", current().name), n, left, cols()));
    }
    return {};
  }
};

PruneStream::PruneStream(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
PruneStream::~PruneStream() = default;
PruneStream::PruneStream(PruneStream&&) noexcept = default;
PruneStream& PruneStream::operator=(PruneStream&&) noexcept = default;

Result<PruneStream> PruneStream::make(const PruneOptions& options,
                                      std::vector<PruneStreamTensor> tensors,
                                      bool split) {
  PITH_OK(check(options));
  const bool global = options.scope == PruneScope::kGlobal;
  if (!global && tensors.size() != 1) {
    return Status::invalid_argument(
        fmt::format("prune: {} tensors given, expected 1; several compete only with the "
                    "scope global",
                    tensors.size()));
  }
  CheckedSize total(0);
  for (const PruneStreamTensor& tensor : tensors) {
    const std::string where = describe("prune", tensor.name);
    if (!global) PITH_OK(check_shape(options, tensor.shape, where));
    if (tensor.shape.elements() > 0) {
      PITH_OK(check_norms(options.importance, tensor.column_norms, tensor.shape.cols(),
                          where));
    }
    total = total + CheckedSize::from_signed(tensor.shape.elements());
  }
  if (!total.fits_int64()) {
    return Status::invalid_argument("prune: the tensors have more than 2^63-1 elements");
  }
  const auto n = static_cast<std::int64_t>(total.value());
  if (global && n > 0) PITH_OK(check_floor(options, n, "prune"));

  auto impl = std::make_unique<Impl>();
  impl->options = options;
  impl->tensors = std::move(tensors);
  if (needs_matrix(options.granularity)) {
    const Shape& shape = impl->tensors.front().shape;
    impl->units.emplace(options, shape.rows(), shape.cols());
  } else if (options.granularity == Granularity::kElement &&
             options.scope != PruneScope::kRow) {
    impl->elements.emplace(options, n, split ? impl->tensors.size() : 0);
  }
  impl->rewind();
  return PruneStream(std::move(impl));
}

bool PruneStream::needs_pass() const {
  if (impl_->elements) return impl_->elements->needs_pass();
  return impl_->units && !impl_->chosen;
}

std::int64_t PruneStream::memory_bytes() const {
  if (!needs_pass() || !impl_->elements) return 0;
  constexpr std::int64_t kTables = 2'600'000;
  constexpr std::int64_t kCollected = 16'400'000;
  std::int64_t elements = 0;
  for (const PruneStreamTensor& tensor : impl_->tensors) {
    elements += tensor.shape.elements();
  }
  return kTables + std::min(kCollected, 4 * elements);
}

void PruneStream::preview(std::span<const float> sample, std::int64_t run) {
  if (impl_->elements) impl_->elements->preview(sample, run);
}

Result<PruneStream> PruneStream::part(std::size_t tensor) const {
  if (!impl_->elements || !orders_by_magnitude(impl_->options.importance)) {
    return Status::unsupported(fmt::format(
        "prune: importance {} with the scope global needs all tensors in memory at once, "
        "expected l1, l2 or taylor_proxy, or another scope",
        to_string(impl_->options.importance)));
  }
  auto impl = std::make_unique<Impl>();
  impl->options = impl_->options;
  impl->tensors = {impl_->tensors[tensor]};
  impl->elements.emplace(impl_->options, impl_->tensors[tensor].shape.elements());
  impl->elements->set_threshold(impl_->elements->part(tensor));
  impl->fed = true;
  impl->rewind();
  return PruneStream(std::move(impl));
}

std::optional<float> PruneStream::largest() const {
  return impl_->elements ? impl_->elements->largest() : std::nullopt;
}

Status PruneStream::feed(std::span<const float> rows) {
  PITH_OK(impl_->check_rows(rows.size()));
  if (rows.empty()) return {};
  const std::int64_t at = impl_->row * impl_->cols();
  const std::string where = describe("prune", impl_->current().name);
  if (impl_->elements && orders_by_magnitude(impl_->options.importance)) {
    // The histogram sees a NaN in passing.
    if (impl_->elements->add(impl_->importance(), rows, impl_->tensor, impl_->first + at,
                             impl_->cols())) {
      return check_no_nan(rows, at, where);
    }
    impl_->advance(rows.size());
    return {};
  }
  PITH_OK(check_no_nan(rows, at, where));
  if (impl_->elements) {
    impl_->elements->add(impl_->importance(), rows, impl_->tensor, impl_->first + at,
                         impl_->cols());
  } else if (impl_->units) {
    impl_->units->add(rows, impl_->row, impl_->current().column_norms);
  }
  impl_->advance(rows.size());
  return {};
}

bool PruneStream::works_apart() const {
  if (impl_->tensors.size() != 1) return false;
  if (needs_pass()) return impl_->elements && impl_->elements->adds_apart();
  return !impl_->elements || impl_->elements->applies_apart();
}

Status PruneStream::feed_apart(std::span<const float> rows, std::int64_t first) {
  PITH_OK(impl_->check_apart(rows.size(), first));
  if (impl_->elements->add(impl_->importance(), rows, 0, first, impl_->cols())) {
    return check_no_nan(rows, first, describe("prune", impl_->current().name));
  }
  const std::lock_guard lock(impl_->mutex);
  impl_->fed_apart += static_cast<std::int64_t>(rows.size());
  return {};
}

Status PruneStream::end_pass() {
  if (impl_->fed_apart > 0) {
    impl_->advance(static_cast<std::size_t>(std::exchange(impl_->fed_apart, 0)));
  }
  if (impl_->tensor != impl_->tensors.size()) {
    return Status::invalid_argument(fmt::format(
        "{}: the pass ended at row {} of {}", describe("prune", impl_->current().name),
        impl_->row, impl_->current().shape.rows()));
  }
  impl_->fed = true;
  if (impl_->elements) impl_->elements->end_pass();
  if (impl_->units) {
    impl_->units->choose();
    impl_->chosen = true;
  }
  impl_->rewind();
  return {};
}

// The arguments of apply() and its like.
Status PruneStream::check_apply(std::size_t values, std::size_t mask) const {
  const std::int64_t cols = impl_->cols();
  const std::int64_t bytes = static_cast<std::int64_t>(values) / cols * ((cols + 7) / 8);
  const std::string where = describe("prune", impl_->current().name);
  if (mask != 0 && mask != static_cast<std::uint64_t>(bytes)) {
    return Status::invalid_argument(
        fmt::format("{}: {} bytes of mask given, expected {}", where, mask, bytes));
  }
  if (needs_pass()) {
    return Status::invalid_argument(
        fmt::format("{}: applied before all passes were fed", where));
  }
  return {};
}

Status PruneStream::apply(std::span<float> rows, std::span<std::byte> mask) {
  PITH_OK(impl_->check_rows(rows.size()));
  if (rows.empty()) return {};
  PITH_OK(check_apply(rows.size(), mask.size()));
  const std::int64_t at = impl_->row * impl_->cols();
  if (!impl_->fed) {
    PITH_OK(check_no_nan(rows, at, describe("prune", impl_->current().name)));
  }
  auto* bits = mask.empty() ? nullptr : reinterpret_cast<std::uint8_t*>(mask.data());
  const Applied applied = impl_->apply(rows, at, rows.data(), bits);
  impl_->pruned += applied.pruned;
  impl_->after += {static_cast<std::int64_t>(rows.size()), applied.nonzero};
  impl_->advance(rows.size());
  return {};
}

Result<std::int64_t> PruneStream::apply_apart(std::span<const float> rows,
                                              std::int64_t first, std::span<float> out,
                                              std::span<std::byte> mask) {
  PITH_OK(impl_->check_apart(rows.size(), first));
  PITH_OK(check_apply(rows.size(), mask.size()));
  if (!impl_->fed) {
    PITH_OK(check_no_nan(rows, first, describe("prune", impl_->current().name)));
  }
  auto* bits = mask.empty() ? nullptr : reinterpret_cast<std::uint8_t*>(mask.data());
  const Applied applied = impl_->apply(rows, first, out.data(), bits);
  const std::lock_guard lock(impl_->mutex);
  impl_->pruned += applied.pruned;
  impl_->after += {static_cast<std::int64_t>(rows.size()), applied.nonzero};
  return applied.nonzero;
}

void PruneStream::rewind() {
  impl_->rewind();
  if (impl_->elements) impl_->elements->rewind();
  impl_->pruned = 0;
  impl_->after = {};
}

std::int64_t PruneStream::pruned() const { return impl_->pruned; }
Sparsity PruneStream::after() const { return impl_->after; }

}  // namespace pith
