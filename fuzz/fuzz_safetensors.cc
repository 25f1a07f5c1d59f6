// Safetensors files, byte by byte.
#include "fuzz/safetensors_target.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  pith::fuzz::run_safetensors(std::as_bytes(std::span(data, size)), size);
  return 0;
}
