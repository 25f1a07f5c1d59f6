// npy files, byte by byte.
#include "fuzz/npy_target.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  pith::fuzz::run_npy(std::as_bytes(std::span(data, size)));
  return 0;
}
