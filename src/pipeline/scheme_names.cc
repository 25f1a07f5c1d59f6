#include <fmt/format.h>

#include <array>
#include <charconv>

#include "pith/pipeline/recipe.h"
#include "src/base/nearest.h"

namespace pith {
namespace {

Scheme int4_group(std::int64_t size) { return Scheme::int4_blocks(size); }
Scheme w8a16(std::int64_t size) {
  Scheme scheme = Scheme::w4a16(size);
  scheme.bits = 8;
  return scheme;
}

struct Entry {
  std::string_view name;  // with the usual number, if it has one
  std::string_view stem;  // what stands before the number
  Scheme (*make)(std::int64_t number);
};

constexpr Entry kEntries[] = {
    {"int8", "", [](std::int64_t) { return Scheme::int8_tensor(); }},
    {"int8-row", "", [](std::int64_t) { return Scheme::int8_rows(); }},
    {"int8-block64", "int8-block", &Scheme::int8_blocks},
    {"int8-flat64", "int8-flat", &Scheme::int8_flat_blocks},
    {"int4", "", [](std::int64_t) { return Scheme::int4_tensor(); }},
    {"int4-row", "", [](std::int64_t) { return Scheme::int4_rows(); }},
    {"int4-g32", "int4-g", &int4_group},
    {"w8a8", "", [](std::int64_t) { return Scheme::w8a8(); }},
    {"w8a16", "", [](std::int64_t) { return w8a16(128); }},
    {"w8a16-g128", "w8a16-g", &w8a16},
    {"w4a16", "", [](std::int64_t) { return Scheme::w4a16(); }},
    {"w4a16-g128", "w4a16-g", &Scheme::w4a16},
    {"q8_0", "", [](std::int64_t) { return Scheme::q8_0(); }},
    {"q4_0", "", [](std::int64_t) { return Scheme::q4_0(); }},
};

constexpr auto kNames = [] {
  std::array<std::string_view, std::size(kEntries)> names{};
  for (std::size_t i = 0; i < names.size(); ++i) names[i] = kEntries[i].name;
  return names;
}();

}  // namespace

std::span<const std::string_view> scheme_names() { return kNames; }

Result<Scheme> scheme_from_name(std::string_view name) {
  for (const Entry& entry : kEntries) {
    if (entry.stem.empty()) {
      if (name == entry.name) return entry.make(0);
      continue;
    }
    if (!name.starts_with(entry.stem)) continue;
    const std::string_view digits = name.substr(entry.stem.size());
    std::int64_t number = 0;
    const auto [end, error] =
        std::from_chars(digits.data(), digits.data() + digits.size(), number);
    if (error != std::errc() || end != digits.data() + digits.size()) continue;
    const Scheme scheme = entry.make(number);
    PITH_OK(scheme.validate().with_context(fmt::format("scheme '{}'", name)));
    return scheme;
  }
  return Status::invalid_argument(
      fmt::format("unknown scheme '{}'.{}", name, suggestion(name, kNames)));
}

}  // namespace pith
