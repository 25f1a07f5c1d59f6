#include "src/prune/check.h"

#include <fmt/format.h>

#include <algorithm>

#include "src/kernels/select.h"

namespace pith {
namespace {

const char* plural(Granularity granularity) {
  switch (granularity) {
    case Granularity::kRow:
      return "rows";
    case Granularity::kColumn:
      return "columns";
    case Granularity::kBlock:
      return "blocks";
    case Granularity::kElement:
    case Granularity::kNM:
      break;
  }
  return "elements";
}

Status at_least(const char* option, std::int64_t value, std::int64_t least) {
  if (value >= least) return {};
  return Status::invalid_argument(fmt::format(
      "prune: {} is {}, expected a value of at least {}", option, value, least));
}

}  // namespace

Status check(const PruneOptions& options) {
  if (!(options.sparsity >= 0.0f && options.sparsity < 1.0f)) {
    return Status::invalid_argument(fmt::format(
        "prune: sparsity is {}, expected a value in [0, 1)", options.sparsity));
  }
  PITH_OK(at_least("min_nonzero", options.min_nonzero, 0));
  PITH_OK(at_least("block_rows", options.block_rows, 1));
  PITH_OK(at_least("block_cols", options.block_cols, 1));
  PITH_OK(at_least("m", options.m, 1));
  if (options.n < 1 || options.n > options.m) {
    return Status::invalid_argument(fmt::format(
        "prune: n is {}, expected a value in [1, m], and m is {}", options.n, options.m));
  }
  if (options.scope != PruneScope::kTensor &&
      options.granularity != Granularity::kElement) {
    return Status::invalid_argument(
        "prune: the scopes row and global are for single elements; rows, columns, blocks "
        "and n:m compete in their own tensor");
  }
  return {};
}

Status check_shape(const PruneOptions& options, const Shape& shape,
                   std::string_view where) {
  if (shape.elements() == 0) {
    return Status::invalid_argument(fmt::format(
        "{}: shape {} has no elements, expected at least one", where, shape.to_string()));
  }
  if (needs_matrix(options.granularity) && shape.rank() != 2) {
    return Status::invalid_argument(
        fmt::format("{}: shape {} has {} dimensions, expected 2 to prune {}", where,
                    shape.to_string(), shape.rank(), plural(options.granularity)));
  }
  return check_floor(options,
                     options.scope == PruneScope::kRow ? shape.cols() : shape.elements(),
                     where);
}

Status check_floor(const PruneOptions& options, std::int64_t elements,
                   std::string_view where) {
  if (options.min_nonzero <= elements) return {};
  return Status::invalid_argument(
      fmt::format("{}: min_nonzero is {}, expected at most {}, the number of {}", where,
                  options.min_nonzero, elements,
                  options.scope == PruneScope::kRow ? "columns" : "elements"));
}

std::int64_t prune_count(const PruneOptions& options, std::int64_t n) {
  return std::max<std::int64_t>(
      0, std::min(kernels::share_floor(options.sparsity, n), n - options.min_nonzero));
}

}  // namespace pith
