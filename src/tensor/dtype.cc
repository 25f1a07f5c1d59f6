#include "pith/tensor/dtype.h"

#include <array>

namespace pith {
namespace {

struct Entry {
  std::string_view name;
  int bits;
};

constexpr std::array<Entry, kDTypeCount> kEntries = {{
    {"bool", 8},       {"f4", 4},     {"f6e2m3", 6}, {"f6e3m2", 6}, {"u8", 8},
    {"i8", 8},         {"f8e5m2", 8}, {"f8e4m3", 8}, {"f8e8m0", 8}, {"f8e4m3fnuz", 8},
    {"f8e5m2fnuz", 8}, {"i16", 16},   {"u16", 16},   {"f16", 16},   {"bf16", 16},
    {"i32", 32},       {"u32", 32},   {"f32", 32},   {"c64", 64},   {"f64", 64},
    {"i64", 64},       {"u64", 64},   {"i4", 4},
}};

}  // namespace

int bits_of(DType dtype) { return kEntries[static_cast<std::size_t>(dtype)].bits; }

std::string_view to_string(DType dtype) {
  return kEntries[static_cast<std::size_t>(dtype)].name;
}

std::optional<DType> dtype_from_string(std::string_view name) {
  for (int i = 0; i < kDTypeCount; ++i) {
    if (kEntries[static_cast<std::size_t>(i)].name == name) return static_cast<DType>(i);
  }
  return std::nullopt;
}

}  // namespace pith
