#include "pith/prune/prune.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <utility>

#include "pith/prune/stream.h"
#include "src/kernels/select.h"
#include "src/prune/check.h"
#include "src/prune/scores.h"
#include "src/prune/threshold.h"

namespace pith {
namespace {

Status check_values(const PruneTensor& tensor) {
  if (tensor.values.size() == static_cast<std::uint64_t>(tensor.shape.elements()))
    return {};
  return Status::invalid_argument(fmt::format(
      "{}: {} values given, but shape {} has {}", describe("prune", tensor.name),
      tensor.values.size(), tensor.shape.to_string(), tensor.shape.elements()));
}

std::uint8_t* bytes_of(BitMask& mask) {
  return reinterpret_cast<std::uint8_t*>(mask.bytes().data());
}

// Elements of all tensors by their magnitudes: what a stream finds in two passes, a
// selection in memory finds in one.
Result<std::vector<Pruned>> prune_by_magnitude(std::span<const PruneTensor> tensors,
                                               const PruneOptions& options) {
  std::vector<kernels::FloatSpan> spans;
  std::int64_t n = 0;
  for (const PruneTensor& tensor : tensors) {
    spans.emplace_back(tensor.values);
    n += tensor.shape.elements();
  }
  const std::int64_t count = prune_count(options, n);
  Threshold threshold = Threshold::none();
  bool has_nan = true;
  if (count > 0) {
    const kernels::MagnitudeRank rank = kernels::select_magnitude(spans, count - 1);
    threshold = Threshold::first(count, rank);
    has_nan = rank.has_nan;
  }
  if (has_nan) {
    for (const PruneTensor& tensor : tensors) {
      PITH_OK(check_no_nan(tensor.values, 0, describe("prune", tensor.name)));
    }
  }
  std::vector<Pruned> results;
  for (const PruneTensor& tensor : tensors) {
    Pruned pruned;
    pruned.mask = BitMask(tensor.shape);
    const Applied applied =
        apply_threshold(tensor.values, tensor.shape.cols(), tensor.values.data(),
                        bytes_of(pruned.mask), threshold);
    pruned.pruned = applied.pruned;
    pruned.after = {tensor.shape.elements(), applied.nonzero};
    results.push_back(std::move(pruned));
  }
  return results;
}

// Everything else: each tensor is one chunk of a stream.
Result<std::vector<Pruned>> prune_as_stream(std::span<const PruneTensor> tensors,
                                            const PruneOptions& options) {
  std::vector<PruneStreamTensor> described;
  for (const PruneTensor& tensor : tensors) {
    described.push_back({std::string(tensor.name),
                         tensor.shape,
                         {tensor.column_norms.begin(), tensor.column_norms.end()}});
  }
  PITH_TRY(PruneStream stream, PruneStream::make(options, std::move(described)));
  while (stream.needs_pass()) {
    for (const PruneTensor& tensor : tensors) PITH_OK(stream.feed(tensor.values));
    PITH_OK(stream.end_pass());
  }
  for (const PruneTensor& tensor : tensors) {  // before the first one is changed
    PITH_OK(check_no_nan(tensor.values, 0, describe("prune", tensor.name)));
  }
  std::vector<Pruned> results;
  for (const PruneTensor& tensor : tensors) {
    Pruned pruned;
    pruned.mask = BitMask(tensor.shape);
    const std::int64_t before = stream.pruned();
    const std::int64_t nonzero = stream.after().nonzero;
    PITH_OK(stream.apply(tensor.values, pruned.mask.bytes()));
    pruned.pruned = stream.pruned() - before;
    pruned.after = {tensor.shape.elements(), stream.after().nonzero - nonzero};
    results.push_back(std::move(pruned));
  }
  return results;
}

Result<std::vector<Pruned>> prune_together(std::span<const PruneTensor> tensors,
                                           const PruneOptions& options) {
  const bool one_threshold =
      options.granularity == Granularity::kElement && options.scope != PruneScope::kRow;
  return one_threshold && orders_by_magnitude(options.importance)
             ? prune_by_magnitude(tensors, options)
             : prune_as_stream(tensors, options);
}

Pruned pass_through(const PruneTensor& tensor, std::string reason) {
  Pruned pruned;
  pruned.mask = BitMask(tensor.shape);
  pruned.after = count_sparsity(tensor.values);
  pruned.skipped = true;
  pruned.reason = std::move(reason);
  return pruned;
}

}  // namespace

Result<Pruned> prune(const PruneTensor& tensor, const PruneOptions& given) {
  PruneOptions options = given;
  if (options.scope == PruneScope::kGlobal) options.scope = PruneScope::kTensor;
  PITH_OK(check(options));
  const std::string where = describe("prune", tensor.name);
  PITH_OK(check_shape(options, tensor.shape, where));
  PITH_OK(check_values(tensor));
  PITH_OK(
      check_norms(options.importance, tensor.column_norms, tensor.shape.cols(), where));
  PITH_TRY(std::vector<Pruned> results, prune_together({&tensor, 1}, options));
  return std::move(results.front());
}

Result<std::vector<Pruned>> prune_model(std::span<const PruneTensor> tensors,
                                        const PruneOptions& options) {
  PITH_OK(check(options));
  for (const PruneTensor& tensor : tensors) PITH_OK(check_values(tensor));
  std::vector<Pruned> results(tensors.size());
  std::vector<PruneTensor> chosen;
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const PruneTensor& tensor = tensors[i];
    if (tensor.values.empty()) {
      results[i] = pass_through(tensor, "it has no elements");
    } else if (needs_matrix(options.granularity) && tensor.shape.rank() != 2) {
      results[i] = pass_through(tensor, fmt::format("shape {} is not two-dimensional",
                                                    tensor.shape.to_string()));
    } else {
      chosen.push_back(tensor);
      places.push_back(i);
    }
  }
  if (options.scope != PruneScope::kGlobal) {
    for (std::size_t i = 0; i < chosen.size(); ++i) {
      PITH_TRY(results[places[i]], prune(chosen[i], options));
    }
    return results;
  }
  if (chosen.empty()) return results;
  std::int64_t n = 0;
  for (const PruneTensor& tensor : chosen) {
    PITH_OK(check_norms(options.importance, tensor.column_norms, tensor.shape.cols(),
                        describe("prune", tensor.name)));
    n += tensor.shape.elements();  // all are in memory
  }
  PITH_OK(check_floor(options, n, "prune"));
  PITH_TRY(std::vector<Pruned> together, prune_together(chosen, options));
  for (std::size_t i = 0; i < chosen.size(); ++i)
    results[places[i]] = std::move(together[i]);
  return results;
}

}  // namespace pith
