// Indexes of sharded checkpoints that are right but for a few places.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <utility>
#include <vector>

#include "fuzz/fields.h"
#include "fuzz/index_target.h"
#include "fuzz/json_fields.h"

namespace pith::fuzz {
namespace {

constexpr std::array<std::string_view, 12> kNames = {
    "..",   ".",  "",    "../x", "/etc/passwd", "a/b",
    "a\\b", ".x", "x\n", "a b",  "%2e%2e",      "~"};

std::string shard(Fields& fields) {
  if (fields.one_in(16)) return std::string(kNames[fields.below(kNames.size())]);
  return fmt::format("model-{:05}-of-00003.safetensors", 1 + fields.below(3));
}

std::string weight_map(Fields& fields) {
  std::vector<std::string> entries;
  const std::uint64_t count = fields.below(8);
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::string name = fields.name() + (fields.one_in(16) ? "" : std::to_string(i));
    entries.push_back(
        fmt::format("{}:{}", json_string(fields, name),
                    json_mostly(fields, json_string(fields, shard(fields)))));
  }
  return fmt::format("{{{}}}", fmt::join(entries, ","));
}

}  // namespace
}  // namespace pith::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace pith::fuzz;
  Fields fields(data, size);
  std::vector<std::string> parts = {
      fmt::format(
          R"("metadata":{})",
          json_mostly(
              fields,
              fmt::format(R"({{"total_size":{}}})",
                          json_mostly(fields, json_number(fields, fields.number()))))),
      fmt::format(R"("weight_map":{})", json_mostly(fields, weight_map(fields)))};
  if (fields.one_in(32)) parts.push_back(parts[fields.below(2)]);
  if (fields.one_in(32)) parts.erase(parts.begin());
  if (fields.one_in(4)) std::swap(parts.front(), parts.back());
  if (fields.one_in(16)) parts.push_back(R"("more":{"weight_map":[1,{"a":"b"}]})");
  std::string text =
      fmt::format("{{{}}}", fmt::join(parts, fields.one_in(64) ? "" : ",\n"));
  if (fields.one_in(64)) text += fields.text(4);
  run_index(std::as_bytes(std::span(text)));
  return 0;
}
