// The manifest of a file in Pith's own convention: what each stored tensor is. It is JSON
// text in the `pith` key of a safetensors file's `__metadata__`, or in an array of bytes of
// an npz file; docs/formats/pith.md has it key by key.
//
//   Manifest manifest;
//   manifest.tensors.push_back(record);         // one per tensor of the source
//   PITH_TRY(const std::string text, manifest_to_json(manifest));
//   ...
//   PITH_TRY(const Manifest manifest, manifest_from_json(text));
//   PITH_OK(check_manifests({&manifest, 1}, checkpoint.tensors()));
//
// A tensor is stored in one part or several, each a tensor of the file: codes or values
// under its own name, scales and masks beside it. Every tensor of a file is a part of
// exactly one record, and every record tells how it is read back: nothing is lost, and
// nothing is there that no one knows.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "pith/base/result.h"
#include "pith/io/checkpoint.h"
#include "pith/quantize/error.h"
#include "pith/quantize/scheme.h"
#include "pith/tensor/dtype.h"
#include "pith/tensor/shape.h"

namespace pith {

/// What became of a tensor of the source.
enum class StoredKind : std::uint8_t {
  kKept,       ///< stored as it was
  kConverted,  ///< the same values in another element type
  kQuantized,  ///< codes and scales of a scheme
  kSparse,   ///< only some values (or codes, with a scheme), and a mask that tells which
  kAlias,    ///< equal to another tensor, and not stored
  kDropped,  ///< left out on request
};

/// What a stored tensor is to the record it belongs to. In the order of the file's text.
enum class PartRole : std::uint8_t {
  kValues,       ///< plain numbers; of a sparse tensor those that are kept, row by row
  kCodes,        ///< of the scheme; of a sparse tensor those of the values kept
  kScale,        ///< one per group
  kZeroPoint,    ///< one i8 per group of an asymmetric scheme
  kMask,         ///< one bit per value: 1 is kept
  kRowOffsets,   ///< values kept in all rows before each row
  kColumnScale,  ///< what each column is multiplied by after decoding
  kShape,        ///< the shape, in the other convention
};
inline constexpr int kPartRoles = 8;

struct StoredPart {
  PartRole role = PartRole::kValues;
  std::string name;                       ///< of the tensor in the file
  std::optional<std::uint64_t> checksum;  ///< XXH3 (64 bits, seed 0) of its bytes

  friend bool operator==(const StoredPart&, const StoredPart&) = default;
};

/// One tensor of the source.
struct TensorRecord {
  std::string name;
  StoredKind kind = StoredKind::kKept;
  std::string source;             ///< type in the source, as its format calls it: "BF16"
  Shape shape;                    ///< of the source
  std::optional<DType> dtype;     ///< of the values, if values are stored
  std::optional<Scheme> scheme;   ///< of the codes, if codes are stored
  std::int64_t kept = 0;          ///< values or codes that are stored, for kSparse
  std::string alias_of;           ///< for kAlias: a tensor that is no alias itself
  std::vector<StoredPart> parts;  ///< in the order of the roles
  std::optional<ErrorFigures> error;

  [[nodiscard]] const StoredPart* part(PartRole role) const;

  friend bool operator==(const TensorRecord&, const TensorRecord&) = default;
};

/// Whose rules the names and layouts of the parts follow.
enum class Convention : std::uint8_t {
  kPith,               ///< this one: the manifest tells how tensors are read back
  kCompressedTensors,  ///< config.json tells it; the manifest has checksums and figures
};

struct Manifest {
  Convention convention = Convention::kPith;
  std::string writer;  ///< "pith 0.1.0"
  std::string recipe;  ///< as the user gave it
  std::vector<TensorRecord> tensors;

  friend bool operator==(const Manifest&, const Manifest&) = default;
};

/// `role` as it stands in the manifest ("zero_point"), and what is appended to the name
/// of a tensor to name its part, unless that is taken (".zero_point"; nothing for values
/// and codes).
[[nodiscard]] std::string_view to_string(PartRole role);
[[nodiscard]] std::string_view part_suffix(PartRole role);
[[nodiscard]] std::string_view to_string(StoredKind kind);

/// The type and shape of a part.
struct PartLayout {
  PartRole role = PartRole::kValues;
  DType dtype = DType::kU8;
  Shape shape;
};

/// The parts that a record must have, but for kColumnScale, which is a choice, in the
/// order of the roles. kInvalidArgument if the record contradicts itself: a scheme that
/// does not fit the shape, no dtype for values, more values kept than there are.
Result<std::vector<PartLayout>> required_parts(const TensorRecord& record);
/// Of kColumnScale.
Result<PartLayout> column_scale_layout(const TensorRecord& record);

/// The text: no white space, keys in a fixed order, numbers of `error` with 12 digits.
/// Equal manifests give equal bytes. kInvalidArgument if a text is not UTF-8.
Result<std::string> manifest_to_json(const Manifest& manifest);

/// Figures whose text is at least as long as that of any others of so many elements, to
/// reserve room for those that are not known yet.
[[nodiscard]] ErrorFigures widest_figures(
    std::int64_t elements = std::numeric_limits<std::int64_t>::max());

/// Reads the text. kCorrupt names the tensor and the key: a key that is unknown, missing
/// or given twice, a value out of its range, a part that the record cannot have;
/// kUnsupported if the schema is a newer one.
Result<Manifest> manifest_from_json(std::string_view text);

/// The array of u8 that has the manifest in npz, filled up with spaces.
inline constexpr std::string_view kManifestArray = "pith.manifest";

/// The manifests of a checkpoint, none if it is not Pith's.
struct FoundManifests {
  std::vector<Manifest> manifests;
  std::optional<std::size_t> array;  ///< tensor that has them, in npz
};
/// Fails as manifest_from_json().
Result<FoundManifests> find_manifests(const Checkpoint& checkpoint);

/// The manifests of all files of a checkpoint against the tensors stored in it: kCorrupt
/// unless every part is there with its type and shape, every stored tensor is one part
/// only (but for `array`, which has the manifest), names are unique and aliases lead to a
/// tensor that is stored. Types and shapes of the other convention are for its reader to
/// check.
Status check_manifests(std::span<const Manifest> manifests,
                       std::span<const TensorInfo> stored,
                       std::optional<std::size_t> array = std::nullopt);

}  // namespace pith
