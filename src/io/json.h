// Strict JSON, as events: for headers, indexes and manifests that come from anywhere.
//
//   class Names : public JsonHandler { ... Status key(std::string& key) override; };
//   Names names;
//   PITH_OK(parse_json(reader, names));
//
// Beyond what JSON itself demands (well-formed UTF-8, no comments, nothing after the
// value), there is no byte-order mark and no NUL; nesting is at most 64 deep, found by a
// counter and not by recursion; a string or number is at most kMaxJsonToken long. The
// text is read piece by piece: memory does not grow with it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "pith/base/result.h"
#include "src/io/reader.h"

namespace pith {

inline constexpr int kMaxJsonDepth = 64;
inline constexpr std::uint64_t kMaxJsonToken = 16 << 20;

/// What parse_json finds, in the order of the text. An error ends the parse and is its
/// result. Strings may be moved from. Duplicate keys are for the handler to see.
class JsonHandler {
 public:
  virtual ~JsonHandler() = default;
  virtual Status begin_object() = 0;
  virtual Status end_object() = 0;
  virtual Status begin_array() = 0;
  virtual Status end_array() = 0;
  virtual Status key(std::string& key) = 0;
  virtual Status string(std::string& value) = 0;
  /// A whole number up to 2^64-1, written without sign, fraction and exponent.
  virtual Status number(std::uint64_t value) = 0;
  /// Any other number: -1, -0, 2.0, 2e0, 18446744073709551616.
  virtual Status other_number(double value) = 0;
  virtual Status boolean(bool value) = 0;
  virtual Status null() = 0;
};

/// Reads all that is left of `in` as one JSON value. kCorrupt `byte N: not JSON: why`,
/// with N a position of `in`, or what the handler or the reader says.
Status parse_json(ByteReader& in, JsonHandler& handler);

/// Makes a tree of values of events. kCorrupt for a key that is twice in an object (also
/// if it is written with other escapes), or more than `max_values` values, which bounds
/// the memory at about 100 bytes each, beside the strings.
class JsonTree : public JsonHandler {
 public:
  explicit JsonTree(std::size_t max_values);
  ~JsonTree() override;

  /// True if a whole value was seen; then take() gives it, and the next may follow.
  [[nodiscard]] bool complete() const { return complete_; }
  nlohmann::json take();

  Status begin_object() override;
  Status end_object() override;
  Status begin_array() override;
  Status end_array() override;
  Status key(std::string& key) override;
  Status string(std::string& value) override;
  Status number(std::uint64_t value) override;
  Status other_number(double value) override;
  Status boolean(bool value) override;
  Status null() override;

 private:
  Status add(nlohmann::json value);
  Status begin(nlohmann::json value);
  Status end();

  std::size_t max_values_;
  std::size_t values_ = 0;
  bool complete_ = false;
  std::unique_ptr<nlohmann::json> root_;
  nlohmann::json* last_ = nullptr;
  std::vector<nlohmann::json*> stack_;  // an open value does not move: only its end grows
  std::string key_;
};

/// A small text as a tree; fails as parse_json and JsonTree do.
Result<nlohmann::json> parse_json_tree(ByteReader& in, std::size_t max_values);

}  // namespace pith
