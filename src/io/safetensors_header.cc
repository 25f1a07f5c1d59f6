#include "src/io/safetensors_header.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <numeric>

#include "pith/tensor/shape.h"
#include "pith/tensor/view.h"
#include "src/base/checked.h"
#include "src/base/text.h"
#include "src/io/json.h"
#include "src/io/plain.h"

namespace pith {
namespace {

constexpr std::array<std::string_view, 22> kDTypeNames = {
    "BOOL",    "F4",      "F6_E2M3", "F6_E3M2",     "U8",          "I8",
    "F8_E5M2", "F8_E4M3", "F8_E8M0", "F8_E4M3FNUZ", "F8_E5M2FNUZ", "I16",
    "U16",     "F16",     "BF16",    "I32",         "U32",         "F32",
    "C64",     "F64",     "I64",     "U64"};

// Entries while the header is read. The shortest entry has 49 bytes of JSON, a number and
// its comma at least 2: packed like this, hostile headers cost no more than their length.
struct HeaderEntry {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  std::uint32_t name = 0;  // begin in names
  std::uint32_t name_size = 0;
  std::uint32_t dims = 0;  // begin in dims
  std::uint32_t rank = 0;
  DType dtype = DType::kBool;
};

struct Entries {
  std::vector<HeaderEntry> list;
  std::string names;
  std::string dims;  // seven bits a byte, the lowest first; the last byte is below 80

  [[nodiscard]] std::string_view name_of(const HeaderEntry& entry) const {
    return std::string_view(names).substr(entry.name, entry.name_size);
  }
  void push_dim(std::uint64_t dim) {
    for (; dim >= 0x80; dim >>= 7) dims += static_cast<char>((dim & 0x7f) | 0x80);
    dims += static_cast<char>(dim);
  }
  // In the order they were pushed.
  [[nodiscard]] std::vector<std::uint64_t> dims_of(const HeaderEntry& entry) const {
    std::vector<std::uint64_t> out(entry.rank);
    std::size_t at = entry.dims;
    for (std::uint64_t& dim : out) {
      for (int shift = 0;; shift += 7) {
        const auto byte = static_cast<std::uint8_t>(dims[at++]);
        dim |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
        if (byte < 0x80) break;
      }
    }
    return out;
  }
};

std::string tensor(std::string_view name) {
  return fmt::format("tensor '{}'", printable(name));
}

class HeaderHandler : public JsonHandler {
 public:
  HeaderHandler(Entries& entries, SafetensorsHeader& header)
      : entries_(entries), header_(header) {}

  Status begin_object() override {
    switch (state_) {
      case State::kStart:
        state_ = State::kTop;
        return {};
      case State::kEntry:
        state_ = State::kFields;
        return {};
      case State::kMetadata:
        state_ = State::kMetadataKeys;
        return {};
      case State::kSkip:
        ++skip_depth_;
        return {};
      default:
        return unexpected("an object");
    }
  }

  Status end_object() override {
    switch (state_) {
      case State::kTop:
        state_ = State::kEnd;
        return {};
      case State::kFields:
        return end_entry();
      case State::kMetadataKeys:
        state_ = State::kTop;
        return check_metadata_keys();
      default:
        return end_skipped();
    }
  }

  Status begin_array() override {
    switch (state_) {
      case State::kShape:
        state_ = State::kDims;
        entry_.dims = static_cast<std::uint32_t>(entries_.dims.size());
        return {};
      case State::kOffsets:
        state_ = State::kOffsetNumbers;
        return {};
      case State::kSkip:
        ++skip_depth_;
        return {};
      default:
        return unexpected("an array");
    }
  }

  Status end_array() override {
    switch (state_) {
      case State::kDims:
        state_ = State::kFields;
        return {};
      case State::kOffsetNumbers:
        if (offsets_ != 2) return bad_offsets();
        state_ = State::kFields;
        return {};
      default:
        return end_skipped();
    }
  }

  Status key(std::string& key) override {
    switch (state_) {
      case State::kTop:
        if (key == "__metadata__") return begin_metadata();
        return begin_entry(key);
      case State::kFields:
        return field(key);
      case State::kMetadataKeys:
        if (header_.metadata.size() == kMaxSafetensorsMetadata) {
          return Status::corrupt(fmt::format("'__metadata__' has more than {} keys",
                                             kMaxSafetensorsMetadata));
        }
        header_.metadata.emplace_back(std::move(key), std::string());
        state_ = State::kMetadataValue;
        return {};
      default:
        assert(state_ == State::kSkip);
        return {};
    }
  }

  Status string(std::string& value) override {
    switch (state_) {
      case State::kMetadataValue:
        header_.metadata.back().second = std::move(value);
        state_ = State::kMetadataKeys;
        return {};
      case State::kDtype:
        if (const std::optional<DType> dtype = dtype_from_safetensors(value)) {
          entry_.dtype = *dtype;
          state_ = State::kFields;
          return {};
        }
        return Status::corrupt(
            fmt::format("{}: unknown dtype '{}'", tensor(name()), printable(value, 32)));
      default:
        return scalar("a string");
    }
  }

  Status number(std::uint64_t value) override {
    switch (state_) {
      case State::kDims:
        if (entry_.rank == kMaxSafetensorsRank) {
          return Status::corrupt(fmt::format("{}: 'shape' has more than {} extents",
                                             tensor(name()), kMaxSafetensorsRank));
        }
        entries_.push_dim(value);
        ++entry_.rank;
        return {};
      case State::kOffsetNumbers:
        if (offsets_ == 2) return bad_offsets();
        (offsets_ == 0 ? entry_.begin : entry_.end) = value;
        ++offsets_;
        return {};
      default:
        return scalar("a number");
    }
  }

  Status other_number(double value) override {
    if (state_ == State::kDims || state_ == State::kOffsetNumbers) {
      return Status::corrupt(fmt::format(
          "{}: {} holds {}, expected whole numbers from 0 to 2^64-1 without sign, "
          "fraction "
          "and exponent",
          tensor(name()), state_ == State::kDims ? "shape" : "data_offsets", value));
    }
    return scalar("a number");
  }

  Status boolean(bool /*value*/) override { return scalar("a boolean"); }

  Status null() override {
    if (state_ == State::kMetadata) {  // as if it were not there
      state_ = State::kTop;
      return {};
    }
    return scalar("null");
  }

 private:
  enum class State : std::uint8_t {
    kStart,
    kTop,     // in the object: a name follows
    kEntry,   // the object of a tensor follows
    kFields,  // in it: a key follows
    kDtype,   // its value follows, and so on
    kShape,
    kDims,
    kOffsets,
    kOffsetNumbers,
    kMetadata,
    kMetadataKeys,
    kMetadataValue,
    kSkip,  // the value of an unknown field
    kEnd,
  };

  std::string_view name() const { return entries_.name_of(entry_); }

  Status begin_metadata() {
    if (metadata_seen_) return Status::corrupt("'__metadata__' is given twice");
    metadata_seen_ = true;
    state_ = State::kMetadata;
    return {};
  }

  Status check_metadata_keys() {
    std::vector<std::string_view> keys;
    for (const auto& [key, value] : header_.metadata) keys.push_back(key);
    const auto twice = find_duplicate(std::move(keys));
    if (!twice) return {};
    return Status::corrupt(
        fmt::format("'__metadata__': key '{}' is given twice", printable(*twice)));
  }

  Status begin_entry(std::string_view key) {
    entry_ = {};
    entry_.name = static_cast<std::uint32_t>(entries_.names.size());
    entry_.name_size = static_cast<std::uint32_t>(key.size());
    entries_.names += key;
    dtype_seen_ = shape_seen_ = offsets_seen_ = false;
    offsets_ = 0;
    state_ = State::kEntry;
    return {};
  }

  Status field(std::string_view key) {
    bool* seen = nullptr;
    if (key == "dtype") {
      seen = &dtype_seen_;
      state_ = State::kDtype;
    } else if (key == "shape") {
      seen = &shape_seen_;
      state_ = State::kShape;
    } else if (key == "data_offsets") {
      seen = &offsets_seen_;
      state_ = State::kOffsets;
    } else {
      if (header_.warnings.empty()) {  // one is enough: there may be thousands
        header_.warnings.push_back(fmt::format("{}: unknown field '{}' is ignored",
                                               tensor(name()), printable(key)));
      }
      state_ = State::kSkip;
      return {};
    }
    if (*seen) {
      return Status::corrupt(fmt::format("{}: '{}' is given twice", tensor(name()), key));
    }
    *seen = true;
    return {};
  }

  Status end_entry() {
    for (const auto& [seen, key] :
         {std::pair(dtype_seen_, "dtype"), std::pair(shape_seen_, "shape"),
          std::pair(offsets_seen_, "data_offsets")}) {
      if (!seen) {
        return Status::corrupt(fmt::format("{}: '{}' is missing", tensor(name()), key));
      }
    }
    entries_.list.push_back(entry_);
    state_ = State::kTop;
    return {};
  }

  Status end_skipped() {
    assert(state_ == State::kSkip && skip_depth_ > 0);
    if (--skip_depth_ == 0) state_ = State::kFields;
    return {};
  }

  // A value that is neither an object nor an array, where it is only to be skipped.
  Status scalar(std::string_view found) {
    if (state_ != State::kSkip) return unexpected(found);
    if (skip_depth_ == 0) state_ = State::kFields;
    return {};
  }

  Status bad_offsets() const {
    return Status::corrupt(
        fmt::format("{}: 'data_offsets' must be two numbers", tensor(name())));
  }

  Status unexpected(std::string_view found) const {
    switch (state_) {
      case State::kEntry:
        return Status::corrupt(
            fmt::format("{}: {} found, expected an object", tensor(name()), found));
      case State::kDtype:
        return Status::corrupt(
            fmt::format("{}: 'dtype' is {}, expected a string", tensor(name()), found));
      case State::kShape:
      case State::kDims:
        return Status::corrupt(
            fmt::format("{}: {} found in 'shape', expected an array of numbers",
                        tensor(name()), found));
      case State::kOffsets:
      case State::kOffsetNumbers:
        return bad_offsets();
      case State::kMetadata:
        return Status::corrupt(
            fmt::format("'__metadata__' is {}, expected an object of strings", found));
      case State::kMetadataValue:
        return Status::corrupt(
            fmt::format("'__metadata__': the value of '{}' is {}, expected a string",
                        printable(header_.metadata.back().first), found));
      default:
        return Status::corrupt(
            fmt::format("the header is {}, expected an object", found));
    }
  }

  Entries& entries_;
  SafetensorsHeader& header_;
  State state_ = State::kStart;
  HeaderEntry entry_;
  bool dtype_seen_ = false;
  bool shape_seen_ = false;
  bool offsets_seen_ = false;
  bool metadata_seen_ = false;
  int offsets_ = 0;
  int skip_depth_ = 0;
};

Status check_names(const Entries& entries) {
  std::vector<std::uint32_t> order(entries.list.size());
  std::iota(order.begin(), order.end(), 0u);
  const auto name = [&](std::uint32_t i) { return entries.name_of(entries.list[i]); };
  std::sort(order.begin(), order.end(),
            [&](std::uint32_t a, std::uint32_t b) { return name(a) < name(b); });
  const auto twice = std::adjacent_find(
      order.begin(), order.end(),
      [&](std::uint32_t a, std::uint32_t b) { return name(a) == name(b); });
  if (twice == order.end() || is_planted(3)) return {};
  return Status::corrupt(tensor(name(*twice)) + " is given twice");
}

// Tensors of the file in the order of their data, each beginning where the one before
// ends.
Status sort_and_walk(Entries& entries) {
  std::sort(entries.list.begin(), entries.list.end(),
            [](const HeaderEntry& a, const HeaderEntry& b) {
              return a.begin != b.begin ? a.begin < b.begin : a.end < b.end;
            });
  std::uint64_t position = 0;
  for (const HeaderEntry& entry : entries.list) {
    const std::string_view name = entries.name_of(entry);
    if (entry.end < entry.begin) {
      return Status::corrupt(
          fmt::format("{}: data_offsets [{}, {}] end before they begin", tensor(name),
                      entry.begin, entry.end));
    }
    if (entry.begin != position) {
      return Status::corrupt(
          fmt::format("{} begins at byte {} of the data, expected {}: {}", tensor(name),
                      entry.begin, position,
                      entry.begin < position ? "tensors overlap"
                                             : "bytes before it belong to no tensor"));
    }
    position = entry.end;
  }
  return {};
}

Result<Shape> make_shape(const Entries& entries, const HeaderEntry& entry) {
  std::vector<std::int64_t> extents;
  for (const std::uint64_t dim : entries.dims_of(entry)) {
    if (dim > INT64_MAX) {
      return Status::corrupt(fmt::format("extent {} exceeds 2^63-1", dim));
    }
    extents.push_back(static_cast<std::int64_t>(dim));
  }
  return Shape::make(extents);
}

// Size by shape and type, against the size by offsets.
Result<TensorInfo> make_info(const Entries& entries, const HeaderEntry& entry,
                             std::uint64_t data_begin) {
  const std::string_view name = entries.name_of(entry);
  const auto corrupt = [&](const Status& status) {
    // Messages of Shape quote all extents, of which there may be very many.
    return Status::corrupt(
        fmt::format("{}: {}", tensor(name), printable(status.message(), 160)));
  };
  const auto shape = make_shape(entries, entry);
  if (!shape) return corrupt(shape.error());
  const auto bytes = bytes_of(entry.dtype, *shape);
  if (!bytes) return corrupt(bytes.error());
  if (static_cast<std::uint64_t>(*bytes) != entry.end - entry.begin) {
    return Status::corrupt(fmt::format(
        "{}: data_offsets [{}, {}] are {} bytes, but shape {} of {} has {}", tensor(name),
        entry.begin, entry.end, entry.end - entry.begin,
        printable(shape->to_string(), 64), safetensors_name(entry.dtype), *bytes));
  }
  TensorInfo info;
  info.name = name;
  info.encoding = plain_encoding(entry.dtype, safetensors_name(entry.dtype));
  info.shape = *shape;
  info.bytes = *bytes;
  info.offset = (CheckedSize(data_begin) + entry.begin).value();
  return info;
}

}  // namespace

std::string_view safetensors_name(DType dtype) {
  const auto i = static_cast<std::size_t>(dtype);
  return i < kDTypeNames.size() ? kDTypeNames[i] : std::string_view();
}

std::optional<DType> dtype_from_safetensors(std::string_view name) {
  const auto found = std::find(kDTypeNames.begin(), kDTypeNames.end(), name);
  if (found == kDTypeNames.end()) return std::nullopt;
  return static_cast<DType>(found - kDTypeNames.begin());
}

Result<SafetensorsHeader> read_safetensors_header(ByteReader& in,
                                                  std::uint64_t file_size) {
  if (file_size < 8) {
    return Status::corrupt(fmt::format(
        "the file has {} bytes, too few for the length of a header (8)", file_size));
  }
  PITH_TRY(const std::uint64_t length, in.u64("length of the header"));
  if (length > kMaxSafetensorsHeader) {
    return Status::corrupt(fmt::format("the header has {} bytes, at most {} are allowed",
                                       length, kMaxSafetensorsHeader));
  }
  SafetensorsHeader header;
  header.data_begin = (CheckedSize(length) + 8).value();
  if (header.data_begin > file_size) {
    return Status::corrupt(
        fmt::format("the header ends at byte {}, but the file has {}: it is truncated",
                    header.data_begin, file_size));
  }
  Entries entries;
  HeaderHandler handler(entries, header);
  PITH_TRY(ByteReader text, in.part(length, "header"));
  if (Status s = parse_json(text, handler); !s.ok()) return s.with_context("header");
  PITH_OK(check_names(entries));
  PITH_OK(sort_and_walk(entries));
  for (const HeaderEntry& entry : entries.list) {
    // Checked first and kept later: a refusal does not pay for the list.
    PITH_OK(make_info(entries, entry, header.data_begin).status());
  }
  const CheckedSize end = CheckedSize(header.data_begin) +
                          (entries.list.empty() ? 0 : entries.list.back().end);
  if (!end.valid() || end.value() != file_size) {
    const bool longer = end.at_most(file_size);
    return Status::corrupt(
        fmt::format("the data ends at byte {}{}, but the file has {}: {}",
                    end.valid() ? "" : "2^64 + ", end.value(), file_size,
                    longer ? "bytes at the end belong to no tensor" : "it is truncated"));
  }
  header.tensors.reserve(entries.list.size());
  for (const HeaderEntry& entry : entries.list) {
    PITH_TRY(TensorInfo info, make_info(entries, entry, header.data_begin));
    header.tensors.push_back(std::move(info));
  }
  return header;
}

}  // namespace pith
