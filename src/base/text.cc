#include "src/base/text.h"

#include <fmt/format.h>

#include <algorithm>

#include "src/base/checked.h"

#include <cstdint>
#include <cstring>

namespace pith {
namespace {

std::uint8_t byte_at(std::string_view text, std::size_t i) {
  return static_cast<std::uint8_t>(text[i]);
}

void append_escaped(std::string& out, std::uint8_t byte) {
  switch (byte) {
    case '\n':
      out += "\\n";
      break;
    case '\t':
      out += "\\t";
      break;
    case '\r':
      out += "\\r";
      break;
    default:
      out += fmt::format("\\x{:02x}", byte);
  }
}

// Control characters of both tables: below 20, 7F, and 80 to 9F (C2 80 ... C2 9F in
// UTF-8), which some terminals obey.
bool is_control(std::string_view character) {
  const std::uint8_t first = byte_at(character, 0);
  if (character.size() == 1) return first < 0x20 || first == 0x7f;
  return first == 0xc2 && byte_at(character, 1) < 0xa0;
}

std::string escape(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const std::size_t length = utf8_length(text);
    const std::string_view character = text.substr(0, length == 0 ? 1 : length);
    if (length == 0 || is_control(character)) {
      for (const char c : character) append_escaped(out, static_cast<std::uint8_t>(c));
    } else {
      if (character == "\\" || character == "\"") out += '\\';
      out += character;
    }
    text.remove_prefix(character.size());
  }
  return out;
}

}  // namespace

std::size_t utf8_length(std::string_view text) {
  const std::uint8_t first = byte_at(text, 0);
  if (first < 0x80) return 1;
  if (first < 0xc2 || first > 0xf4) return 0;
  const std::size_t length = first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
  if (text.size() < length) return 0;
  // The second byte alone rules out overlong forms, surrogates and what is above
  // U+10FFFF.
  const std::uint8_t second = byte_at(text, 1);
  std::uint8_t low = 0x80;
  std::uint8_t high = 0xbf;
  if (first == 0xe0) low = 0xa0;
  if (first == 0xed) high = 0x9f;
  if (first == 0xf0) low = 0x90;
  if (first == 0xf4) high = 0x8f;
  if (second < low || second > high) return 0;
  for (std::size_t i = 2; i < length; ++i) {
    if (byte_at(text, i) < 0x80 || byte_at(text, i) > 0xbf) return 0;
  }
  return length;
}

std::size_t find_invalid_utf8(std::string_view text) {
  std::size_t i = 0;
  while (i < text.size()) {
    // Headers are nearly all ASCII: eight bytes at a time.
    std::uint64_t eight = 0;
    while (i + sizeof(eight) <= text.size()) {
      std::memcpy(&eight, text.data() + i, sizeof(eight));
      if ((eight & 0x8080808080808080u) != 0) break;
      i += sizeof(eight);
    }
    if (i == text.size()) break;
    const std::size_t length = utf8_length(text.substr(i));
    if (length == 0) return i;
    i += length;
  }
  return std::string_view::npos;
}

std::string printable(std::string_view text, std::size_t limit) {
  // Escapes make text longer: of what is mostly escapes, less is shown.
  for (std::size_t keep = limit;; keep /= 2) {
    std::string out;
    if (text.size() <= keep) {
      out = escape(text);
    } else {
      // A cut may fall into a character: its bytes are then shown as \x...
      const std::size_t tail = keep / 2;
      out = escape(text.substr(0, keep - tail)) + "..." +
            escape(text.substr(text.size() - tail));
    }
    if (out.size() <= limit + limit / 2 + 3 || keep < 2) return out;
  }
}

std::optional<std::string_view> find_duplicate(std::vector<std::string_view> names) {
  if (is_planted(3)) return std::nullopt;
  std::sort(names.begin(), names.end());
  const auto twice = std::adjacent_find(names.begin(), names.end());
  if (twice == names.end()) return std::nullopt;
  return *twice;
}

}  // namespace pith
