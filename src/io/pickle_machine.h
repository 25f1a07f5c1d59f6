// The stack machine of pickle.h: turns a pickle into values, and executes nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "pith/base/result.h"
#include "src/io/pickle.h"
#include "src/io/pickle_opcodes.h"
#include "src/io/reader.h"

namespace pith {

/// What a value is.
enum class PickleKind : std::uint8_t {
  kNone,
  kBool,
  kInt,
  kFloat,
  kString,
  kTuple,
  kList,
  kDict,
  kGlobal,
  kStorage,
  kTensor,
};

[[nodiscard]] std::string_view to_string(PickleKind kind);

/// A value: its kind, and which one of that kind. Copies mean the same object.
struct PickleValue {
  PickleKind kind = PickleKind::kNone;
  std::uint32_t id = 0;
};

class PickleMachine {
 public:
  using Values = std::vector<PickleValue>;
  struct Dict {
    std::vector<std::pair<PickleValue, PickleValue>> items;
    bool ordered = false;  // an OrderedDict
  };

  explicit PickleMachine(std::span<const std::byte> pickle)
      : pickle_(pickle), in_(pickle) {}

  /// Runs to STOP, and gives the one object that is left. Once only.
  Result<PickleValue> run();

  // The objects made, by the id of a value of that kind.
  [[nodiscard]] std::int64_t integer(PickleValue v) const { return ints_[v.id]; }
  [[nodiscard]] double real(PickleValue v) const { return floats_[v.id]; }
  [[nodiscard]] std::string_view string(PickleValue v) const { return strings_[v.id]; }
  [[nodiscard]] std::span<const PickleValue> tuple(PickleValue v) const {
    return std::span(items_).subspan(tuples_[v.id].first, tuples_[v.id].second);
  }
  [[nodiscard]] const Values& list(PickleValue v) const { return lists_[v.id]; }
  [[nodiscard]] const Dict& dict(PickleValue v) const { return dicts_[v.id]; }
  [[nodiscard]] const PickledTensor& tensor(PickleValue v) const {
    return tensors_[v.id];
  }
  [[nodiscard]] std::vector<PickledStorage> take_storages() {
    return std::move(storages_);
  }

 private:
  Status start();
  Status step(PickleOp op);
  Status number(PickleOp op);
  Status text(std::uint64_t length);
  Status memo(PickleOp op);
  Status container(PickleOp op);
  Status collect(PickleOp op);
  Status global();
  Status persistent_id();
  Status reduce();
  Status build();
  Status rebuild_tensor(std::span<const PickleValue> arguments);
  Status rebuild_parameter(std::span<const PickleValue> arguments);

  Status push(PickleValue value);
  template <typename T>
  Status push_new(PickleKind kind, std::vector<T>& objects, T object);
  Status push_tuple(std::size_t size);
  Result<PickleValue> pop();
  /// The values above the last mark stay on the stack; gives how many they are.
  Result<std::size_t> pop_mark();
  /// The list or dict that `above` values on the stack are to be put into.
  Result<PickleValue> target(std::size_t above, PickleKind kind) const;
  Result<std::vector<std::int64_t>> sizes(PickleValue value, std::string_view what) const;

  std::span<const std::byte> pickle_;
  ByteReader in_;
  Values stack_;
  std::vector<std::size_t> marks_;  // heights of the stack
  Values memo_;
  std::vector<bool> memo_set_;
  std::size_t made_ = 0;

  std::vector<std::int64_t> ints_;
  std::vector<double> floats_;
  std::vector<std::string_view> strings_;                    // in the pickle
  std::vector<std::pair<std::size_t, std::size_t>> tuples_;  // begin and size in items_
  Values items_;
  std::vector<Values> lists_;
  std::vector<Dict> dicts_;
  std::vector<PickledStorage> storages_;
  std::map<std::string_view, std::size_t> storage_by_key_;
  std::vector<PickledTensor> tensors_;
};

}  // namespace pith
