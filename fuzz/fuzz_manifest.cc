// Manifests of Pith's own files, byte by byte.
#include "fuzz/manifest_target.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  pith::fuzz::run_manifest({reinterpret_cast<const char*>(data), size});
  return 0;
}
