// Tensors of Pith's own files (docs/formats/pith.md).
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <unordered_map>
#include <utility>

#include "pith/tensor/half.h"
#include "src/base/bits.h"
#include "src/base/text.h"
#include "src/io/plain.h"
#include "src/kernels/quantize.h"
#include "src/quantize/dense_tensor.h"
#include "src/quantize/manifest.h"

namespace pith {
namespace {

constexpr std::int64_t kDensePiece = 64 << 10;  // elements decoded at a time

std::size_t size(std::int64_t n) { return static_cast<std::size_t>(n); }

// The scales of some groups, and their zero points.
struct GroupValues {
  std::vector<float> scales;
  std::vector<float> zero_points;  // empty for a symmetric scheme

  [[nodiscard]] const float* zeros() const {
    return zero_points.empty() ? nullptr : zero_points.data();
  }
  [[nodiscard]] float decode(int code, std::size_t group) const {
    const int zero = zero_points.empty() ? 0 : static_cast<int>(zero_points[group]);
    return scales[group] * static_cast<float>(code - zero);
  }
};

// What the kinds have in common: the parts, and factors of columns.
class PithTensor : public DenseTensor {
 public:
  PithTensor(std::string label, const Checkpoint& checkpoint, TensorRecord record)
      : DenseTensor(std::move(label)),
        checkpoint_(checkpoint),
        record_(std::move(record)) {}

  Status read_rows(std::int64_t first, std::int64_t rows,
                   std::span<float> out) const final {
    PITH_OK(read_values(first, rows, out));
    PITH_TRY(const std::vector<float> scale, column_scale());
    if (scale.empty()) return {};
    const std::int64_t cols = shape().cols();
    for (std::int64_t r = 0; r < rows; ++r) {
      float* row = out.data() + r * cols;
      for (std::int64_t c = 0; c < cols; ++c) row[c] *= scale[size(c)];
    }
    return {};
  }

 protected:
  virtual Status read_values(std::int64_t first, std::int64_t rows,
                             std::span<float> out) const = 0;

  // Empty if there is none.
  [[nodiscard]] Result<std::vector<float>> column_scale() const {
    const auto factors = part(PartRole::kColumnScale);
    if (!factors) return std::vector<float>();
    std::vector<float> scale(size(shape().cols()));
    PITH_OK(factors->read_floats(0, scale));
    for (const float factor : scale) {
      if (!std::isfinite(factor)) return factors->corrupt("a factor is not finite");
    }
    return scale;
  }

  // Codes of 0 and the scales of the record's scheme.
  [[nodiscard]] Result<StoredCodes> read_scales_and_zeros() const {
    PITH_TRY(StoredCodes stored, read_scales());
    stored.tensor.codes = Buffer(scheme().code_bytes(shape()));
    const std::span<std::byte> codes = stored.tensor.codes.bytes();
    std::fill(codes.begin(), codes.end(), std::byte{0});
    return stored;
  }

  // All but the codes.
  [[nodiscard]] Result<StoredCodes> read_scales() const {
    StoredCodes stored;
    stored.tensor.scheme = scheme();
    stored.tensor.shape = shape();
    stored.tensor.scales = Buffer(scheme().scale_bytes(shape()));
    stored.tensor.zero_points = Buffer(scheme().zero_point_bytes(shape()));
    if (const auto scale = part(PartRole::kScale)) {
      GroupValues values;  // checks them
      PITH_OK(read_groups(0, scheme().groups(shape()), values));
      PITH_OK(scale->read(0, stored.tensor.scales.bytes()));
    }
    if (const auto zeros = part(PartRole::kZeroPoint)) {
      PITH_OK(zeros->read(0, stored.tensor.zero_points.bytes()));
    }
    PITH_TRY(stored.column_scale, column_scale());
    return stored;
  }

  [[nodiscard]] const TensorRecord& record() const { return record_; }
  [[nodiscard]] const Scheme& scheme() const { return *record_.scheme; }
  [[nodiscard]] const Shape& shape() const { return record_.shape; }
  // Of a role that the record has; the manifest was checked against the file.
  [[nodiscard]] StoredTensor required(PartRole role) const { return *part(role); }
  [[nodiscard]] std::optional<StoredTensor> part(PartRole role) const {
    const StoredPart* found = record_.part(role);
    if (found == nullptr) return std::nullopt;
    return find_stored(checkpoint_, found->name);
  }

  Status read_groups(std::int64_t first, std::int64_t groups, GroupValues& out) const {
    const StoredTensor scale = required(PartRole::kScale);
    out.scales.resize(size(groups));
    PITH_OK(scale.read_floats(first, out.scales));
    for (std::size_t i = 0; i < out.scales.size(); ++i) {
      if (!std::isfinite(out.scales[i])) {
        return scale.corrupt(fmt::format("scale {} is {}, expected a finite number",
                                         size(first) + i, out.scales[i]));
      }
    }
    if (scheme().symmetric) return {};
    out.zero_points.resize(size(groups));
    return required(PartRole::kZeroPoint).read_floats(first, out.zero_points);
  }

 private:
  const Checkpoint& checkpoint_;
  TensorRecord record_;
};

class PlainTensor : public PithTensor {
 public:
  using PithTensor::PithTensor;

 private:
  Status read_values(std::int64_t first, std::int64_t rows,
                     std::span<float> out) const override {
    (void)rows;
    return required(PartRole::kValues).read_floats(first * shape().cols(), out);
  }
};

class QuantizedWeight : public PithTensor {
 public:
  using PithTensor::PithTensor;

  Result<std::optional<StoredCodes>> read_codes() const override {
    PITH_TRY(StoredCodes stored, read_scales());
    stored.tensor.codes = Buffer(scheme().code_bytes(shape()));
    PITH_OK(required(PartRole::kCodes).read(0, stored.tensor.codes.bytes()));
    if (scheme().layout == Layout::kBlocks) {
      for (std::int64_t b = 0; b < scheme().groups(shape()); ++b) {
        if (std::isfinite(stored.tensor.scale(b))) continue;
        return required(PartRole::kCodes)
            .corrupt(fmt::format("the scale of block {} is not finite", b));
      }
    }
    return std::optional(std::move(stored));
  }

  Result<std::optional<MappedCodes>> map_codes() const override {
    PITH_TRY(std::optional<MappedFile> codes, required(PartRole::kCodes).map());
    if (!codes) return std::optional<MappedCodes>();
    MappedCodes mapped;
    mapped.codes = *std::move(codes);
    PITH_TRY(mapped.rest, read_scales());
    return std::optional(std::move(mapped));
  }

 private:
  Status read_values(std::int64_t first, std::int64_t rows,
                     std::span<float> out) const override {
    if (scheme().group == Group::kFlatBlock) {
      return read_flat(first * shape().cols(), out);
    }
    const std::int64_t step = rows_at_a_time(shape().cols());
    for (std::int64_t done = 0; done < rows; done += step) {
      const std::int64_t n = std::min(step, rows - done);
      const std::span<float> some =
          out.subspan(size(done * shape().cols()), size(n * shape().cols()));
      PITH_OK(scheme().layout == Layout::kBlocks ? read_blocks(first + done, n, some)
                                                 : read_split(first + done, n, some));
    }
    return {};
  }

  // Rows of a scheme with its scales apart; no group is shared by rows, or all are one.
  Status read_split(std::int64_t first, std::int64_t rows, std::span<float> out) const {
    const std::int64_t cols = shape().cols();
    const std::int64_t row_bytes = scheme().bits == 8 ? cols : cols / 2 + cols % 2;
    std::vector<std::byte> codes(size(rows * row_bytes));
    PITH_OK(required(PartRole::kCodes).read(first * row_bytes, codes));
    const bool one = scheme().group == Group::kTensor;
    const std::int64_t group =
        scheme().group == Group::kBlock ? scheme().block_size : cols;
    const std::int64_t groups = rows * (cols / group);
    GroupValues values;
    PITH_OK(one ? read_groups(0, 1, values)
                : read_groups(first * (cols / group), groups, values));
    decode(codes.data(), groups, group, row_bytes / (cols / group), one, values, out);
    return {};
  }

  // Blocks that begin with their scale: an f16, then 32 codes.
  Status read_blocks(std::int64_t first, std::int64_t rows, std::span<float> out) const {
    const std::int64_t blocks = rows * (shape().cols() / 32);
    const std::int64_t bytes = scheme().bits == 8 ? 34 : 18;
    std::vector<std::byte> data(size(blocks * bytes));
    const StoredTensor stored = required(PartRole::kCodes);
    PITH_OK(stored.read(first * (shape().cols() / 32) * bytes, data));
    std::vector<float> scales(size(blocks));
    for (std::int64_t b = 0; b < blocks; ++b) {
      std::uint16_t half = 0;
      std::memcpy(&half, data.data() + b * bytes, sizeof(half));
      scales[size(b)] = f16_to_f32(half);
      if (!std::isfinite(scales[size(b)])) {
        return stored.corrupt(fmt::format("the scale of block {} is not finite",
                                          first * (shape().cols() / 32) + b));
      }
    }
    kernels::decode_groups(
        {.codes = reinterpret_cast<const std::uint8_t*>(data.data()) + 2,
         .stride = bytes,
         .packing =
             scheme().bits == 8 ? kernels::Packing::kInt8 : kernels::Packing::kInt4Halves,
         .scales = scales.data(),
         .zero_points = nullptr,
         .one_scale = false,
         .out = out.data(),
         .groups = blocks,
         .size = 32,
         .last = 32});
    return {};
  }

  // Elements of flat blocks, from any on: whole blocks together, the rest block by block.
  Status read_flat(std::int64_t element, std::span<float> out) const {
    const std::int64_t block = scheme().block_size;
    const std::int64_t end = element + static_cast<std::int64_t>(out.size());
    while (element < end) {
      const std::int64_t limit = std::min(end, element + kDensePiece);
      std::int64_t n = element % block == 0 ? (limit - element) / block * block : 0;
      std::int64_t group = block;
      if (n == 0) {
        n = std::min(limit, (element / block + 1) * block) - element;
        group = n;
      }
      PITH_OK(read_run(element, n, group, out.first(size(n))));
      out = out.subspan(size(n));
      element += n;
    }
    return {};
  }

  // `n` elements in pieces of `piece`, each within one block.
  Status read_run(std::int64_t first, std::int64_t n, std::int64_t piece,
                  std::span<float> out) const {
    GroupValues values;
    PITH_OK(read_groups(first / scheme().block_size, n / piece, values));
    const StoredTensor stored = required(PartRole::kCodes);
    if (scheme().bits == 8) {
      std::vector<std::byte> codes(size(n));
      PITH_OK(stored.read(first, codes));
      decode(codes.data(), n / piece, piece, piece, false, values, out);
      return {};
    }
    std::vector<std::byte> codes(size((first + n - 1) / 2 - first / 2 + 1));
    PITH_OK(stored.read(first / 2, codes));
    if (first % 2 == 0) {  // more than one piece only if they have an even size
      decode(codes.data(), n / piece, piece, piece / 2, false, values, out);
      return {};
    }
    for (std::int64_t i = 0; i < n; ++i) {
      out[size(i)] = values.decode(int4(codes, i + 1), 0);
    }
    return {};
  }

  static int int4(std::span<const std::byte> codes, std::int64_t i) {
    const int code = static_cast<int>(codes[size(i / 2)] >> (i % 2 == 0 ? 0 : 4)) & 15;
    return code < 8 ? code : code - 16;
  }

  void decode(const std::byte* codes, std::int64_t groups, std::int64_t group,
              std::int64_t stride, bool one, const GroupValues& values,
              std::span<float> out) const {
    kernels::decode_groups({.codes = reinterpret_cast<const std::uint8_t*>(codes),
                            .stride = stride,
                            .packing = scheme().bits == 8 ? kernels::Packing::kInt8
                                                          : kernels::Packing::kInt4,
                            .scales = values.scales.data(),
                            .zero_points = values.zeros(),
                            .one_scale = one,
                            .out = out.data(),
                            .groups = groups,
                            .size = group,
                            .last = group});
  }
};

// Values, or codes, of those elements whose bit in the mask is set; all others are 0.
class SparseWeight : public PithTensor {
 public:
  using PithTensor::PithTensor;

  // A code of 0 stands for the value 0 only in a symmetric scheme.
  Result<std::optional<StoredCodes>> read_codes() const override {
    if (!record().scheme || !scheme().symmetric || scheme().layout == Layout::kBlocks) {
      return std::optional<StoredCodes>();
    }
    PITH_TRY(StoredCodes stored, read_scales_and_zeros());
    const std::int64_t cols = shape().cols();
    const std::int64_t step = rows_at_a_time(cols);
    for (std::int64_t first = 0; first < shape().rows(); first += step) {
      PITH_OK(scatter(first, std::min(step, shape().rows() - first),
                      stored.tensor.codes.bytes()));
    }
    return std::optional(std::move(stored));
  }

 private:
  // Puts the codes that are kept in their places among those of the dense tensor.
  Status scatter(std::int64_t first, std::int64_t rows, std::span<std::byte> out) const {
    const std::int64_t cols = shape().cols();
    const std::int64_t mask_bytes = cols / 8 + (cols % 8 != 0);
    std::vector<std::byte> mask(size(rows * mask_bytes));
    PITH_OK(required(PartRole::kMask).read(first * mask_bytes, mask));
    PITH_TRY(const std::vector<std::int64_t> offsets, read_offsets(first, rows, mask));
    std::vector<float> kept(size(offsets.back() - offsets.front()));
    PITH_OK(read_codes(offsets.front(), kept));
    const bool flat = scheme().group == Group::kFlatBlock;
    std::size_t next = 0;
    for (std::int64_t r = 0; r < rows; ++r) {
      // Rows of 4-bit codes begin a byte, but for flat blocks.
      const std::int64_t begin =
          (first + r) * (scheme().bits == 8 || flat ? cols : cols + cols % 2);
      for (std::int64_t c = 0; c < cols; ++c) {
        const std::byte byte = mask[size(r * mask_bytes + c / 8)];
        if (((byte >> (c % 8)) & std::byte{1}) == std::byte{0}) continue;
        const auto code = static_cast<std::byte>(static_cast<int>(kept[next++]));
        const std::int64_t i = begin + c;
        if (scheme().bits == 8) {
          out[size(i)] = code;
        } else {
          out[size(i / 2)] |= (code & std::byte{15}) << (i % 2 == 0 ? 0 : 4);
        }
      }
    }
    return {};
  }

  Status read_values(std::int64_t first, std::int64_t rows,
                     std::span<float> out) const override {
    const std::int64_t cols = shape().cols();
    const std::int64_t step = rows_at_a_time(cols);
    for (std::int64_t done = 0; done < rows; done += step) {
      const std::int64_t n = std::min(step, rows - done);
      PITH_OK(read_some(first + done, n, out.subspan(size(done * cols), size(n * cols))));
    }
    return {};
  }

  Status read_some(std::int64_t first, std::int64_t rows, std::span<float> out) const {
    const std::int64_t cols = shape().cols();
    const std::int64_t mask_bytes = cols / 8 + (cols % 8 != 0);
    std::vector<std::byte> mask(size(rows * mask_bytes));
    PITH_OK(required(PartRole::kMask).read(first * mask_bytes, mask));
    PITH_TRY(const std::vector<std::int64_t> offsets, read_offsets(first, rows, mask));
    std::vector<float> kept(size(offsets.back() - offsets.front()));
    PITH_OK(record().scheme
                ? read_codes(offsets.front(), kept)
                : required(PartRole::kValues).read_floats(offsets.front(), kept));
    GroupValues groups;
    std::int64_t group_first = 0;
    if (record().scheme && !kept.empty()) {
      group_first = group_of(first, 0);
      PITH_OK(read_groups(
          group_first, group_of(first + rows - 1, cols - 1) - group_first + 1, groups));
    }
    std::size_t next = 0;
    for (std::int64_t r = 0; r < rows; ++r) {
      for (std::int64_t c = 0; c < cols; ++c) {
        const std::byte byte = mask[size(r * mask_bytes + c / 8)];
        const bool set = ((byte >> (c % 8)) & std::byte{1}) != std::byte{0};
        float value = set ? kept[next++] : 0.0F;
        if (set && record().scheme) {
          value = groups.decode(static_cast<int>(value),
                                size(group_of(first + r, c) - group_first));
        }
        out[size(r * cols + c)] = value;
      }
    }
    return {};
  }

  // Where the values of rows begin, and where those of the last one end. The bits of the
  // mask must tell the same.
  Result<std::vector<std::int64_t>> read_offsets(std::int64_t first, std::int64_t rows,
                                                 std::span<const std::byte> mask) const {
    const StoredTensor stored = required(PartRole::kRowOffsets);
    std::vector<std::int64_t> offsets(size(rows + 1));
    const bool last = first + rows == shape().rows();
    PITH_OK(stored.read(
        first * 8, std::as_writable_bytes(std::span(offsets).first(size(rows + !last)))));
    if (last) offsets.back() = record().kept;
    const std::size_t mask_bytes = mask.size() / size(rows);
    const auto unused = static_cast<unsigned>(mask_bytes * 8 - size(shape().cols()));
    for (std::int64_t r = 0; r < rows; ++r) {
      const std::span<const std::byte> bits =
          mask.subspan(size(r) * mask_bytes, mask_bytes);
      const std::int64_t count = count_bits(bits);
      if (unused > 0 && std::to_integer<unsigned>(bits.back()) >> (8 - unused) != 0) {
        return required(PartRole::kMask)
            .corrupt(fmt::format("row {} has bits beyond its last column", first + r));
      }
      const std::int64_t begin = offsets[size(r)];
      const std::int64_t end = offsets[size(r) + 1];
      if (begin < 0 || end > record().kept || end - begin != count ||
          (first + r == 0 && begin != 0)) {
        return stored.corrupt(
            fmt::format("values {} to {} belong to row {}, but its mask has {} bits",
                        begin, end, first + r, count));
      }
    }
    return offsets;
  }

  Status read_codes(std::int64_t first, std::span<float> out) const {
    const StoredTensor stored = required(PartRole::kCodes);
    if (scheme().bits == 8 || out.empty()) return stored.read_floats(first, out);
    const std::int64_t end = first + static_cast<std::int64_t>(out.size());
    std::vector<std::byte> bytes(size((end - 1) / 2 - first / 2 + 1));
    PITH_OK(stored.read(first / 2, bytes));
    for (std::size_t i = 0; i < out.size(); ++i) {
      const std::size_t at = size(first % 2) + i;
      const int code = static_cast<int>(bytes[at / 2] >> (at % 2 == 0 ? 0 : 4)) & 15;
      out[i] = static_cast<float>(code < 8 ? code : code - 16);
    }
    return {};
  }

  [[nodiscard]] std::int64_t group_of(std::int64_t row, std::int64_t col) const {
    const std::int64_t cols = shape().cols();
    switch (scheme().group) {
      case Group::kTensor:
        return 0;
      case Group::kRow:
        return row;
      case Group::kBlock:
        return row * (cols / scheme().block_size) + col / scheme().block_size;
      case Group::kFlatBlock:
        break;
    }
    return (row * cols + col) / scheme().block_size;
  }
};

std::shared_ptr<const DenseTensor> make_values(const Checkpoint& checkpoint,
                                               const TensorRecord& record) {
  const bool factors = record.part(PartRole::kColumnScale) != nullptr;
  if (record.kind == StoredKind::kQuantized) {
    return std::make_shared<QuantizedWeight>(record.scheme->to_string(), checkpoint,
                                             record);
  }
  if (record.kind == StoredKind::kSparse) {
    const std::string of = record.scheme ? record.scheme->to_string()
                                         : std::string(to_string(*record.dtype));
    return std::make_shared<SparseWeight>("sparse " + of, checkpoint, record);
  }
  if (!factors) return nullptr;  // passed through
  return std::make_shared<PlainTensor>(
      fmt::format("{} columns", to_string(*record.dtype)), checkpoint, record);
}

// Plain values that have to be decoded here must be of a type that can be.
Status check_decodable(const TensorRecord& record) {
  if (!record.dtype || is_decodable(*record.dtype)) return {};
  if (record.kind != StoredKind::kSparse &&
      record.part(PartRole::kColumnScale) == nullptr) {
    return {};
  }
  return Status::unsupported(
      fmt::format("manifest: tensor '{}': values of type {} cannot be decoded",
                  printable(record.name), to_string(*record.dtype)));
}

}  // namespace

Result<DenseView> view_pith(const Checkpoint& checkpoint) {
  const std::string file = printable(checkpoint.files().front().native(), 160);
  const Result<FoundManifests> found = find_manifests(checkpoint);
  if (!found) return found.error().with_context(file);
  const std::vector<Manifest>& manifests = found->manifests;
  DenseView view;
  if (manifests.empty()) return view;
  if (const Status s = check_manifests(manifests, checkpoint.tensors(), found->array);
      !s.ok()) {
    return s.with_context(file);
  }
  if (found->array) view.hidden.push_back(*found->array);
  if (manifests.front().convention != Convention::kPith) return view;
  std::unordered_map<std::string_view, std::size_t> places;  // in view.tensors
  for (const Manifest& manifest : manifests) {
    for (const TensorRecord& record : manifest.tensors) {
      if (record.parts.empty()) continue;
      if (const Status s = check_decodable(record); !s.ok()) return s.with_context(file);
      DecodedTensor tensor;
      tensor.name = record.name;
      tensor.shape = record.shape;
      for (const StoredPart& part : record.parts) {
        tensor.parts.push_back(*checkpoint.find(part.name));
      }
      tensor.values = make_values(checkpoint, record);
      places.emplace(record.name, view.tensors.size());
      view.tensors.push_back(std::move(tensor));
    }
  }
  for (const Manifest& manifest : manifests) {
    for (const TensorRecord& record : manifest.tensors) {
      if (record.kind != StoredKind::kAlias) continue;
      DecodedTensor tensor = view.tensors[places.at(record.alias_of)];
      tensor.name = record.name;
      view.tensors.push_back(std::move(tensor));
    }
  }
  return view;
}

}  // namespace pith
