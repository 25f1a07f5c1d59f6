// Indexes of sharded checkpoints, byte by byte.
#include "fuzz/index_target.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  pith::fuzz::run_index(std::as_bytes(std::span(data, size)));
  return 0;
}
