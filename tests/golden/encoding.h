// The encodings of golden vectors: numbers as bit patterns in hexadecimal, so that
// nothing is lost between a file and a test.
//
//   {"hex": "3f800000", "dec": 1.0}           one f32; "dec" is for people
//   {"hex": "3f80000040000000", "dec": [..]}  several
//   {"hex16": "3c00bc00"}                     several f16
//   "codes": "00ff"                           bytes
//   "seed": "18446744073709551615"            integers beyond int64
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace pith::golden {

using Json = nlohmann::json;

/// A line that is no case, or a case whose input is not what its function takes. It ends
/// that case as failed.
class BadCase : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Reading. All throw BadCase, or nlohmann's exceptions for missing keys and wrong types.

[[nodiscard]] float to_f32(const Json& value);
[[nodiscard]] std::vector<float> to_f32s(const Json& value);
/// From an object with a key "hex16", or from its bare string.
[[nodiscard]] std::vector<std::uint16_t> to_f16s(const Json& value);
[[nodiscard]] std::vector<std::uint8_t> to_bytes(const Json& value);
/// From a number or a decimal string.
[[nodiscard]] std::uint64_t to_u64(const Json& value);
[[nodiscard]] std::vector<std::int8_t> to_codes(const Json& value);
[[nodiscard]] std::vector<std::int64_t> to_extents(const Json& value);

/// Words of `digits` hexadecimal digits each.
[[nodiscard]] std::vector<std::uint32_t> words_of(std::string_view hex,
                                                  std::size_t digits);

// Writing: what an adapter answers with.

[[nodiscard]] Json f32(float value);
/// The nearest f32.
[[nodiscard]] inline Json f32_of(double value) { return f32(static_cast<float>(value)); }
[[nodiscard]] Json f32s(std::span<const float> values);
[[nodiscard]] std::string hex16(std::span<const std::uint16_t> values);
[[nodiscard]] Json f16s(std::span<const std::uint16_t> values);
[[nodiscard]] std::string bytes_hex(std::span<const std::uint8_t> values);
[[nodiscard]] Json integers(std::span<const std::int8_t> values);
[[nodiscard]] Json integers(std::span<const std::int64_t> values);

}  // namespace pith::golden
