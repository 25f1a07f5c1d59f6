// What both targets of the manifest do with a text.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fuzz/check.h"
#include "pith/tensor/view.h"
#include "src/io/plain.h"
#include "src/io/safetensors_header.h"
#include "src/quantize/manifest.h"

namespace pith::fuzz {

/// The bytes of codes that a record cannot do without, in 128 bits.
inline void check_codes(const TensorRecord& record, const TensorInfo& codes) {
  __extension__ typedef unsigned __int128 Wide;
  const bool sparse = record.kind == StoredKind::kSparse;
  Wide elements = 1;
  for (const std::int64_t extent : record.shape.extents()) {
    elements *= static_cast<Wide>(extent);
  }
  if (sparse) elements = static_cast<Wide>(record.kept);
  const Wide least = (elements * static_cast<Wide>(record.scheme->bits) + 7) / 8;
  require(static_cast<Wide>(codes.bytes) >= least, "codes are too short");
}

/// The tensors that an accepted manifest asks for; a failure to lay one out refuses it.
inline bool stored_tensors(const Manifest& manifest, std::vector<TensorInfo>& out) {
  for (const TensorRecord& record : manifest.tensors) {
    Result<std::vector<PartLayout>> layouts = required_parts(record);
    if (!layouts) return false;
    if (!layouts->empty() && record.part(PartRole::kColumnScale) != nullptr) {
      layouts->push_back(column_scale_layout(record).value());
    }
    for (const PartLayout& layout : *layouts) {
      const StoredPart* part = record.part(layout.role);
      const Result<std::int64_t> bytes = bytes_of(layout.dtype, layout.shape);
      if (part == nullptr || !bytes) return false;
      TensorInfo info;
      info.name = part->name;
      info.encoding = plain_encoding(layout.dtype, safetensors_name(layout.dtype));
      info.shape = layout.shape;
      info.bytes = *bytes;
      check_shape(info);
      if (layout.role == PartRole::kCodes) check_codes(record, info);
      out.push_back(std::move(info));
    }
  }
  return true;
}

/// Parses a manifest; what is accepted can be written, and is read back the same.
inline void run_manifest(std::string_view text) {
  const Result<Manifest> manifest = manifest_from_json(text);
  if (!manifest) return check_refusal(manifest.error());
  const Result<std::string> written = manifest_to_json(*manifest);
  require(written.has_value(), "an accepted manifest cannot be written");
  const Result<Manifest> again = manifest_from_json(*written);
  require(again.has_value(), "a written manifest is refused");
  // Figures lose digits when they are written first, and none after.
  require(manifest_to_json(*again).value() == *written, "a manifest changes");
  std::vector<TensorInfo> stored;
  if (!stored_tensors(*manifest, stored)) stored.clear();
  const Status checked = check_manifests({&*manifest, 1}, stored);
  if (!checked.ok()) return check_refusal(checked);
  std::size_t parts = 0;
  for (const TensorRecord& record : manifest->tensors) parts += record.parts.size();
  require(parts == stored.size(), "a stored tensor is no part, or two");
}

}  // namespace pith::fuzz
