// npz archives that are right but for a few fields.
#include "fuzz/npy_fields.h"
#include "fuzz/zip_fields.h"
#include "fuzz/zip_target.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace pith;
  fuzz::Fields fields(data, size);
  testing::ZipBuilder zip;
  const std::uint64_t entries = fields.below(4);
  for (std::uint64_t i = 0; i < entries; ++i) {
    std::string name = fields.name() + static_cast<char>('0' + i) + ".npy";
    if (fields.one_in(32)) name = fields.text(12);
    const std::string content = fuzz::npy_file(fields);
    fuzz::add_entry(fields, zip, name, content);
  }
  const std::string file = fuzz::finish(fields, zip);
  fuzz::run_zip(testing::bytes_of(file));
  return 0;
}
