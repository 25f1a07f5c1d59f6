// npy files that are right but for a few fields.
#include "fuzz/npy_fields.h"
#include "fuzz/npy_target.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  pith::fuzz::Fields fields(data, size);
  const std::string file = pith::fuzz::npy_file(fields);
  pith::fuzz::run_npy(pith::testing::bytes_of(file));
  return 0;
}
