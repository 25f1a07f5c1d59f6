#include "src/io/pickle.h"

#include <fmt/format.h>

#include <algorithm>

#include "src/base/text.h"
#include "src/io/pickle_machine.h"

namespace pith {
namespace {

constexpr int kMaxDepth = 64;
constexpr std::size_t kMaxVisits = 1 << 21;
constexpr std::size_t kMaxName = 4096;
constexpr std::size_t kMaxNames = 64 << 20;  // bytes of all names together
constexpr std::size_t kShownValue = 200;

// Walks from the top object to all tensors and gives them names. Parts may be shared, and
// a dict may even hold itself: depth and visits are bounded.
class Walk {
 public:
  Walk(const PickleMachine& machine, PickledModel& model)
      : machine_(machine), model_(model) {}

  Status visit(PickleValue value, int depth) {
    if (depth > kMaxDepth) {
      return Status::unsupported(fmt::format("'{}': dicts nested more than {} deep",
                                             printable(name_), kMaxDepth));
    }
    if (++visits_ > kMaxVisits) return Status::unsupported("too many objects");
    switch (value.kind) {
      case PickleKind::kTensor:
        PITH_OK(count_name());
        model_.tensors.push_back(machine_.tensor(value));
        model_.tensors.back().name = name_;
        return {};
      case PickleKind::kDict:
        return visit_dict(machine_.dict(value), depth);
      case PickleKind::kList:
        return visit_items(machine_.list(value), depth);
      case PickleKind::kTuple:
        return visit_items(machine_.tuple(value), depth);
      case PickleKind::kBool:
        return add_value(value.id != 0 ? "True" : "False");
      case PickleKind::kInt:
        return add_value(std::to_string(machine_.integer(value)));
      case PickleKind::kFloat:
        return add_value(fmt::format("{}", machine_.real(value)));
      case PickleKind::kString:
        return add_value(printable(machine_.string(value), kShownValue));
      case PickleKind::kNone:
        return {};
      case PickleKind::kGlobal:
      case PickleKind::kStorage:
        break;
    }
    return Status::unsupported(
        fmt::format("'{}' is {}, expected a tensor or a plain value", printable(name_),
                    to_string(value.kind)));
  }

 private:
  Status count_name() {
    names_ += name_.size();
    if (name_.size() <= kMaxName && names_ <= kMaxNames) return {};
    return Status::unsupported(fmt::format("'{}': names are too long", printable(name_)));
  }

  Status add_value(std::string text) {
    PITH_OK(count_name());
    model_.values.emplace_back(name_, std::move(text));
    return {};
  }

  Status visit_child(std::string_view key, PickleValue value, int depth) {
    const std::size_t length = name_.size();
    if (depth > 0) name_ += '.';
    if (key.size() > kMaxName) return Status::unsupported("a key is too long");
    name_ += key;
    PITH_OK(visit(value, depth + 1));
    name_.resize(length);
    return {};
  }

  Status visit_items(std::span<const PickleValue> items, int depth) {
    for (std::size_t i = 0; i < items.size(); ++i) {
      PITH_OK(visit_child(std::to_string(i), items[i], depth));
    }
    return {};
  }

  Status visit_dict(const PickleMachine::Dict& dict, int depth) {
    std::vector<std::string> keys;
    keys.reserve(dict.items.size());
    for (const auto& [key, value] : dict.items) {
      if (key.kind == PickleKind::kString) {
        keys.emplace_back(machine_.string(key));
      } else if (key.kind == PickleKind::kInt) {
        keys.push_back(std::to_string(machine_.integer(key)));
      } else {
        return Status::unsupported(
            fmt::format("'{}': a key is {}, expected a string or an integer",
                        printable(name_), to_string(key.kind)));
      }
    }
    for (std::size_t i = 0; i < keys.size(); ++i) {
      PITH_OK(visit_child(keys[i], dict.items[i].second, depth));
    }
    if (const auto twice = find_duplicate({keys.begin(), keys.end()})) {
      return Status::corrupt(fmt::format("key '{}' is there twice", printable(*twice)));
    }
    return {};
  }

  const PickleMachine& machine_;
  PickledModel& model_;
  std::string name_;
  std::size_t visits_ = 0;
  std::size_t names_ = 0;
};

// Keys with dots in them and nested dicts can give the same name.
Status check_unique(const std::vector<PickledTensor>& tensors) {
  std::vector<std::string_view> names;
  names.reserve(tensors.size());
  for (const PickledTensor& tensor : tensors) names.push_back(tensor.name);
  const auto twice = find_duplicate(std::move(names));
  if (!twice) return {};
  return Status::corrupt(fmt::format("two tensors are named '{}'", printable(*twice)));
}

}  // namespace

Result<PickledModel> read_state_dict(std::span<const std::byte> pickle) {
  PickleMachine machine(pickle);
  PITH_TRY(const PickleValue top, machine.run());
  if (top.kind != PickleKind::kDict && top.kind != PickleKind::kTensor) {
    return Status::unsupported(
        fmt::format("the pickle holds {}, expected a dict of tensors (a state_dict)",
                    to_string(top.kind)));
  }
  PickledModel model;
  PITH_OK(Walk(machine, model).visit(top, 0));
  PITH_OK(check_unique(model.tensors));
  model.storages = machine.take_storages();
  return model;
}

}  // namespace pith
