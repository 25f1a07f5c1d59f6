#include "tests/golden/encoding.h"

#include <fmt/format.h>

#include <bit>
#include <charconv>

namespace pith::golden {
namespace {

std::uint32_t digit_of(char c) {
  if (c >= '0' && c <= '9') return static_cast<std::uint32_t>(c - '0');
  if (c >= 'a' && c <= 'f') return static_cast<std::uint32_t>(c - 'a' + 10);
  throw BadCase(fmt::format("'{}' is no hexadecimal digit", c));
}

template <typename T>
std::vector<T> integers_of(const Json& value) {
  std::vector<T> out;
  for (const Json& item : value) {
    const auto number = item.get<std::int64_t>();
    if (number < std::numeric_limits<T>::min() ||
        number > std::numeric_limits<T>::max()) {
      throw BadCase(fmt::format("integer {} is out of range", number));
    }
    out.push_back(static_cast<T>(number));
  }
  return out;
}

}  // namespace

std::vector<std::uint32_t> words_of(std::string_view hex, std::size_t digits) {
  if (hex.size() % digits != 0) {
    throw BadCase(fmt::format("{} hexadecimal digits, expected a multiple of {}",
                              hex.size(), digits));
  }
  std::vector<std::uint32_t> words(hex.size() / digits);
  for (std::size_t i = 0; i < hex.size(); ++i) {
    std::uint32_t& word = words[i / digits];
    word = (word << 4) | digit_of(hex[i]);
  }
  return words;
}

std::vector<float> to_f32s(const Json& value) {
  std::vector<float> out;
  for (std::uint32_t word : words_of(value.at("hex").get<std::string>(), 8)) {
    out.push_back(std::bit_cast<float>(word));
  }
  return out;
}

float to_f32(const Json& value) {
  const std::vector<float> values = to_f32s(value);
  if (values.size() != 1) throw BadCase("expected one binary32 value");
  return values[0];
}

std::vector<std::uint16_t> to_f16s(const Json& value) {
  const Json& hex = value.is_object() ? value.at("hex16") : value;
  std::vector<std::uint16_t> out;
  for (std::uint32_t word : words_of(hex.get<std::string>(), 4)) {
    out.push_back(static_cast<std::uint16_t>(word));
  }
  return out;
}

std::vector<std::uint8_t> to_bytes(const Json& value) {
  std::vector<std::uint8_t> out;
  for (std::uint32_t word : words_of(value.get<std::string>(), 2)) {
    out.push_back(static_cast<std::uint8_t>(word));
  }
  return out;
}

std::uint64_t to_u64(const Json& value) {
  if (!value.is_string()) return value.get<std::uint64_t>();
  const auto& text = value.get_ref<const std::string&>();
  std::uint64_t number = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || rest != end) {
    throw BadCase(fmt::format("'{}' is no unsigned integer", text));
  }
  return number;
}

std::vector<std::int8_t> to_codes(const Json& value) {
  return integers_of<std::int8_t>(value);
}

std::vector<std::int64_t> to_extents(const Json& value) {
  return integers_of<std::int64_t>(value);
}

Json f32(float value) { return f32s(std::span(&value, 1)); }

Json f32s(std::span<const float> values) {
  std::string hex;
  for (float value : values) {
    fmt::format_to(std::back_inserter(hex), "{:08x}",
                   std::bit_cast<std::uint32_t>(value));
  }
  return {{"hex", std::move(hex)}};
}

std::string hex16(std::span<const std::uint16_t> values) {
  std::string hex;
  for (std::uint16_t value : values) {
    fmt::format_to(std::back_inserter(hex), "{:04x}", value);
  }
  return hex;
}

Json f16s(std::span<const std::uint16_t> values) { return {{"hex16", hex16(values)}}; }

std::string bytes_hex(std::span<const std::uint8_t> values) {
  std::string hex;
  for (std::uint8_t value : values) {
    fmt::format_to(std::back_inserter(hex), "{:02x}", value);
  }
  return hex;
}

Json integers(std::span<const std::int8_t> values) {
  Json out = Json::array();
  for (std::int8_t value : values) out.push_back(value);
  return out;
}

Json integers(std::span<const std::int64_t> values) {
  Json out = Json::array();
  for (std::int64_t value : values) out.push_back(value);
  return out;
}

}  // namespace pith::golden
