// GGUF key-values: what a model file says of itself beside its tensors (architecture,
// tokenizer, ...), kept exactly as it is stored so that it can be carried over.
//
//   PITH_TRY(auto model, pith::Checkpoint::open("model.gguf"));
//   for (const pith::GgufKey& key : pith::gguf_keys(*model)) {
//     if (key.key == "general.name") use(key.text());
//   }
//
// The order is that of the file. Tensors of GGUF files are read as those of any other
// Checkpoint; docs/formats/gguf.md tells what is accepted.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "pith/io/checkpoint.h"

namespace pith {

/// Types of values, by the numbers that stand in the file.
enum class GgufType : std::uint32_t {
  kU8 = 0,
  kI8 = 1,
  kU16 = 2,
  kI16 = 3,
  kU32 = 4,
  kI32 = 5,
  kF32 = 6,
  kBool = 7,
  kString = 8,
  kArray = 9,
  kU64 = 10,
  kI64 = 11,
  kF64 = 12,
};

/// "u8", "string", ...
[[nodiscard]] std::string_view to_string(GgufType type);

/// One key and its value, which need not be understood to be carried over.
struct GgufKey {
  std::string key;
  GgufType type = GgufType::kU32;
  /// The bytes that stand in the file behind the type, little-endian. A string is its
  /// length (u64) and its bytes; an array the type of its elements (u32), their number
  /// (u64) and the elements.
  std::string value;

  static GgufKey u32(std::string key, std::uint32_t value);
  static GgufKey string(std::string key, std::string_view value);

  /// The value of a u32, or nothing if it is of another type.
  [[nodiscard]] std::optional<std::uint32_t> as_u32() const;
  /// The value of a string, or nothing if it is of another type.
  [[nodiscard]] std::optional<std::string_view> as_string() const;
  /// For people: numbers and strings in full up to 200 bytes, arrays with their number of
  /// elements and the first few. Bytes that are not printable are escaped.
  [[nodiscard]] std::string text() const;

  friend bool operator==(const GgufKey&, const GgufKey&) = default;
};

/// The key-values of a GGUF file in its order; none for a checkpoint of another format.
/// They live as long as the checkpoint.
[[nodiscard]] std::span<const GgufKey> gguf_keys(const Checkpoint& checkpoint);

}  // namespace pith
