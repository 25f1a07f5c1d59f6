// Manifests of Pith's own files that are right but for a few places.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <vector>

#include "fuzz/fields.h"
#include "fuzz/json_fields.h"
#include "fuzz/manifest_target.h"

namespace pith::fuzz {
namespace {

using Names = std::vector<std::string_view>;

std::string one_of(Fields& fields, const Names& names) {
  return json_mostly(
      fields,
      json_string(fields,
                  fields.one_in(100) ? "other" : names[fields.below(names.size())]));
}

std::string scheme(Fields& fields) {
  const bool blocks = fields.one_in(8);  // q8_0
  if (blocks) {
    return R"({"bits":8,"symmetric":true,"group":"block","block_size":32,"scale_type":"f16",)"
           R"("rule":"absmax","range":"symmetric","rounding":"half_away","coding":"inverse",)"
           R"("zero_group":"zero","layout":"blocks"})";
  }
  const bool symmetric = !fields.one_in(3);
  std::string out = fmt::format(
      R"({{"bits":{},"symmetric":{},"group":{},"block_size":{},"scale_type":{},"rule":)",
      json_number(fields, fields.mostly(fields.one_in(2) ? 4 : 8)), symmetric,
      one_of(fields, {"tensor", "row", "block", "flat_block"}),
      json_number(fields, fields.number()), one_of(fields, {"f32", "f16", "bf16"}));
  switch (symmetric ? fields.below(3) : 0) {
    case 1:
      out += fmt::format(R"("percentile","percentile":0.{})", fields.byte());
      break;
    case 2:
      out += fmt::format(R"("given","given_scale":{}e-{})", 1 + fields.byte(),
                         fields.below(50));
      break;
    default:
      out += R"("absmax")";
  }
  return out +
         fmt::format(
             R"(,"range":{},"rounding":{},"coding":{},"zero_group":{},"layout":"split"}})",
             one_of(fields, {"symmetric", "full"}),
             one_of(fields, {"half_away", "half_even"}), one_of(fields, {"stored"}),
             one_of(fields, {"zero", "one", "epsilon"}));
}

std::string shape(Fields& fields) {
  std::string out;
  const std::uint64_t rank = fields.below(4);
  for (std::uint64_t i = 0; i < rank; ++i) {
    out += (i == 0 ? "" : ",") + json_number(fields, fields.number());
  }
  return json_mostly(fields, "[" + out + "]");
}

std::string parts(Fields& fields, const Names& roles) {
  std::vector<std::string> out;
  for (const std::string_view role : roles) {
    if (fields.one_in(32)) continue;
    std::string inner;
    if (fields.one_in(16)) inner = R"("name":)" + json_string(fields, fields.name());
    if (fields.one_in(4)) {
      inner +=
          fmt::format(R"({}"xxh3":"{:016x}")", inner.empty() ? "" : ",", fields.number());
    }
    out.push_back(fmt::format(R"("{}":{{{}}})", role, inner));
  }
  return json_mostly(fields, fmt::format("{{{}}}", fmt::join(out, ",")));
}

std::string tensor(Fields& fields, std::uint64_t number, std::uint64_t schemes) {
  const std::uint64_t kind = fields.below(7);
  constexpr std::array<std::string_view, 7> kKinds = {
      "kept", "converted", "quantized", "quantized", "sparse", "alias", "dropped"};
  const std::string name = fields.one_in(32) ? "a" : fmt::format("t{}", number);
  std::string out = fmt::format(R"({{"name":{},"kind":{},"source":"BF16","shape":{})",
                                json_string(fields, name), one_of(fields, {kKinds[kind]}),
                                shape(fields));
  Names roles;
  const bool coded = kind == 2 || kind == 3 || (kind == 4 && fields.one_in(2));
  if (coded) {
    out += fmt::format(R"(,"scheme":{})", fields.mostly(fields.below(schemes + 1), 32));
    roles = {"codes", "scale"};
    if (fields.one_in(3)) roles.push_back("zero_point");
    if (fields.one_in(4)) roles = {"codes"};
  } else if (kind < 2 || kind == 4) {
    out += fmt::format(R"(,"dtype":{})",
                       one_of(fields, {"f32", "f16", "bf16", "i64", "u8", "f4", "i4"}));
    roles = {"values"};
  }
  if (kind == 4) {
    out += fmt::format(R"(,"kept":{})", json_number(fields, fields.number()));
    roles.push_back("mask");
    roles.push_back("row_offsets");
  }
  if (kind == 5) out += fmt::format(R"(,"alias_of":"t{}")", fields.below(4));
  if (!roles.empty() && fields.one_in(4)) roles.push_back("column_scale");
  if (!roles.empty()) out += R"(,"parts":)" + parts(fields, roles);
  if (fields.one_in(8)) {
    out += fmt::format(
        R"(,"error":{{"count":{},"non_finite":0,"zeros_before":1,"zeros_after":2,)"
        R"("saturated":0,"sum_error":{}.5,"sum_error_squared":1e-{},)"
        R"("sum_squared_before":3,"sum_squared_after":4,"max_error":{},"max_index":{}}})",
        fields.number(), fields.number(), fields.byte(),
        fields.one_in(2) ? "null" : "0.1", json_number(fields, fields.number()));
  }
  return out + "}";
}

}  // namespace
}  // namespace pith::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace pith::fuzz;
  Fields fields(data, size);
  std::vector<std::string> schemes;
  const std::uint64_t scheme_count = fields.below(3);
  for (std::uint64_t i = 0; i < scheme_count; ++i) schemes.push_back(scheme(fields));
  std::vector<std::string> tensors;
  const std::uint64_t tensor_count = fields.below(4);
  for (std::uint64_t i = 0; i < tensor_count; ++i) {
    tensors.push_back(tensor(fields, i, scheme_count));
  }
  const std::string text = fmt::format(
      R"({{"schema":{},"convention":{},"writer":"x","recipe":{},"schemes":{},"tensors":{}}})",
      fields.mostly(1, 64),
      one_of(fields, {"pith", "pith", "pith", "compressed-tensors"}),
      json_string(fields, fields.name()),
      json_mostly(fields, fmt::format("[{}]", fmt::join(schemes, ","))),
      json_mostly(fields, fmt::format("[{}]", fmt::join(tensors, ","))));
  run_manifest(text);
  return 0;
}
