// What the readers of compressed checkpoints share (dense.cc puts them together).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "pith/base/result.h"
#include "pith/io/checkpoint.h"
#include "pith/quantize/dense.h"
#include "src/quantize/mapped_codes.h"

namespace pith {

/// A tensor of the checkpoint as it is stored. Cheap to copy; the checkpoint must outlive
/// it.
class StoredTensor {
 public:
  StoredTensor(const Checkpoint& checkpoint, std::size_t index)
      : checkpoint_(&checkpoint), index_(index) {}

  [[nodiscard]] std::size_t index() const { return index_; }
  [[nodiscard]] const TensorInfo& info() const { return checkpoint_->tensors()[index_]; }
  [[nodiscard]] bool is(DType dtype) const { return info().encoding.dtype == dtype; }

  Status read(std::int64_t offset, std::span<std::byte> out) const {
    return checkpoint_->read_bytes(index_, offset, out);
  }
  /// Its bytes without a copy, or nothing if they do not lie in one piece in a file.
  [[nodiscard]] Result<std::optional<MappedFile>> map() const;
  /// Elements from `first` on of a tensor of plain numbers, as f32.
  Status read_floats(std::int64_t first, std::span<float> out) const;

  /// kCorrupt `FILE: tensor 'NAME': why`.
  [[nodiscard]] Status corrupt(std::string_view why) const;

 private:
  const Checkpoint* checkpoint_;
  std::size_t index_;
};

/// The tensor of that name, or nothing.
std::optional<StoredTensor> find_stored(const Checkpoint& checkpoint,
                                        std::string_view name);

/// The values of one tensor, decoded from its parts. Thread-safe.
class DenseTensor {
 public:
  explicit DenseTensor(std::string label) : label_(std::move(label)) {}
  virtual ~DenseTensor() = default;
  DenseTensor(const DenseTensor&) = delete;
  DenseTensor& operator=(const DenseTensor&) = delete;

  /// The name of the scheme: "int4 group(128)".
  [[nodiscard]] const std::string& label() const { return label_; }
  /// Rows as Checkpoint::read_rows has them; the arguments fit.
  virtual Status read_rows(std::int64_t first, std::int64_t rows,
                           std::span<float> out) const = 0;
  /// The codes, if it is made of integers that a Scheme describes.
  virtual Result<std::optional<StoredCodes>> read_codes() const {
    return std::optional<StoredCodes>();
  }
  /// See mapped_codes.h.
  virtual Result<std::optional<MappedCodes>> map_codes() const {
    return std::optional<MappedCodes>();
  }

 private:
  std::string label_;
};

/// A tensor of the result that is decoded from parts.
struct DecodedTensor {
  std::string name;
  Shape shape;
  std::vector<std::size_t>
      parts;  ///< tensors of the checkpoint; the first gives its place
  std::shared_ptr<const DenseTensor> values;  ///< null if it is the first part under
                                              ///< another name
};

/// What a reader has found in a checkpoint.
struct DenseView {
  std::vector<DecodedTensor> tensors;
  std::vector<std::size_t> hidden;  ///< tensors that are no part of the dense model
  std::vector<std::string> warnings;
};

/// Pith's own convention, if `__metadata__` has its manifest; else nothing is found.
Result<DenseView> view_pith(const Checkpoint& checkpoint);
/// compressed-tensors. `config` is the text of config.json, `config_name` its file.
Result<DenseView> view_compressed_tensors(const Checkpoint& checkpoint,
                                          std::string_view config,
                                          std::string_view config_name);
/// bitsandbytes, by the names of its tensors.
Result<DenseView> view_bitsandbytes(const Checkpoint& checkpoint);

/// Rows of `cols` values that are decoded at a time: at least one, and about 64 Ki values.
std::int64_t rows_at_a_time(std::int64_t cols);

}  // namespace pith
