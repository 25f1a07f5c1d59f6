#include "tests/golden/compare.h"

#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <optional>

#include "pith/tensor/half.h"

namespace pith::golden {
namespace {

// The distance of two floats in steps from one representable value to the next; +0 and -0
// are at the same place.
std::int64_t steps_between(float a, float b) {
  const auto place = [](float value) {
    const auto bits = static_cast<std::int64_t>(std::bit_cast<std::uint32_t>(value));
    return (bits & 0x80000000) != 0 ? -(bits & 0x7fffffff) : bits;
  };
  return std::llabs(place(a) - place(b));
}

bool agree(float expected, float got, const Json* tolerance) {
  if (std::isnan(expected) || std::isnan(got)) {
    return std::isnan(expected) && std::isnan(got);
  }
  if (std::bit_cast<std::uint32_t>(expected) == std::bit_cast<std::uint32_t>(got)) {
    return true;
  }
  if (tolerance == nullptr || std::isinf(expected) || std::isinf(got)) return false;
  const double distance = std::fabs(static_cast<double>(expected) - got);
  if (tolerance->contains("abs")) return distance <= tolerance->at("abs").get<double>();
  if (tolerance->contains("rel")) {
    return distance <= tolerance->at("rel").get<double>() * std::fabs(expected);
  }
  return steps_between(expected, got) <= tolerance->at("ulp").get<std::int64_t>();
}

std::string show(float value) {
  return fmt::format("{} ({:08x})", value, std::bit_cast<std::uint32_t>(value));
}

class Comparison {
 public:
  explicit Comparison(const Json& tolerances) : tolerances_(tolerances) {}

  std::string of(const Json& expected, const Json& got, const std::string& field) const {
    if (expected.is_object()) return of_objects(expected, got, field);
    if (expected.is_array()) return of_lists(expected, got, field);
    if (expected == got) return {};
    return fmt::format("{}: expected {}, got {}", name(field), expected.dump(),
                       got.dump());
  }

 private:
  std::string of_objects(const Json& expected, const Json& got,
                         const std::string& field) const {
    if (!got.is_object()) {
      return fmt::format("{}: expected an object, got {}", name(field), got.dump());
    }
    for (const auto& [key, value] : expected.items()) {
      if (key == "dec" || key == "scheme") continue;
      const std::string inner = field.empty() ? key : field + "." + key;
      if (!got.contains(key)) return fmt::format("{}: nothing was got", inner);
      std::string found;
      if (key == "hex") {
        found = of_words(value, got.at(key), field, 8);
      } else if (key == "hex16" && value.is_string()) {
        found = of_words(value, got.at(key), field, 4);
      } else {
        found = of(value, got.at(key), inner);
      }
      if (!found.empty()) return found;
    }
    for (const auto& [key, value] : got.items()) {
      if (!expected.contains(key)) {
        return fmt::format("{}.{}: not expected, got {}", field, key, value.dump());
      }
    }
    return {};
  }

  std::string of_lists(const Json& expected, const Json& got,
                       const std::string& field) const {
    if (!got.is_array() || got.size() != expected.size()) {
      return fmt::format("{}: expected {} items, got {}", name(field), expected.size(),
                         got.is_array() ? std::to_string(got.size()) : got.dump());
    }
    for (std::size_t i = 0; i < expected.size(); ++i) {
      std::string found = of(expected[i], got[i], field);
      if (!found.empty()) return fmt::format("[{}] {}", i, found);
    }
    return {};
  }

  // Numbers given as bit patterns: 8 digits are f32, 4 are f16.
  std::string of_words(const Json& expected, const Json& got, const std::string& field,
                       std::size_t digits) const {
    const auto want = words_of(expected.get<std::string>(), digits);
    const auto have = words_of(got.get<std::string>(), digits);
    if (want.size() != have.size()) {
      return fmt::format("{}: expected {} numbers, got {}", name(field), want.size(),
                         have.size());
    }
    const Json* tolerance =
        tolerances_.contains(field) ? &tolerances_.at(field) : nullptr;
    const auto number = [digits](std::uint32_t word) {
      return digits == 8 ? std::bit_cast<float>(word)
                         : f16_to_f32(static_cast<std::uint16_t>(word));
    };
    std::size_t wrong = 0;
    std::string first;
    for (std::size_t i = 0; i < want.size(); ++i) {
      if (agree(number(want[i]), number(have[i]), tolerance)) continue;
      if (wrong++ == 0) {
        first = fmt::format("{}[{}]: expected {}, got {}", name(field), i,
                            show(number(want[i])), show(number(have[i])));
      }
    }
    if (wrong > 1) first += fmt::format(" and {} more of {}", wrong - 1, want.size());
    return first;
  }

  static std::string name(const std::string& field) {
    return field.empty() ? "output" : field;
  }

  const Json& tolerances_;
};

bool is_word(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
         c == '_';
}

void collect_missing(std::string_view message, const Json& info, std::string& missing) {
  if (info.is_object() && !info.contains("hex")) {
    for (const auto& [key, value] : info.items()) {
      if (key != "dec") collect_missing(message, value, missing);
    }
    return;
  }
  if (info.is_array()) {
    for (const Json& item : info) collect_missing(message, item, missing);
    return;
  }
  std::string text;
  if (info.is_object()) {
    text = fmt::format("{}", to_f32(info));
  } else if (info.is_string()) {
    text = info.get<std::string>();
  } else {
    text = info.dump();
  }
  if (mentions(message, text)) return;
  if (!missing.empty()) missing += ", ";
  missing += text;
}

}  // namespace

std::string difference(const Json& expected, const Json& got, const Json& tolerances) {
  return Comparison(tolerances).of(expected, got, {});
}

bool mentions(std::string_view message, std::string_view number) {
  for (std::size_t at = message.find(number); at != std::string_view::npos;
       at = message.find(number, at + 1)) {
    const std::size_t end = at + number.size();
    const bool starts = at == 0 || (!is_word(message[at - 1]) && message[at - 1] != '.' &&
                                    message[at - 1] != '-');
    // A full stop after the number ends a sentence unless a digit follows it.
    const bool ends =
        end == message.size() ||
        (!is_word(message[end]) &&
         !(message[end] == '.' && end + 1 < message.size() && is_word(message[end + 1])));
    if (starts && ends) return true;
  }
  return false;
}

std::string missing_from(std::string_view message, const Json& info) {
  std::string missing;
  collect_missing(message, info, missing);
  return missing;
}

}  // namespace pith::golden
