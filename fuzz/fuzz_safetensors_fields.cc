// Safetensors headers that are right but for a few fields. Sizes are computed as a careless
// writer would, with products and sums that wrap: a reader that wraps too will agree.
#include <fmt/format.h>

#include <bit>

#include "fuzz/fields.h"
#include "fuzz/json_fields.h"
#include "fuzz/safetensors_target.h"
#include "tests/support/byte_builder.h"

namespace pith::fuzz {
namespace {

std::string entry(Fields& fields, std::uint64_t& position) {
  const auto dtype = static_cast<DType>(fields.below(22));
  std::uint64_t count = 1;
  std::string shape;
  const std::uint64_t rank = fields.below(4);
  for (std::uint64_t i = 0; i < rank; ++i) {
    const std::uint64_t extent = fields.number();
    count *= extent;
    shape += (i == 0 ? "" : ",") + json_number(fields, extent);
  }
  const std::uint64_t begin = fields.mostly(position, 64);
  const std::uint64_t bytes = count * static_cast<std::uint64_t>(bits_of(dtype)) / 8;
  const std::uint64_t end = fields.mostly(begin + bytes, 64);
  position = end;
  const std::string name =
      fields.one_in(4) ? fields.name() : fmt::format("{}", position % 1000);
  std::string out = json_string(fields, name) + ":{";
  if (fields.one_in(64)) out += R"("more":[{"x":1.5}],)";
  out +=
      fmt::format(R"("dtype":{},"shape":{},"data_offsets":{})",
                  json_mostly(fields, json_string(fields, safetensors_name(dtype))),
                  json_mostly(fields, fmt::format("[{}]", shape)),
                  json_mostly(fields, fmt::format("[{},{}]", json_number(fields, begin),
                                                  json_number(fields, end))));
  return out + "}";
}

}  // namespace
}  // namespace pith::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace pith::fuzz;
  Fields fields(data, size);
  std::string json = fields.one_in(32) ? " {" : "{";
  if (fields.one_in(4)) {
    json +=
        fmt::format(R"("__metadata__":{},)",
                    json_mostly(fields, fmt::format(R"({{{}:{}}})",
                                                    json_string(fields, fields.name()),
                                                    json_string(fields, "x"))));
  }
  std::uint64_t position = 0;
  const std::uint64_t tensors = fields.below(6);
  for (std::uint64_t i = 0; i < tensors; ++i) {
    json += (i == 0 ? "" : ",") + entry(fields, position);
  }
  json += fields.one_in(64) ? "}}" : "}";
  json.append(fields.below(8), fields.one_in(64) ? '\0' : ' ');
  pith::testing::ByteBuilder start;
  start.u64(fields.mostly(json.size(), 64)).text(json);
  const std::uint64_t file_bytes = fields.mostly(start.size() + position, 16);
  // Where the file is small, its data is there.
  if (position < 256) start.zeros(position);
  run_safetensors(start.bytes(), file_bytes);
  return 0;
}
