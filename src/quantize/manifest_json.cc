// The manifest as text and back. docs/formats/pith.md has every key.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "src/base/text.h"
#include "src/io/json.h"
#include "src/io/reader.h"
#include "src/quantize/manifest.h"

namespace pith {
namespace {

using Json = nlohmann::json;

constexpr std::uint64_t kSchema = 1;
constexpr std::size_t kMaxTensors = 1'000'000;
constexpr std::size_t kMaxSchemes = 10'000;
constexpr std::size_t kManifestValues = 1'000;  // of one tensor or scheme
constexpr std::size_t kMaxRank = 64;

template <typename T>
struct Name {
  T value;
  std::string_view name;
};
template <typename T>  // clang 14 does not deduce it by itself
Name(T, const char*)->Name<T>;

constexpr std::array kKinds = {
    Name{StoredKind::kKept, "kept"},           Name{StoredKind::kConverted, "converted"},
    Name{StoredKind::kQuantized, "quantized"}, Name{StoredKind::kSparse, "sparse"},
    Name{StoredKind::kAlias, "alias"},         Name{StoredKind::kDropped, "dropped"},
};
constexpr std::array kConventions = {
    Name{Convention::kPith, "pith"},
    Name{Convention::kCompressedTensors, "compressed-tensors"},
};
constexpr std::array kGroups = {
    Name{Group::kTensor, "tensor"},
    Name{Group::kRow, "row"},
    Name{Group::kBlock, "block"},
    Name{Group::kFlatBlock, "flat_block"},
};
constexpr std::array kRules = {
    Name{ScaleRule::kAbsmax, "absmax"},        Name{ScaleRule::kPercentile, "percentile"},
    Name{ScaleRule::kGiven, "given"},          Name{ScaleRule::kHalfRange, "half_range"},
    Name{ScaleRule::kSignedMax, "signed_max"},
};
constexpr std::array kRanges = {
    Name{Range::kSymmetric, "symmetric"},
    Name{Range::kFull, "full"},
};
constexpr std::array kRoundings = {
    Name{Rounding::kHalfAway, "half_away"},
    Name{Rounding::kHalfEven, "half_even"},
    Name{Rounding::kHalfUp, "half_up"},
};
constexpr std::array kCodings = {
    Name{Coding::kStored, "stored"},
    Name{Coding::kExact, "exact"},
    Name{Coding::kInverse, "inverse"},
};
constexpr std::array kZeroGroups = {
    Name{ZeroGroup::kZero, "zero"},
    Name{ZeroGroup::kOne, "one"},
    Name{ZeroGroup::kEpsilon, "epsilon"},
};
constexpr std::array kLayouts = {
    Name{Layout::kSplit, "split"},
    Name{Layout::kBlocks, "blocks"},
};

template <typename Table, typename T>
std::string_view name_of(const Table& table, T value) {
  for (const auto& entry : table) {
    if (entry.value == value) return entry.name;
  }
  return {};
}

// ---------------------------------------------------------------- to text

// A JSON string with the escapes of the safetensors header; what is not UTF-8 is found by
// the caller.
std::string json_string(std::string_view text) { return Json(text).dump(); }

std::string number(double value) {
  // JSON has no infinity.
  return std::isfinite(value) ? fmt::format("{:.12g}", value) : "null";
}

std::string scheme_text(const Scheme& s) {
  std::string out = fmt::format(
      R"({{"bits":{},"symmetric":{},"group":"{}","block_size":{},"scale_type":"{}",)"
      R"("rule":"{}")",
      s.bits, s.symmetric, name_of(kGroups, s.group), s.block_size,
      to_string(s.scale_type), name_of(kRules, s.rule));
  // Shortest texts that read back as the same number.
  if (s.rule == ScaleRule::kPercentile)
    out += fmt::format(R"(,"percentile":{})", s.percentile);
  if (s.rule == ScaleRule::kGiven)
    out += fmt::format(R"(,"given_scale":{})", s.given_scale);
  out += fmt::format(
      R"(,"range":"{}","rounding":"{}","coding":"{}","zero_group":"{}","layout":"{}"}})",
      name_of(kRanges, s.range), name_of(kRoundings, s.rounding),
      name_of(kCodings, s.coding), name_of(kZeroGroups, s.zero_group),
      name_of(kLayouts, s.layout));
  return out;
}

std::string part_text(const TensorRecord& record, const StoredPart& part) {
  std::string fields;
  if (part.name != record.name + std::string(part_suffix(part.role))) {
    fields = fmt::format(R"("name":{})", json_string(part.name));
  }
  if (part.checksum) {
    fields +=
        fmt::format(R"({}"xxh3":"{:016x}")", fields.empty() ? "" : ",", *part.checksum);
  }
  return fmt::format(R"("{}":{{{}}})", to_string(part.role), fields);
}

std::string error_text(const ErrorFigures& e) {
  std::string out = fmt::format(
      R"({{"count":{},"non_finite":{},"zeros_before":{},"zeros_after":{},"saturated":{},)"
      R"("sum_error":{},"sum_error_squared":{},"sum_squared_before":{},)"
      R"("sum_squared_after":{},"max_error":{})",
      e.count, e.non_finite, e.zeros_before, e.zeros_after, e.saturated,
      number(e.sum_error), number(e.sum_error_squared), number(e.sum_squared_before),
      number(e.sum_squared_after), number(e.max_error));
  if (e.max_index >= 0) out += fmt::format(R"(,"max_index":{})", e.max_index);
  return out + "}";
}

std::string record_text(const TensorRecord& record, std::size_t scheme) {
  std::string out =
      fmt::format(R"({{"name":{},"kind":"{}","source":{},"shape":[{}])",
                  json_string(record.name), to_string(record.kind),
                  json_string(record.source), fmt::join(record.shape.extents(), ","));
  if (record.dtype) out += fmt::format(R"(,"dtype":"{}")", to_string(*record.dtype));
  if (record.scheme) out += fmt::format(R"(,"scheme":{})", scheme);
  if (record.kind == StoredKind::kSparse)
    out += fmt::format(R"(,"kept":{})", record.kept);
  if (record.kind == StoredKind::kAlias) {
    out += fmt::format(R"(,"alias_of":{})", json_string(record.alias_of));
  }
  if (!record.parts.empty()) {
    std::vector<std::string> parts;
    for (const StoredPart& part : record.parts) parts.push_back(part_text(record, part));
    out += fmt::format(R"(,"parts":{{{}}})", fmt::join(parts, ","));
  }
  if (record.error) out += fmt::format(R"(,"error":{})", error_text(*record.error));
  return out + "}";
}

Status check_utf8(std::string_view what, std::string_view text) {
  if (find_invalid_utf8(text) == std::string_view::npos) return {};
  return Status::invalid_argument(
      fmt::format("manifest: {} '{}' is not UTF-8", what, printable(text)));
}

// ---------------------------------------------------------------- from text

// The keys of one object, each to be asked for once; what is left at the end is unknown.
// The first error stays.
class Fields {
 public:
  explicit Fields(const Json& object) : object_(object) {
    if (!object.is_object()) fail("an object was expected");
  }

  const Json* optional(const char* key) {
    if (!status_.ok()) return nullptr;
    const auto found = object_.find(key);
    if (found == object_.end()) return nullptr;
    ++used_;
    return &*found;
  }
  const Json* required(const char* key) {
    const Json* value = optional(key);
    if (value == nullptr) fail(fmt::format("'{}' is missing", key));
    return value;
  }

  std::string text(const char* key) {
    const Json* value = required(key);
    return value == nullptr ? std::string() : text(key, *value);
  }
  std::string text(const char* key, const Json& value) {
    if (!value.is_string()) {
      fail(fmt::format("'{}' must be a string", key));
      return {};
    }
    return value.get<std::string>();
  }
  std::int64_t integer(const char* key, std::int64_t smallest = 0) {
    const Json* value = required(key);
    if (value == nullptr) return 0;
    return integer(key, *value, smallest);
  }
  std::int64_t integer(const char* key, const Json& value, std::int64_t smallest = 0) {
    constexpr auto kLargest = std::numeric_limits<std::int64_t>::max();
    if (!value.is_number_unsigned() || value.get<std::uint64_t>() > kLargest ||
        value.get<std::int64_t>() < smallest) {
      fail(fmt::format("'{}' must be a whole number from {} to 2^63-1", key, smallest));
      return 0;
    }
    return value.get<std::int64_t>();
  }
  bool boolean(const char* key) {
    const Json* value = required(key);
    if (value == nullptr) return false;
    if (!value->is_boolean()) fail(fmt::format("'{}' must be true or false", key));
    return value->is_boolean() && value->get<bool>();
  }
  // null is infinity.
  double real(const char* key) {
    const Json* value = required(key);
    if (value == nullptr) return 0;
    if (value->is_null()) return std::numeric_limits<double>::infinity();
    if (!value->is_number()) {
      fail(fmt::format("'{}' must be a number", key));
      return 0;
    }
    return value->get<double>();
  }
  template <typename Table>
  auto choice(const char* key, const Table& table) {
    const std::string name = text(key);
    for (const auto& entry : table) {
      if (entry.name == name) return entry.value;
    }
    fail(fmt::format("'{}' is '{}', which is not known", key, printable(name, 32)));
    return table.front().value;
  }
  DType dtype(const char* key) {
    const std::string name = text(key);
    const std::optional<DType> dtype = dtype_from_string(name);
    if (!dtype)
      fail(fmt::format("'{}' is '{}', which is no type", key, printable(name, 32)));
    return dtype.value_or(DType::kF32);
  }

  void fail(std::string why) {
    if (status_.ok()) status_ = Status::corrupt(std::move(why));
  }
  // All keys must have been asked for.
  Status finish() {
    if (status_.ok() && used_ != object_.size()) fail("it has an unknown key");
    return status_;
  }
  [[nodiscard]] const Status& status() const { return status_; }

 private:
  const Json& object_;
  std::size_t used_ = 0;
  Status status_;
};

Result<Scheme> scheme_from(const Json& json) {
  Fields fields(json);
  Scheme s;
  s.bits = static_cast<int>(std::min<std::int64_t>(fields.integer("bits"), 64));
  s.symmetric = fields.boolean("symmetric");
  s.group = fields.choice("group", kGroups);
  s.block_size = fields.integer("block_size");
  s.scale_type = fields.dtype("scale_type");
  s.rule = fields.choice("rule", kRules);
  if (s.rule == ScaleRule::kPercentile) s.percentile = fields.real("percentile");
  if (s.rule == ScaleRule::kGiven) {
    s.given_scale = static_cast<float>(fields.real("given_scale"));
  }
  s.range = fields.choice("range", kRanges);
  s.rounding = fields.choice("rounding", kRoundings);
  s.coding = fields.choice("coding", kCodings);
  s.zero_group = fields.choice("zero_group", kZeroGroups);
  s.layout = fields.choice("layout", kLayouts);
  PITH_OK(fields.finish());
  if (Status status = s.validate(); !status.ok())
    return Status::corrupt(status.message());
  return s;
}

Result<Shape> shape_from(const Json* json) {
  if (json == nullptr || !json->is_array() || json->size() > kMaxRank) {
    return Status::corrupt(
        fmt::format("'shape' must be an array of at most {} numbers", kMaxRank));
  }
  std::vector<std::int64_t> extents;
  const Json object = Json::object();
  Fields fields(object);
  for (const Json& extent : *json) extents.push_back(fields.integer("shape", extent));
  PITH_OK(fields.status());
  auto shape = Shape::make(extents);
  if (!shape) return Status::corrupt(printable(shape.error().message(), 160));
  return shape;
}

Result<std::uint64_t> checksum_from(const std::string& text) {
  std::uint64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value, 16);
  const bool lower = text.find_first_of("ABCDEF") == std::string::npos;
  if (text.size() != 16 || stop != end || error != std::errc() || !lower) {
    return Status::corrupt("'xxh3' must be 16 digits of 0-9 and a-f");
  }
  return value;
}

Result<std::vector<StoredPart>> parts_from(const Json& json, const std::string& name) {
  Fields fields(json);
  std::vector<StoredPart> parts;
  for (int i = 0; i < kPartRoles; ++i) {
    StoredPart part;
    part.role = static_cast<PartRole>(i);
    const Json* value = fields.optional(std::string(to_string(part.role)).c_str());
    if (value == nullptr) continue;
    Fields inner(*value);
    part.name = name + std::string(part_suffix(part.role));
    if (const Json* text = inner.optional("name")) part.name = inner.text("name", *text);
    if (const Json* text = inner.optional("xxh3")) {
      PITH_TRY(part.checksum, checksum_from(inner.text("xxh3", *text)));
    }
    PITH_OK(inner.finish());
    parts.push_back(std::move(part));
  }
  PITH_OK(fields.finish());
  return parts;
}

Result<ErrorFigures> error_from(const Json& json) {
  Fields fields(json);
  ErrorFigures e;
  e.count = fields.integer("count");
  e.non_finite = fields.integer("non_finite");
  e.zeros_before = fields.integer("zeros_before");
  e.zeros_after = fields.integer("zeros_after");
  e.saturated = fields.integer("saturated");
  e.sum_error = fields.real("sum_error");
  e.sum_error_squared = fields.real("sum_error_squared");
  e.sum_squared_before = fields.real("sum_squared_before");
  e.sum_squared_after = fields.real("sum_squared_after");
  e.max_error = fields.real("max_error");
  if (const Json* index = fields.optional("max_index")) {
    e.max_index = fields.integer("max_index", *index);
  }
  PITH_OK(fields.finish());
  return e;
}

Result<TensorRecord> record_from(const Json& json, const std::vector<Scheme>& schemes) {
  Fields fields(json);
  TensorRecord record;
  record.name = fields.text("name");
  const auto where = [&](const Status& status) {
    return status.with_context(fmt::format("tensor '{}'", printable(record.name)));
  };
  record.kind = fields.choice("kind", kKinds);
  record.source = fields.text("source");
  auto shape = shape_from(fields.required("shape"));
  if (!fields.status().ok()) return where(fields.status());
  if (!shape) return where(shape.error());
  record.shape = *std::move(shape);
  if (const Json* value = fields.optional("dtype"); value != nullptr) {
    record.dtype = dtype_from_string(fields.text("dtype", *value));
    if (!record.dtype) fields.fail("'dtype' is no type");
  }
  if (const Json* value = fields.optional("scheme"); value != nullptr) {
    const std::int64_t index = fields.integer("scheme", *value);
    if (index < static_cast<std::int64_t>(schemes.size())) {
      record.scheme = schemes[static_cast<std::size_t>(index)];
    } else {
      fields.fail(fmt::format("'scheme' is {}, but there are {}", index, schemes.size()));
    }
  }
  if (record.kind == StoredKind::kSparse) record.kept = fields.integer("kept");
  if (record.kind == StoredKind::kAlias) record.alias_of = fields.text("alias_of");
  if (const Json* value = fields.optional("parts"); value != nullptr) {
    auto parts = parts_from(*value, record.name);
    if (!parts) return where(parts.error());
    record.parts = *std::move(parts);
  }
  if (const Json* value = fields.optional("error"); value != nullptr) {
    auto error = error_from(*value);
    if (!error) return where(error.error().with_context("error"));
    record.error = *error;
  }
  if (const Status status = fields.finish(); !status.ok()) return where(status);
  return record;
}

// Reads the outer object; each tensor becomes a tree of its own, and a record.
class ManifestHandler : public JsonHandler {
 public:
  Manifest manifest;

  Status begin_object() override {
    if (state_ == State::kStart) return go(State::kTop);
    return value([](JsonHandler& to) { return to.begin_object(); });
  }
  Status end_object() override {
    if (state_ == State::kTop) return go(State::kEnd);
    return value([](JsonHandler& to) { return to.end_object(); });
  }
  Status begin_array() override {
    if (state_ == State::kList) return go(State::kTensors);
    return value([](JsonHandler& to) { return to.begin_array(); });
  }
  Status end_array() override {
    // The tree is complete (or was never begun) between tensors.
    if (state_ == State::kTensors && !in_tree_) return go(State::kTop);
    return value([](JsonHandler& to) { return to.end_array(); });
  }
  Status key(std::string& key) override {
    if (state_ != State::kTop) {
      return value([&](JsonHandler& to) { return to.key(key); });
    }
    if (top_.empty() && key != "schema")
      return Status::corrupt("'schema' must come first");
    if (key == "tensors") {
      // Schemes are referred to by their number, so they come first.
      if (tensors_seen_) return Status::corrupt("'tensors' is given twice");
      if (!top_.contains("schemes"))
        return Status::corrupt("'schemes' must come before 'tensors'");
      tensors_seen_ = true;
      return go(State::kList);
    }
    if (top_.contains(key)) {
      return Status::corrupt(fmt::format("'{}' is given twice", printable(key)));
    }
    key_ = std::move(key);
    return go(State::kValue);
  }
  Status string(std::string& text) override {
    return value([&](JsonHandler& to) { return to.string(text); });
  }
  Status number(std::uint64_t number) override {
    return value([&](JsonHandler& to) { return to.number(number); });
  }
  Status other_number(double number) override {
    return value([&](JsonHandler& to) { return to.other_number(number); });
  }
  Status boolean(bool b) override {
    return value([&](JsonHandler& to) { return to.boolean(b); });
  }
  Status null() override {
    return value([](JsonHandler& to) { return to.null(); });
  }

  Status finish() {
    Fields fields(top_);
    fields.required("schema");
    fields.required("schemes");
    manifest.convention = fields.choice("convention", kConventions);
    manifest.writer = fields.text("writer");
    manifest.recipe = fields.text("recipe");
    if (!tensors_seen_) fields.fail("'tensors' is missing");
    return fields.finish();
  }

 private:
  enum class State : std::uint8_t { kStart, kTop, kValue, kList, kTensors, kEnd };

  Status go(State state) {
    state_ = state;
    return {};
  }

  // An event of a value of the outer object, or of a tensor.
  template <typename F>
  Status value(F send) {
    if (state_ != State::kValue && state_ != State::kTensors) {
      return Status::corrupt(state_ == State::kList ? "'tensors' must be an array"
                                                    : "an object was expected");
    }
    JsonTree& tree = state_ == State::kValue ? value_tree_ : tensor_tree_;
    in_tree_ = true;
    PITH_OK(send(tree));
    if (!tree.complete()) return {};
    in_tree_ = false;
    if (state_ == State::kTensors) return add_tensor(tree.take());
    Json& added = top_[key_];
    added = tree.take();
    state_ = State::kTop;
    if (key_ == "schema") return check_schema(added);
    if (key_ == "schemes") return add_schemes(added);
    return {};
  }

  static Status check_schema(const Json& schema) {
    if (!schema.is_number_unsigned() || schema.get<std::uint64_t>() == 0) {
      return Status::corrupt("'schema' must be a number above 0");
    }
    if (schema.get<std::uint64_t>() > kSchema) {
      return Status::unsupported(
          fmt::format("schema {} is newer than {}: a newer Pith can read it",
                      schema.get<std::uint64_t>(), kSchema));
    }
    return {};
  }

  Status add_schemes(const Json& list) {
    if (!list.is_array()) return Status::corrupt("'schemes' must be an array");
    for (const Json& json : list) {
      auto scheme = scheme_from(json);
      if (!scheme) {
        return scheme.error().with_context(fmt::format("scheme {}", schemes_.size()));
      }
      schemes_.push_back(*scheme);
    }
    return {};
  }

  Status add_tensor(const Json& json) {
    if (manifest.tensors.size() == kMaxTensors) {
      return Status::corrupt(fmt::format("more than {} tensors", kMaxTensors));
    }
    PITH_TRY(TensorRecord record, record_from(json, schemes_));
    manifest.tensors.push_back(std::move(record));
    return {};
  }

  State state_ = State::kStart;
  bool in_tree_ = false;
  bool tensors_seen_ = false;
  std::string key_;
  Json top_ = Json::object();
  std::vector<Scheme> schemes_;
  JsonTree value_tree_{20 * kMaxSchemes};
  JsonTree tensor_tree_{kManifestValues};
};

}  // namespace

Result<std::string> manifest_to_json(const Manifest& manifest) {
  PITH_OK(check_utf8("the writer", manifest.writer));
  PITH_OK(check_utf8("the recipe", manifest.recipe));
  std::vector<Scheme> schemes;
  std::string tensors;
  for (const TensorRecord& record : manifest.tensors) {
    for (const std::string_view text :
         {std::string_view(record.name), std::string_view(record.source),
          std::string_view(record.alias_of)}) {
      PITH_OK(check_utf8("name", text));
    }
    for (const StoredPart& part : record.parts) PITH_OK(check_utf8("part", part.name));
    std::size_t scheme = 0;
    if (record.scheme) {
      // Few differ: models are quantized by a handful of schemes.
      while (scheme < schemes.size() && schemes[scheme] != *record.scheme) ++scheme;
      if (scheme == schemes.size()) schemes.push_back(*record.scheme);
    }
    if (!tensors.empty()) tensors += ',';
    tensors += record_text(record, scheme);
  }
  std::string scheme_list;
  for (const Scheme& scheme : schemes) {
    if (!scheme_list.empty()) scheme_list += ',';
    scheme_list += scheme_text(scheme);
  }
  return fmt::format(
      R"({{"schema":{},"convention":"{}","writer":{},"recipe":{},"schemes":[{}],)"
      R"("tensors":[{}]}})",
      kSchema, name_of(kConventions, manifest.convention), json_string(manifest.writer),
      json_string(manifest.recipe), scheme_list, tensors);
}

Result<Manifest> manifest_from_json(std::string_view text) {
  ByteReader in(std::as_bytes(std::span(text)));
  ManifestHandler handler;
  if (Status s = parse_json(in, handler); !s.ok()) return s.with_context("manifest");
  if (Status s = handler.finish(); !s.ok()) return s.with_context("manifest");
  return std::move(handler.manifest);
}

}  // namespace pith
