#include "src/io/pickle_machine.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <optional>

#include "pith/tensor/shape.h"
#include "src/base/text.h"
#include "src/io/strided.h"

namespace pith {
namespace {

// A model of 100,000 tensors stays far below these.
constexpr std::size_t kMaxStack = 1 << 20;
constexpr std::size_t kMaxMemo = 1 << 21;
constexpr std::size_t kMaxValues = 1 << 21;
constexpr std::size_t kPickleMaxRank = 64;
constexpr std::size_t kMaxGlobal = 256;
// A view that repeats elements of its storage may have no more than these.
constexpr std::int64_t kMaxRepeated = 1 << 28;

enum class Callable : std::uint8_t { kOrderedDict, kTensor, kParameter, kNone };

struct Global {
  std::string_view module;
  std::string_view name;
  Callable callable;
  std::optional<DType> storage;  // of a storage class
};

// The allow-list. A pickle that names anything else is refused.
constexpr std::array kGlobals = {
    Global{"collections", "OrderedDict", Callable::kOrderedDict, std::nullopt},
    Global{"torch._utils", "_rebuild_tensor_v2", Callable::kTensor, std::nullopt},
    Global{"torch._utils", "_rebuild_parameter", Callable::kParameter, std::nullopt},
    Global{"torch", "FloatStorage", Callable::kNone, DType::kF32},
    Global{"torch", "DoubleStorage", Callable::kNone, DType::kF64},
    Global{"torch", "HalfStorage", Callable::kNone, DType::kF16},
    Global{"torch", "BFloat16Storage", Callable::kNone, DType::kBF16},
    Global{"torch", "LongStorage", Callable::kNone, DType::kI64},
    Global{"torch", "IntStorage", Callable::kNone, DType::kI32},
    Global{"torch", "ShortStorage", Callable::kNone, DType::kI16},
    Global{"torch", "CharStorage", Callable::kNone, DType::kI8},
    Global{"torch", "ByteStorage", Callable::kNone, DType::kU8},
    Global{"torch", "BoolStorage", Callable::kNone, DType::kBool},
};

}  // namespace

std::string_view to_string(PickleKind kind) {
  switch (kind) {
    case PickleKind::kNone:
      return "None";
    case PickleKind::kBool:
      return "a bool";
    case PickleKind::kInt:
      return "an integer";
    case PickleKind::kFloat:
      return "a number";
    case PickleKind::kString:
      return "a string";
    case PickleKind::kTuple:
      return "a tuple";
    case PickleKind::kList:
      return "a list";
    case PickleKind::kDict:
      return "a dict";
    case PickleKind::kGlobal:
      return "a function or class";
    case PickleKind::kStorage:
      return "a storage";
    case PickleKind::kTensor:
      return "a tensor";
  }
  return "unknown";
}

Result<PickleValue> PickleMachine::run() {
  PITH_OK(start());
  while (true) {
    const std::uint64_t at = in_.position();
    PITH_TRY(const std::uint8_t op, in_.u8("opcode"));
    if (static_cast<PickleOp>(op) == PickleOp::kStop) break;
    if (Status s = step(static_cast<PickleOp>(op)); !s.ok()) {
      return s.with_context(fmt::format("byte {} ({})", at, pickle_op_name(op)));
    }
  }
  if (stack_.size() != 1 || !marks_.empty()) {
    return Status::corrupt(
        fmt::format("byte {}: the pickle ends with {} objects, expected one",
                    in_.position() - 1, stack_.size()));
  }
  if (in_.remaining() != 0) {
    return Status::corrupt(fmt::format("byte {}: {} bytes behind the end of the pickle",
                                       in_.position(), in_.remaining()));
  }
  return stack_.front();
}

Status PickleMachine::start() {
  PITH_TRY(const std::uint8_t op, in_.u8("opcode"));
  PITH_TRY(const std::uint8_t protocol, in_.u8("protocol"));
  if (static_cast<PickleOp>(op) != PickleOp::kProto) {
    return Status::unsupported("the pickle does not begin with its protocol");
  }
  if (protocol != 2 && protocol != 3) {
    return Status::unsupported(fmt::format(
        "pickle protocol {}, expected 2, the default of torch.save", protocol));
  }
  return {};
}

Status PickleMachine::step(PickleOp op) {
  switch (op) {
    case PickleOp::kBinInt:
    case PickleOp::kBinInt1:
    case PickleOp::kBinInt2:
    case PickleOp::kLong1:
    case PickleOp::kBinFloat:
      return number(op);
    case PickleOp::kNone:
      return push({PickleKind::kNone, 0});
    case PickleOp::kNewTrue:
      return push({PickleKind::kBool, 1});
    case PickleOp::kNewFalse:
      return push({PickleKind::kBool, 0});
    case PickleOp::kBinUnicode: {
      PITH_TRY(const std::uint32_t length, in_.u32("string length"));
      return text(length);
    }
    case PickleOp::kShortBinString: {
      PITH_TRY(const std::uint8_t length, in_.u8("string length"));
      return text(length);
    }
    case PickleOp::kBinPut:
    case PickleOp::kLongBinPut:
    case PickleOp::kBinGet:
    case PickleOp::kLongBinGet:
      return memo(op);
    case PickleOp::kMark:
      if (marks_.size() == kMaxStack) return Status::unsupported("too many marks");
      marks_.push_back(stack_.size());
      return {};
    case PickleOp::kEmptyTuple:
    case PickleOp::kTuple1:
    case PickleOp::kTuple2:
    case PickleOp::kTuple3:
    case PickleOp::kTuple:
    case PickleOp::kEmptyList:
    case PickleOp::kEmptyDict:
      return container(op);
    case PickleOp::kAppend:
    case PickleOp::kAppends:
    case PickleOp::kSetItem:
    case PickleOp::kSetItems:
      return collect(op);
    case PickleOp::kGlobal:
      return global();
    case PickleOp::kBinPersId:
      return persistent_id();
    case PickleOp::kReduce:
      return reduce();
    case PickleOp::kBuild:
      return build();
    case PickleOp::kProto:
    case PickleOp::kStop:
      break;
  }
  return Status::unsupported(
      "this opcode is not part of a state dict and is never executed; convert the file "
      "to "
      "safetensors where it is trusted");
}

Status PickleMachine::push(PickleValue value) {
  if (stack_.size() == kMaxStack) return Status::unsupported("too many objects at once");
  stack_.push_back(value);
  return {};
}

template <typename T>
Status PickleMachine::push_new(PickleKind kind, std::vector<T>& objects, T object) {
  if (made_ == kMaxValues) return Status::unsupported("too many objects");
  ++made_;
  objects.push_back(std::move(object));
  return push({kind, static_cast<std::uint32_t>(objects.size() - 1)});
}

Result<PickleValue> PickleMachine::pop() {
  const std::size_t floor = marks_.empty() ? 0 : marks_.back();
  if (stack_.size() <= floor) return Status::corrupt("the stack is empty");
  const PickleValue value = stack_.back();
  stack_.pop_back();
  return value;
}

Result<std::size_t> PickleMachine::pop_mark() {
  if (marks_.empty()) return Status::corrupt("there is no mark");
  const std::size_t above = stack_.size() - marks_.back();
  marks_.pop_back();
  return above;
}

Status PickleMachine::number(PickleOp op) {
  if (op == PickleOp::kBinFloat) {  // the one big-endian number
    PITH_TRY(const std::uint64_t bits, in_.u64("number"));
    return push_new(PickleKind::kFloat, floats_,
                    std::bit_cast<double>(__builtin_bswap64(bits)));
  }
  std::int64_t value = 0;
  if (op == PickleOp::kBinInt1) {
    PITH_TRY(value, in_.u8("integer"));
  } else if (op == PickleOp::kBinInt2) {
    PITH_TRY(value, in_.u16("integer"));
  } else if (op == PickleOp::kBinInt) {
    PITH_TRY(value, in_.i32("integer"));
  } else {
    PITH_TRY(const std::uint8_t length, in_.u8("length of an integer"));
    if (length > sizeof(value)) {
      return Status::unsupported(
          fmt::format("an integer of {} bytes, at most 8 are read", length));
    }
    std::array<std::byte, sizeof(value)> bytes = {};
    PITH_OK(in_.bytes(std::span(bytes).first(length), "integer"));
    const bool negative =
        length != 0 && (bytes[length - 1U] & std::byte{0x80}) != std::byte{};
    if (negative) std::fill(bytes.begin() + length, bytes.end(), std::byte{0xff});
    value = std::bit_cast<std::int64_t>(bytes);
  }
  return push_new(PickleKind::kInt, ints_, value);
}

Status PickleMachine::text(std::uint64_t length) {
  const std::uint64_t at = in_.position();
  PITH_OK(in_.skip(length, "string"));
  const std::string_view bytes(reinterpret_cast<const char*>(pickle_.data()) + at,
                               static_cast<std::size_t>(length));
  return push_new(PickleKind::kString, strings_, bytes);
}

Status PickleMachine::memo(PickleOp op) {
  const bool put = op == PickleOp::kBinPut || op == PickleOp::kLongBinPut;
  std::uint32_t index = 0;
  if (op == PickleOp::kBinPut || op == PickleOp::kBinGet) {
    PITH_TRY(index, in_.u8("memo index"));
  } else {
    PITH_TRY(index, in_.u32("memo index"));
  }
  if (index >= kMaxMemo) {
    return Status::unsupported(
        fmt::format("memo index {}, at most {} are kept", index, kMaxMemo));
  }
  if (!put) {
    if (index >= memo_.size() || !memo_set_[index]) {
      return Status::corrupt(fmt::format("memo {} was never put", index));
    }
    return push(memo_[index]);
  }
  PITH_TRY(const PickleValue value, pop());
  if (index >= memo_.size()) {
    memo_.resize(index + std::size_t{1});
    memo_set_.resize(index + std::size_t{1});
  }
  memo_[index] = value;
  memo_set_[index] = true;
  return push(value);
}

Status PickleMachine::push_tuple(std::size_t size) {
  const std::size_t floor = marks_.empty() ? 0 : marks_.back();
  if (stack_.size() - floor < size) return Status::corrupt("too few objects for a tuple");
  if (made_ + size > kMaxValues) return Status::unsupported("too many objects");
  made_ += size;
  const std::size_t begin = items_.size();
  items_.insert(items_.end(), stack_.end() - static_cast<std::ptrdiff_t>(size),
                stack_.end());
  stack_.resize(stack_.size() - size);
  return push_new(PickleKind::kTuple, tuples_, std::pair(begin, size));
}

Status PickleMachine::container(PickleOp op) {
  switch (op) {
    case PickleOp::kEmptyList:
      return push_new(PickleKind::kList, lists_, Values());
    case PickleOp::kEmptyDict:
      return push_new(PickleKind::kDict, dicts_, Dict());
    case PickleOp::kEmptyTuple:
      return push_tuple(0);
    case PickleOp::kTuple1:
      return push_tuple(1);
    case PickleOp::kTuple2:
      return push_tuple(2);
    case PickleOp::kTuple3:
      return push_tuple(3);
    default: {
      PITH_TRY(const std::size_t above, pop_mark());
      return push_tuple(above);
    }
  }
}

Result<PickleValue> PickleMachine::target(std::size_t above, PickleKind kind) const {
  const std::size_t floor = marks_.empty() ? 0 : marks_.back();
  if (stack_.size() - floor <= above) return Status::corrupt("too few objects");
  const PickleValue value = stack_[stack_.size() - above - 1];
  if (value.kind != kind) {
    return Status::unsupported(fmt::format("items are put into {}, expected {}",
                                           to_string(value.kind), to_string(kind)));
  }
  return value;
}

// Items on the stack go into the list or dict below them.
Status PickleMachine::collect(PickleOp op) {
  const bool into_dict = op == PickleOp::kSetItem || op == PickleOp::kSetItems;
  std::size_t above = into_dict ? 2 : 1;
  if (op == PickleOp::kAppends || op == PickleOp::kSetItems) {
    PITH_TRY(above, pop_mark());
    if (into_dict && above % 2 != 0) return Status::corrupt("a key without a value");
  }
  PITH_TRY(const PickleValue into,
           target(above, into_dict ? PickleKind::kDict : PickleKind::kList));
  if (made_ + above > kMaxValues) return Status::unsupported("too many objects");
  made_ += above;
  const auto values = std::span(stack_).last(above);
  if (into_dict) {
    auto& items = dicts_[into.id].items;
    for (std::size_t i = 0; i < above; i += 2)
      items.emplace_back(values[i], values[i + 1]);
  } else {
    Values& list = lists_[into.id];
    list.insert(list.end(), values.begin(), values.end());
  }
  stack_.resize(stack_.size() - above);
  return {};
}

Status PickleMachine::global() {
  std::array<std::string_view, 2> lines;
  for (std::string_view& line : lines) {
    const auto at = static_cast<std::size_t>(in_.position());
    const std::string_view rest(reinterpret_cast<const char*>(pickle_.data()) + at,
                                std::min(pickle_.size() - at, kMaxGlobal));
    const std::size_t end = rest.find('\n');
    if (end == std::string_view::npos) return Status::corrupt("a name without an end");
    line = rest.substr(0, end);
    PITH_OK(in_.skip(end + 1, "name"));
  }
  const auto* found = std::find_if(
      kGlobals.begin(), kGlobals.end(),
      [&](const Global& g) { return g.module == lines[0] && g.name == lines[1]; });
  if (found == kGlobals.end()) {
    return Status::unsupported(
        fmt::format("'{}.{}' is not part of a state dict and is never executed; save a "
                    "state_dict, or "
                    "convert the file to safetensors where it is trusted",
                    printable(lines[0], 60), printable(lines[1], 60)));
  }
  return push(
      {PickleKind::kGlobal, static_cast<std::uint32_t>(found - kGlobals.begin())});
}

// ("storage", class, key, location, elements)
Status PickleMachine::persistent_id() {
  PITH_TRY(const PickleValue id, pop());
  const auto parts =
      id.kind == PickleKind::kTuple ? tuple(id) : std::span<const PickleValue>();
  if (parts.size() != 5 || parts[0].kind != PickleKind::kString ||
      string(parts[0]) != "storage" || parts[1].kind != PickleKind::kGlobal ||
      !kGlobals[parts[1].id].storage || parts[2].kind != PickleKind::kString ||
      parts[3].kind != PickleKind::kString || parts[4].kind != PickleKind::kInt) {
    return Status::unsupported(
        "a persistent id that is no ('storage', class, key, location, elements)");
  }
  const PickledStorage storage = {*kGlobals[parts[1].id].storage,
                                  std::string(string(parts[2])), integer(parts[4])};
  if (storage.elements < 0) {
    return Status::corrupt(fmt::format("storage '{}' has {} elements",
                                       printable(storage.key, 40), storage.elements));
  }
  const auto [known, is_new] =
      storage_by_key_.try_emplace(string(parts[2]), storages_.size());
  if (is_new) return push_new(PickleKind::kStorage, storages_, storage);
  const PickledStorage& other = storages_[known->second];
  if (other.dtype != storage.dtype || other.elements != storage.elements) {
    return Status::corrupt(fmt::format("storage '{}' is named with two types or sizes",
                                       printable(storage.key, 40)));
  }
  return push({PickleKind::kStorage, static_cast<std::uint32_t>(known->second)});
}

Status PickleMachine::reduce() {
  PITH_TRY(const PickleValue arguments, pop());
  PITH_TRY(const PickleValue function, pop());
  if (function.kind != PickleKind::kGlobal || arguments.kind != PickleKind::kTuple) {
    return Status::unsupported(fmt::format(
        "a call of {} with {}", to_string(function.kind), to_string(arguments.kind)));
  }
  const Global& global = kGlobals[function.id];
  const auto values = tuple(arguments);
  switch (global.callable) {
    case Callable::kOrderedDict:
      if (!values.empty()) break;
      return push_new(PickleKind::kDict, dicts_, Dict{{}, true});
    case Callable::kTensor:
      return rebuild_tensor(values);
    case Callable::kParameter:
      return rebuild_parameter(values);
    case Callable::kNone:
      break;
  }
  return Status::unsupported(fmt::format("a call of {}.{} with {} arguments",
                                         global.module, global.name, values.size()));
}

Result<std::vector<std::int64_t>> PickleMachine::sizes(PickleValue value,
                                                       std::string_view what) const {
  if (value.kind != PickleKind::kTuple) {
    return Status::corrupt(fmt::format("{} of a tensor are {}, expected a tuple", what,
                                       to_string(value.kind)));
  }
  const auto items = tuple(value);
  if (items.size() > kPickleMaxRank) {
    return Status::corrupt(fmt::format("a tensor of {} dimensions, at most {} are read",
                                       items.size(), kPickleMaxRank));
  }
  std::vector<std::int64_t> result;
  for (const PickleValue& item : items) {
    if (item.kind != PickleKind::kInt || integer(item) < 0) {
      return Status::corrupt(
          fmt::format("{} of a tensor must be integers of at least 0", what));
    }
    result.push_back(integer(item));
  }
  return result;
}

// (storage, offset, sizes, strides, requires_grad, hooks[, metadata])
Status PickleMachine::rebuild_tensor(std::span<const PickleValue> arguments) {
  if ((arguments.size() != 6 && arguments.size() != 7) ||
      arguments[0].kind != PickleKind::kStorage ||
      arguments[1].kind != PickleKind::kInt || arguments[4].kind != PickleKind::kBool ||
      arguments[5].kind != PickleKind::kDict) {
    return Status::unsupported(
        "a tensor that is not rebuilt from (storage, offset, sizes, strides, ...)");
  }
  if (arguments.size() == 7 && arguments[6].kind != PickleKind::kNone &&
      (arguments[6].kind != PickleKind::kDict || !dict(arguments[6]).items.empty())) {
    return Status::unsupported("a tensor with flags (conjugate or negative)");
  }
  PickledTensor tensor;
  tensor.storage = arguments[0].id;
  tensor.offset = integer(arguments[1]);
  PITH_TRY(tensor.sizes, sizes(arguments[2], "sizes"));
  PITH_TRY(tensor.strides, sizes(arguments[3], "strides"));
  if (tensor.sizes.size() != tensor.strides.size()) {
    return Status::corrupt(fmt::format("a tensor with {} sizes and {} strides",
                                       tensor.sizes.size(), tensor.strides.size()));
  }
  const Result<Shape> shape = Shape::make(tensor.sizes);
  if (!shape) return Status::corrupt(shape.error().message());
  const PickledStorage& storage = storages_[tensor.storage];
  if (!view_fits(tensor.offset, tensor.sizes, tensor.strides, storage.elements)) {
    return Status::corrupt(fmt::format(
        "a tensor of shape {} at element {} runs past its storage '{}' of {} elements",
        shape->to_string(), tensor.offset, printable(storage.key, 40), storage.elements));
  }
  if (shape->elements() > std::max(storage.elements, kMaxRepeated)) {
    return Status::unsupported(
        fmt::format("a tensor of shape {} that repeats a storage of {} elements",
                    shape->to_string(), storage.elements));
  }
  return push_new(PickleKind::kTensor, tensors_, std::move(tensor));
}

// (tensor, requires_grad, hooks): the tensor
Status PickleMachine::rebuild_parameter(std::span<const PickleValue> arguments) {
  if (arguments.size() != 3 || arguments[0].kind != PickleKind::kTensor ||
      arguments[1].kind != PickleKind::kBool || arguments[2].kind != PickleKind::kDict) {
    return Status::unsupported(
        "a parameter that is not rebuilt from (tensor, flag, hooks)");
  }
  return push(arguments[0]);
}

Status PickleMachine::build() {
  PITH_TRY(const PickleValue state, pop());
  PITH_TRY(const PickleValue into, target(0, PickleKind::kDict));
  if (!dict(into).ordered) {
    return Status::unsupported(
        fmt::format("state ({}) is set on a plain dict, expected an OrderedDict",
                    to_string(state.kind)));
  }
  return {};
}

}  // namespace pith
