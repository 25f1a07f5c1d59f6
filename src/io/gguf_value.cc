// What people see of GGUF key-values.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "src/base/text.h"
#include "src/io/gguf.h"

namespace pith {
namespace {

struct TypeRow {
  std::string_view name;
  std::uint64_t bytes;
};

constexpr std::array<TypeRow, 13> kTypeRows = {{{"u8", 1},
                                                {"i8", 1},
                                                {"u16", 2},
                                                {"i16", 2},
                                                {"u32", 4},
                                                {"i32", 4},
                                                {"f32", 4},
                                                {"bool", 1},
                                                {"string", 0},
                                                {"array", 0},
                                                {"u64", 8},
                                                {"i64", 8},
                                                {"f64", 8}}};

constexpr std::size_t kShownBytes = 200;
constexpr std::uint64_t kShownElements = 8;

template <typename T>
std::string bytes_of_number(T value) {
  return {reinterpret_cast<const char*>(&value), sizeof(value)};
}

template <typename T>
T load(std::string_view bytes) {
  T value = {};
  std::memcpy(&value, bytes.data(), std::min(sizeof(T), bytes.size()));
  return value;
}

// Cuts the first `bytes` off `rest`, or what is left.
std::string_view take(std::string_view& rest, std::uint64_t bytes) {
  const std::string_view taken = rest.substr(
      0, static_cast<std::size_t>(std::min<std::uint64_t>(bytes, rest.size())));
  rest.remove_prefix(taken.size());
  return taken;
}

// The text of the number or string that `rest` begins with.
std::string take_element(GgufType type, std::string_view& rest, std::size_t limit) {
  if (type == GgufType::kString) {
    const auto length = load<std::uint64_t>(take(rest, sizeof(std::uint64_t)));
    return printable(take(rest, length), limit);
  }
  const std::string_view bytes = take(rest, gguf_type_bytes(type));
  switch (type) {
    case GgufType::kU8:
      return fmt::format("{}", load<std::uint8_t>(bytes));
    case GgufType::kI8:
      return fmt::format("{}", load<std::int8_t>(bytes));
    case GgufType::kU16:
      return fmt::format("{}", load<std::uint16_t>(bytes));
    case GgufType::kI16:
      return fmt::format("{}", load<std::int16_t>(bytes));
    case GgufType::kU32:
      return fmt::format("{}", load<std::uint32_t>(bytes));
    case GgufType::kI32:
      return fmt::format("{}", load<std::int32_t>(bytes));
    case GgufType::kF32:
      return fmt::format("{}", load<float>(bytes));
    case GgufType::kBool:
      return load<std::uint8_t>(bytes) != 0 ? "true" : "false";
    case GgufType::kU64:
      return fmt::format("{}", load<std::uint64_t>(bytes));
    case GgufType::kI64:
      return fmt::format("{}", load<std::int64_t>(bytes));
    case GgufType::kF64:
      return fmt::format("{}", load<double>(bytes));
    case GgufType::kString:
    case GgufType::kArray:
      break;
  }
  return {};
}

}  // namespace

std::string_view to_string(GgufType type) {
  const auto id = static_cast<std::size_t>(type);
  return id < kTypeRows.size() ? kTypeRows[id].name : "unknown";
}

std::uint64_t gguf_type_bytes(GgufType type) {
  const auto id = static_cast<std::size_t>(type);
  return id < kTypeRows.size() ? kTypeRows[id].bytes : 0;
}

GgufKey GgufKey::u32(std::string key, std::uint32_t value) {
  return {std::move(key), GgufType::kU32, bytes_of_number(value)};
}

GgufKey GgufKey::string(std::string key, std::string_view value) {
  std::string bytes = bytes_of_number(static_cast<std::uint64_t>(value.size()));
  return {std::move(key), GgufType::kString, bytes.append(value)};
}

std::optional<std::uint32_t> GgufKey::as_u32() const {
  if (type != GgufType::kU32) return std::nullopt;
  return load<std::uint32_t>(value);
}

std::optional<std::string_view> GgufKey::as_string() const {
  if (type != GgufType::kString) return std::nullopt;
  std::string_view text = value;
  take(text, sizeof(std::uint64_t));
  return text;
}

std::string GgufKey::text() const {
  std::string_view rest = value;
  if (type != GgufType::kArray) return take_element(type, rest, kShownBytes);
  const auto element =
      static_cast<GgufType>(load<std::uint32_t>(take(rest, sizeof(std::uint32_t))));
  const auto count = load<std::uint64_t>(take(rest, sizeof(std::uint64_t)));
  std::string text = "[";
  for (std::uint64_t i = 0; i < std::min(count, kShownElements); ++i) {
    if (i != 0) text += ", ";
    text += take_element(element, rest, kShownBytes / kShownElements);
  }
  if (count <= kShownElements) return text + "]";
  return text + fmt::format(", ...] ({} of {})", count, to_string(element));
}

}  // namespace pith
