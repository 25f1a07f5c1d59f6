// Tensors that are stored twice though they are one: an embedding and the head that shares
// its weights.
#include <algorithm>
#include <cstring>
#include <numeric>

#include "src/pipeline/compress_plan.h"

namespace pith {
namespace {

constexpr std::int64_t kCompareChunk = std::int64_t{1} << 20;

// Vectors are not tied: norms and biases that were never trained are equal by chance.
bool alike(const TensorInfo& a, const TensorInfo& b) {
  return a.shape.rank() >= 2 && a.encoding.dtype &&
         a.encoding.dtype == b.encoding.dtype && a.shape == b.shape &&
         a.bytes == b.bytes && a.bytes > 0;
}

Result<bool> same_bytes(const Checkpoint& source, std::size_t a, std::size_t b,
                        const CancelToken* cancel) {
  const std::int64_t size = source.tensors()[a].bytes;
  std::vector<std::byte> left(static_cast<std::size_t>(std::min(kCompareChunk, size)));
  std::vector<std::byte> right(left.size());
  for (std::int64_t at = 0; at < size; at += kCompareChunk) {
    PITH_OK(check_cancelled(cancel));
    const auto some = static_cast<std::size_t>(std::min(kCompareChunk, size - at));
    PITH_OK(source.read_bytes(a, at, std::span(left).first(some)));
    PITH_OK(source.read_bytes(b, at, std::span(right).first(some)));
    if (std::memcmp(left.data(), right.data(), some) != 0) return false;
  }
  return true;
}

}  // namespace

Result<std::vector<std::size_t>> find_tied(const Checkpoint& source,
                                           const EmbeddingNames& names,
                                           const CancelToken* cancel) {
  const std::vector<TensorInfo>& tensors = source.tensors();
  std::vector<std::size_t> tied(tensors.size());
  std::iota(tied.begin(), tied.end(), std::size_t{0});
  // The embedding is what is stored: engines do not even look at a head that is tied to it.
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (names.match(tensors[i].name)) order.push_back(i);
  }
  std::stable_partition(order.begin(), order.end(), [&](std::size_t i) {
    const std::string& name = tensors[i].name;
    return name.find("lm_head") == std::string::npos && !name.starts_with("output.");
  });
  std::vector<std::size_t> stored;  // embeddings that others may equal
  for (const std::size_t i : order) {
    for (const std::size_t other : stored) {
      if (!alike(tensors[i], tensors[other])) continue;
      bool same = tensors[i].file == tensors[other].file && tensors[i].offset != 0 &&
                  tensors[i].offset == tensors[other].offset;
      if (!same) {
        PITH_TRY(same, same_bytes(source, i, other, cancel));
      }
      if (!same) continue;
      tied[i] = other;
      break;
    }
    if (tied[i] == i) stored.push_back(i);
  }
  return tied;
}

}  // namespace pith
