#include "src/quantize/manifest.h"

#include <fmt/format.h>

#include <array>
#include <limits>
#include <unordered_map>

#include "src/base/checked.h"
#include "src/base/text.h"

namespace pith {
namespace {

struct RoleName {
  std::string_view name;
  std::string_view suffix;
};

constexpr std::array<RoleName, kPartRoles> kRoles = {{
    {"values", ""},
    {"codes", ""},
    {"scale", ".scale"},
    {"zero_point", ".zero_point"},
    {"mask", ".mask"},
    {"row_offsets", ".row_offsets"},
    {"column_scale", ".column_scale"},
    {"shape", "_shape"},
}};

// `shape` with another length of rows; a scalar has one row.
Result<Shape> with_cols(const Shape& shape, std::int64_t cols) {
  std::vector<std::int64_t> extents(shape.extents().begin(), shape.extents().end());
  if (extents.empty()) extents.push_back(1);
  extents.back() = cols;
  return Shape::make(extents);
}

Result<Shape> scale_shape(const TensorRecord& record) {
  const Scheme& scheme = *record.scheme;
  switch (scheme.group) {
    case Group::kTensor:
      return Shape::make({1});
    case Group::kRow:  // not the rows: those of no length have no scale
      return Shape::make({scheme.groups(record.shape), 1});
    case Group::kBlock:
      return Shape::make({record.shape.rows(), record.shape.cols() / scheme.block_size});
    case Group::kFlatBlock:
      break;
  }
  return Shape::make({scheme.groups(record.shape)});
}

Result<PartLayout> code_layout(const TensorRecord& record) {
  const Scheme& scheme = *record.scheme;
  const bool bytes = scheme.bits == 8 && scheme.layout == Layout::kSplit;
  PartLayout layout{PartRole::kCodes, bytes ? DType::kI8 : DType::kU8, {}};
  if (record.kind == StoredKind::kSparse) {
    PITH_TRY(layout.shape,
             Shape::make({bytes ? record.kept : divide_up(record.kept, 2)}));
  } else if (bytes) {
    layout.shape = record.shape;
  } else if (scheme.group == Group::kFlatBlock) {
    PITH_TRY(layout.shape, Shape::make({scheme.code_bytes(record.shape)}));
  } else if (record.shape.elements() == 0) {
    PITH_TRY(layout.shape, with_cols(record.shape, 0));
  } else {
    PITH_TRY(layout.shape, with_cols(record.shape, scheme.code_bytes(record.shape) /
                                                       record.shape.rows()));
  }
  return layout;
}

Status check_fields(const TensorRecord& record) {
  const bool plain =
      record.kind == StoredKind::kKept || record.kind == StoredKind::kConverted;
  const bool sparse = record.kind == StoredKind::kSparse;
  const bool coded =
      record.kind == StoredKind::kQuantized || (sparse && record.scheme.has_value());
  if (record.scheme.has_value() != coded) {
    return Status::invalid_argument(coded ? "the scheme is missing"
                                          : "a scheme where there are no codes");
  }
  if (record.dtype.has_value() != (plain || (sparse && !coded))) {
    return Status::invalid_argument(record.dtype ? "a dtype where there are no values"
                                                 : "the dtype is missing");
  }
  if (record.kept < 0 || record.kept > record.shape.elements() ||
      (!sparse && record.kept != 0)) {
    return Status::invalid_argument(
        fmt::format("{} values are kept, of {}", record.kept, record.shape.elements()));
  }
  if (record.alias_of.empty() != (record.kind != StoredKind::kAlias)) {
    return Status::invalid_argument("'alias_of' belongs to aliases");
  }
  if (coded) {
    PITH_OK(record.scheme->validate(record.shape));
    if (sparse && record.scheme->layout != Layout::kSplit) {
      return Status::invalid_argument("a sparse tensor has its scales apart");
    }
  }
  return {};
}

std::string tensor(std::string_view name) {
  return fmt::format("manifest: tensor '{}'", printable(name));
}

}  // namespace

std::string_view to_string(PartRole role) {
  return kRoles[static_cast<std::size_t>(role)].name;
}

std::string_view part_suffix(PartRole role) {
  return kRoles[static_cast<std::size_t>(role)].suffix;
}

std::string_view to_string(StoredKind kind) {
  switch (kind) {
    case StoredKind::kKept:
      return "kept";
    case StoredKind::kConverted:
      return "converted";
    case StoredKind::kQuantized:
      return "quantized";
    case StoredKind::kSparse:
      return "sparse";
    case StoredKind::kAlias:
      return "alias";
    case StoredKind::kDropped:
      return "dropped";
  }
  return "unknown";
}

const StoredPart* TensorRecord::part(PartRole role) const {
  for (const StoredPart& part : parts) {
    if (part.role == role) return &part;
  }
  return nullptr;
}

Result<std::vector<PartLayout>> required_parts(const TensorRecord& record) {
  PITH_OK(check_fields(record));
  std::vector<PartLayout> parts;
  const bool sparse = record.kind == StoredKind::kSparse;
  if (record.dtype) {
    PartLayout values{PartRole::kValues, *record.dtype, record.shape};
    if (sparse) {
      PITH_TRY(values.shape, Shape::make({record.kept}));
    }
    parts.push_back(std::move(values));
  }
  if (record.scheme) {
    PITH_TRY(PartLayout codes, code_layout(record));
    parts.push_back(std::move(codes));
    if (record.scheme->layout == Layout::kSplit) {
      PITH_TRY(const Shape scales, scale_shape(record));
      parts.push_back({PartRole::kScale, record.scheme->scale_type, scales});
      if (!record.scheme->symmetric) {
        parts.push_back({PartRole::kZeroPoint, DType::kI8, scales});
      }
    }
  }
  if (sparse) {
    const std::int64_t rows = record.shape.rows();
    PITH_TRY(Shape mask, Shape::make({rows, divide_up(record.shape.cols(), 8)}));
    PITH_TRY(Shape offsets, Shape::make({rows}));
    parts.push_back({PartRole::kMask, DType::kU8, std::move(mask)});
    parts.push_back({PartRole::kRowOffsets, DType::kI64, std::move(offsets)});
  }
  return parts;
}

Result<PartLayout> column_scale_layout(const TensorRecord& record) {
  PITH_TRY(Shape shape, Shape::make({record.shape.cols()}));
  return PartLayout{PartRole::kColumnScale, DType::kF32, std::move(shape)};
}

ErrorFigures widest_figures(std::int64_t elements) {
  ErrorFigures figures;
  figures.count = figures.non_finite = figures.zeros_before = figures.zeros_after =
      figures.saturated = figures.max_index = elements;
  figures.sum_error = figures.sum_error_squared = figures.sum_squared_before =
      figures.sum_squared_after = figures.max_error = 1.23456789012e-300;
  return figures;
}

namespace {

// Stored tensors that no record has claimed yet.
using Unclaimed = std::unordered_map<std::string_view, const TensorInfo*>;

Result<const TensorInfo*> claim(Unclaimed& unclaimed, const StoredPart& part) {
  const auto found = unclaimed.find(part.name);
  if (found == unclaimed.end()) {
    return Status::corrupt(
        fmt::format("its part '{}' is not in the file, or the part of another tensor too",
                    printable(part.name)));
  }
  const TensorInfo* info = found->second;
  unclaimed.erase(found);
  return info;
}

Status claim_record(Unclaimed& unclaimed, const TensorRecord& record) {
  const auto required = required_parts(record);
  if (!required) return Status::corrupt(required.error().message());
  std::vector<PartLayout> layouts = *required;
  if (!layouts.empty() && record.part(PartRole::kColumnScale) != nullptr) {
    PITH_TRY(PartLayout columns, column_scale_layout(record));
    layouts.push_back(std::move(columns));
  }
  if (layouts.size() != record.parts.size()) {
    return Status::corrupt(
        fmt::format("it has {} parts, expected {}", record.parts.size(), layouts.size()));
  }
  for (std::size_t i = 0; i < layouts.size(); ++i) {
    const StoredPart& part = record.parts[i];
    const PartLayout& layout = layouts[i];
    if (part.role != layout.role) {
      return Status::corrupt(fmt::format("part '{}' found, expected '{}'",
                                         to_string(part.role), to_string(layout.role)));
    }
    PITH_TRY(const TensorInfo* info, claim(unclaimed, part));
    if (info->encoding.dtype != layout.dtype || info->shape != layout.shape) {
      return Status::corrupt(
          fmt::format("its part '{}' is {} {}, expected {} {}", printable(part.name),
                      info->encoding.name, printable(info->shape.to_string(), 64),
                      to_string(layout.dtype), printable(layout.shape.to_string(), 64)));
    }
  }
  return {};
}

Status claim_all(Unclaimed& unclaimed, const TensorRecord& record) {
  for (const StoredPart& part : record.parts) PITH_OK(claim(unclaimed, part).status());
  return {};
}

}  // namespace

Result<FoundManifests> find_manifests(const Checkpoint& checkpoint) {
  FoundManifests found;
  for (const auto& [key, value] : checkpoint.metadata()) {
    if (key != "pith") continue;
    PITH_TRY(Manifest manifest, manifest_from_json(value));
    found.manifests.push_back(std::move(manifest));
  }
  if (checkpoint.format() != Format::kNpz) return found;
  const std::optional<std::size_t> array = checkpoint.find(kManifestArray);
  constexpr std::int64_t kMost = 100 << 20;  // as for the header of safetensors
  if (!array || checkpoint.tensors()[*array].encoding.dtype != DType::kU8 ||
      checkpoint.tensors()[*array].bytes > kMost) {
    return found;
  }
  std::string text(static_cast<std::size_t>(checkpoint.tensors()[*array].bytes), ' ');
  PITH_OK(checkpoint.read_bytes(*array, 0, std::as_writable_bytes(std::span(text))));
  PITH_TRY(Manifest manifest, manifest_from_json(text));
  found.manifests.push_back(std::move(manifest));
  found.array = array;
  return found;
}

Status check_manifests(std::span<const Manifest> manifests,
                       std::span<const TensorInfo> stored,
                       std::optional<std::size_t> array) {
  Unclaimed unclaimed;
  for (std::size_t i = 0; i < stored.size(); ++i) {
    if (i != array) unclaimed.emplace(stored[i].name, &stored[i]);
  }
  std::unordered_map<std::string_view, const TensorRecord*> records;
  for (const Manifest& manifest : manifests) {
    if (manifest.convention != manifests.front().convention) {
      return Status::corrupt(
          "manifest: files of one checkpoint differ in their convention");
    }
    for (const TensorRecord& record : manifest.tensors) {
      if (!records.emplace(record.name, &record).second) {
        return Status::corrupt(tensor(record.name) + " is given twice");
      }
      const Status status = manifest.convention == Convention::kPith
                                ? claim_record(unclaimed, record)
                                : claim_all(unclaimed, record);
      if (!status.ok()) return status.with_context(tensor(record.name));
    }
  }
  for (const TensorInfo& info : stored) {  // in the order of the file, for one message
    if (unclaimed.contains(info.name)) {
      return Status::corrupt(
          fmt::format("manifest: nothing is said of tensor '{}'", printable(info.name)));
    }
  }
  for (const Manifest& manifest : manifests) {
    for (const TensorRecord& record : manifest.tensors) {
      if (record.kind != StoredKind::kAlias) continue;
      const auto target = records.find(record.alias_of);
      if (target == records.end() || target->second->parts.empty() ||
          target->second->shape != record.shape) {
        return Status::corrupt(
            fmt::format("{} is an alias of '{}', which is not stored with its shape",
                        tensor(record.name), printable(record.alias_of)));
      }
    }
  }
  return {};
}

}  // namespace pith
