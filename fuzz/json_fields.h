// JSON that is right but for a few places.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "fuzz/fields.h"

namespace pith::fuzz {

/// A string: quoted, now and then with an escape where none is needed, or with one that is
/// wrong.
inline std::string json_string(Fields& fields, std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (fields.one_in(64)) {
      out += fmt::format("\\u{:04x}", static_cast<unsigned char>(c));
    } else {
      if (c == '"' || c == '\\') out += '\\';
      out += c;
    }
  }
  if (fields.one_in(200)) out += fields.one_in(2) ? "\\ud800" : "\\x";
  return out + "\"";
}

/// A number, now and then with a sign, a fraction or an exponent.
inline std::string json_number(Fields& fields, std::uint64_t value) {
  if (!fields.one_in(100)) return std::to_string(value);
  switch (fields.below(5)) {
    case 0:
      return "-" + std::to_string(value);
    case 1:
      return std::to_string(value) + ".0";
    case 2:
      return std::to_string(value) + "e0";
    case 3:
      return "-0";
    default:
      return "18446744073709551616";
  }
}

/// `text`, or rarely a value of another type in its place.
inline std::string json_mostly(Fields& fields, std::string text) {
  if (!fields.one_in(100)) return text;
  switch (fields.below(7)) {
    case 0:
      return "null";
    case 1:
      return "[]";
    case 2:
      return "{}";
    case 3:
      return "\"\"";
    case 4:
      return "true";
    case 5:
      return std::string(70, '[') + std::string(70, ']');
    default:
      return "";
  }
}

}  // namespace pith::fuzz
