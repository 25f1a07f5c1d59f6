#include "pith/prune/sparsity.h"

#include <vector>

#include "src/base/parallel.h"
#include "src/kernels/mask.h"

namespace pith {

float Sparsity::sparsity() const {
  if (total == 0) return 0.0f;
  return static_cast<float>(static_cast<double>(total - nonzero) /
                            static_cast<double>(total));
}

Sparsity count_sparsity(std::span<const float> values) {
  constexpr std::int64_t kPiece = std::int64_t{1} << 20;
  const auto total = static_cast<std::int64_t>(values.size());
  std::vector<std::int64_t> nonzero(static_cast<std::size_t>(piece_count(total, kPiece)));
  parallel_pieces(total, kPiece,
                  [&](std::int64_t i, std::int64_t begin, std::int64_t end) {
                    nonzero[static_cast<std::size_t>(i)] =
                        kernels::count_nonzero(values.data() + begin, end - begin);
                  });
  Sparsity sparsity{total, 0};
  for (const std::int64_t count : nonzero) sparsity.nonzero += count;
  return sparsity;
}

}  // namespace pith
