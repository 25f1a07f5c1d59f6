// GGUF files, byte by byte.
#include "fuzz/gguf_target.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  pith::fuzz::run_gguf(std::as_bytes(std::span(data, size)));
  return 0;
}
