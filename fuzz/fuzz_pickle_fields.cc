// Pickles of state dicts that are right but for a few opcodes and numbers, alone and in an
// archive with their storages.
#include <array>
#include <map>

#include "fuzz/fields.h"
#include "fuzz/pickle_target.h"
#include "fuzz/zip_fields.h"
#include "fuzz/zip_target.h"
#include "tests/support/pickle_builder.h"

namespace pith::fuzz {
namespace {

using testing::PickleBuilder;
using testing::PickleTensor;

// Storages by their keys, with the bytes they should have.
using Storages = std::map<std::string, std::uint64_t>;

PickleTensor make_tensor(Fields& fields, Storages& storages) {
  constexpr std::array<std::pair<const char*, int>, 10> kClasses = {
      {{"FloatStorage", 4},
       {"DoubleStorage", 8},
       {"HalfStorage", 2},
       {"BFloat16Storage", 2},
       {"LongStorage", 8},
       {"IntStorage", 4},
       {"ShortStorage", 2},
       {"CharStorage", 1},
       {"ByteStorage", 1},
       {"BoolStorage", 1}}};
  PickleTensor tensor;
  const std::uint64_t key = fields.below(4);
  tensor.key = std::to_string(key);
  // The same key has the same class and size most of the time.
  const auto& [name, bytes] = kClasses[fields.mostly(key, 32) % kClasses.size()];
  tensor.storage_class = name;
  tensor.elements = static_cast<std::int64_t>(fields.mostly(6 * (key + 1), 8));
  tensor.offset = static_cast<std::int64_t>(fields.mostly(0, 4));
  const std::uint64_t rank = fields.below(4);
  tensor.sizes.clear();
  tensor.strides.clear();
  std::uint64_t step = 1;
  for (std::uint64_t i = 0; i < rank; ++i) {
    const std::uint64_t extent = fields.mostly(1 + fields.below(3), 4);
    tensor.sizes.push_back(static_cast<std::int64_t>(extent));
    tensor.strides.push_back(static_cast<std::int64_t>(fields.mostly(step, 4)));
    step *= extent;
  }
  if (fields.one_in(32)) tensor.strides.push_back(1);
  storages[tensor.key] = std::min<std::uint64_t>(
      static_cast<std::uint64_t>(tensor.elements) * static_cast<std::uint64_t>(bytes),
      4096);
  return tensor;
}

void add_value(Fields& fields, PickleBuilder& pickle, Storages& storages, int depth) {
  switch (fields.below(12)) {
    case 0:
      pickle.integer(static_cast<std::int64_t>(fields.number()));
      return;
    case 1:
      pickle.op("N");
      return;
    case 2:
      pickle.text(fields.text(8));
      return;
    case 3:
      pickle.op("h").byte(fields.byte());
      return;
    case 4: {
      if (depth > 70) return;
      pickle.op("}(");
      const std::uint64_t items = fields.below(3);
      for (std::uint64_t i = 0; i < items; ++i) {
        pickle.text(fields.name());
        add_value(fields, pickle, storages, depth + 1);
      }
      pickle.op("u");
      break;
    }
    case 5:
      pickle.op("](");
      if (depth < 70) add_value(fields, pickle, storages, depth + 1);
      pickle.op("e");
      break;
    case 6:
      pickle.global(fields.one_in(2) ? "torch._utils" : "os", "_rebuild_parameter")
          .op("(");
      pickle.tensor(make_tensor(fields, storages)).byte(0x88).ordered_dict().op("tR");
      break;
    case 7:
      if (fields.one_in(8)) {
        pickle.byte(fields.byte());
        break;
      }
      [[fallthrough]];
    default:
      pickle.tensor(make_tensor(fields, storages));
  }
  if (fields.one_in(3)) pickle.op("q").byte(fields.byte());
}

}  // namespace
}  // namespace pith::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace pith;
  fuzz::Fields fields(data, size);
  fuzz::Storages storages;
  fuzz::PickleBuilder pickle;
  pickle.begin(static_cast<std::uint8_t>(fields.mostly(2, 64)));
  pickle.ordered_dict().op("q").byte(0).op("(");
  const std::uint64_t items = fields.below(5);
  for (std::uint64_t i = 0; i < items; ++i) {
    pickle.text(fields.name() + static_cast<char>('0' + i));
    fuzz::add_value(fields, pickle, storages, 0);
  }
  pickle.op("u");
  if (fields.one_in(4)) pickle.op("}b");
  if (!fields.one_in(32)) pickle.op(".");
  const bool archived = fields.one_in(2);
  if (!archived) {
    fuzz::run_pickle(testing::bytes_of(pickle.str()));
    return 0;
  }
  testing::ZipBuilder zip;
  fuzz::add_entry(fields, zip, "m/data.pkl", pickle.str());
  for (const auto& [key, bytes] : storages) {
    const std::string content(static_cast<std::size_t>(fields.mostly(bytes, 32) % 8192),
                              'x');
    fuzz::add_entry(fields, zip, "m/data/" + key, content);
  }
  const std::string file = fuzz::finish(fields, zip);
  fuzz::run_zip(testing::bytes_of(file));
  return 0;
}
