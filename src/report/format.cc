#include "pith/report/format.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "src/base/text.h"

namespace pith::report {
namespace {

bool is_continuation(char c) { return (static_cast<unsigned char>(c) & 0xc0) == 0x80; }

std::size_t width_of(std::string_view text) {
  return text.size() - static_cast<std::size_t>(
                           std::count_if(text.begin(), text.end(), is_continuation));
}

// Characters that turn the direction of the text behind them, or end its line: 0 if the
// character of `length` bytes at the start of `text` is none.
unsigned turning(std::string_view text, std::size_t length) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  if (length == 2 && byte(0) == 0xd8 && byte(1) == 0x9c) return 0x61c;
  if (length != 3 || byte(0) != 0xe2 || (byte(1) != 0x80 && byte(1) != 0x81)) return 0;
  const unsigned code = 0x2000U + (byte(1) - 0x80U) * 64 + (byte(2) - 0x80U);
  const bool turns = code == 0x200e || code == 0x200f ||
                     (code >= 0x2028 && code <= 0x202e) ||
                     (code >= 0x2066 && code <= 0x2069);
  return turns ? code : 0;
}

}  // namespace

std::string with_commas(std::int64_t number) {
  const std::string digits = std::to_string(number);
  std::string out;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    const std::size_t left = digits.size() - i;
    if (i > 0 && left % 3 == 0 && digits[i - 1] != '-') out += ',';
    out += digits[i];
  }
  return out;
}

std::string human_bytes(double bytes) {
  constexpr std::array<const char*, 5> kUnits = {"KiB", "MiB", "GiB", "TiB", "PiB"};
  if (bytes < 1024) return fmt::format("{:.0f} B", bytes);
  std::size_t unit = 0;
  bytes /= 1024;
  while (bytes >= 1024 && unit + 1 < kUnits.size()) {
    bytes /= 1024;
    ++unit;
  }
  return fmt::format("{:.1f} {}", bytes, kUnits[unit]);
}

std::string human_seconds(double seconds) {
  if (seconds < 10) return fmt::format("{:.2f} s", seconds);
  if (seconds < 60) return fmt::format("{:.1f} s", seconds);
  constexpr double kMost = 1e9;
  const auto whole = static_cast<std::int64_t>(std::min(seconds, kMost));
  if (whole < 3600) return fmt::format("{}:{:02} min", whole / 60, whole % 60);
  return fmt::format("{}:{:02} h", whole / 3600, whole / 60 % 60);
}

std::string percent(double share) {
  // Never all or nothing by rounding alone.
  if (share > 0 && share < 0.0005) return "< 0.1 %";
  if (share < 1) share = std::min(share, 0.999);
  return fmt::format("{:.1f} %", 100 * share);
}

std::string significant(double number) { return fmt::format("{:.3g}", number); }

std::string decibels(double number) {
  if (std::isinf(number)) return number > 0 ? "exact" : "-inf dB";
  return fmt::format("{:.1f} dB", number);
}

std::string times(double ratio) {
  return ratio > 0 ? fmt::format("{:.2f}x", ratio) : "-";
}

std::string counted(std::int64_t count, std::string_view word) {
  return fmt::format("{} {}{}", with_commas(count), word, count == 1 ? "" : "s");
}

std::string size_change(std::int64_t before, std::int64_t after) {
  if (before == after) return "the same size";
  const std::string_view word = after < before ? "smaller" : "larger";
  if (before <= 0 || after <= 0) return std::string(word);
  const double ratio = static_cast<double>(before) / static_cast<double>(after);
  // Where "1.00x" would say nothing, and for what has grown.
  if (ratio < 1.01) return fmt::format("{} {}", percent(std::abs(1 / ratio - 1)), word);
  return fmt::format("{} {}", times(ratio), word);
}

std::string place_of(const Shape& shape, std::int64_t index) {
  if (index < 0 || index >= shape.elements()) return "";
  std::string text;
  for (std::size_t axis = shape.rank(); axis > 0; --axis) {
    const std::int64_t extent = shape[axis - 1];
    text = fmt::format("{}{}{}", index % extent, text.empty() ? "" : ", ", text);
    index /= extent;
  }
  return "[" + text + "]";
}

std::string part_of(std::int64_t part, std::int64_t whole) {
  const double share =
      whole > 0 ? static_cast<double>(part) / static_cast<double>(whole) : 0;
  return fmt::format("{} of {} ({})", with_commas(part), with_commas(whole),
                     percent(share));
}

std::string one_line(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const std::size_t length = utf8_length(text);
    const auto byte = static_cast<unsigned char>(text[0]);
    // U+0080 to U+009F are control characters too.
    const bool control =
        byte < 0x20 || byte == 0x7f ||
        (length == 2 && byte == 0xc2 && static_cast<unsigned char>(text[1]) < 0xa0);
    if (byte == '\n') {
      out += "\\n";
    } else if (length == 0 || control) {
      for (const char c : text.substr(0, std::max<std::size_t>(1, length))) {
        out += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
      }
    } else if (const unsigned code = turning(text, length); code != 0) {
      out += fmt::format("\\u{:04x}", code);
    } else {
      out += text.substr(0, length);
    }
    text.remove_prefix(std::max<std::size_t>(1, length));
  }
  return out;
}

std::string aligned(const std::vector<std::vector<std::string>>& rows,
                    const std::vector<bool>& right) {
  std::vector<std::size_t> widths(right.size(), 0);
  for (const std::vector<std::string>& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      widths[i] = std::max(widths[i], width_of(row[i]));
    }
  }
  std::string out;
  for (const std::vector<std::string>& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      const std::string fill(widths[i] - width_of(row[i]), ' ');
      line += "  " + (right[i] ? fill + row[i] : row[i] + fill);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
  }
  return out;
}

}  // namespace pith::report
