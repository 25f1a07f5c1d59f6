// Pickles of state dicts, byte by byte.
#include "fuzz/pickle_target.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  pith::fuzz::run_pickle(std::as_bytes(std::span(data, size)));
  return 0;
}
