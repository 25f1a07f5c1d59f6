#include "pith/run/cpu.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>

#include "pith/tensor/buffer.h"
#include "src/base/parallel.h"
#include "src/kernels/read_memory.h"
#include "src/kernels/target.h"

namespace pith {

Result<std::string> active_isa() { return kernels::active_target(); }

std::vector<std::string> available_isas() { return kernels::available_targets(); }

Status use_isa(const std::string& name) { return kernels::set_target(name); }

double read_speed(std::int64_t bytes) {
  constexpr std::int64_t kTask = 16;  // pieces
  constexpr int kPasses = 7;
  const std::int64_t pieces = std::max<std::int64_t>(1, bytes / kernels::kReadPiece);
  Buffer memory(pieces * kernels::kReadPiece);
  std::memset(memory.data(), 1, static_cast<std::size_t>(memory.size()));
  std::atomic<std::uint64_t> sink = 0;  // so that no read is left out
  double best = 0;
  for (int pass = 0; pass < kPasses; ++pass) {
    const auto start = std::chrono::steady_clock::now();
    parallel_pieces(pieces, kTask,
                    [&](std::int64_t, std::int64_t begin, std::int64_t end) {
                      sink ^= kernels::read_memory(
                          memory.data() + begin * kernels::kReadPiece, end - begin);
                    });
    const std::chrono::duration<double> time = std::chrono::steady_clock::now() - start;
    best = std::max(best, 1e-9 * static_cast<double>(memory.size()) / time.count());
  }
  return best;
}

}  // namespace pith
