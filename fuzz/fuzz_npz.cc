// npz and PyTorch archives, byte by byte.
#include "fuzz/zip_target.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  pith::fuzz::run_zip(std::as_bytes(std::span(data, size)));
  return 0;
}
