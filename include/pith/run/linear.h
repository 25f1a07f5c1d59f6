// A linear layer that computes with compressed weights as they are: y = W x + b.
//
//   PITH_TRY(pith::Linear layer, pith::Linear::make(quantized, bias));
//   std::vector<float> y(rows * layer.outputs());
//   PITH_OK(layer.forward(x, rows, y));
//
// Weights are packed once for the kernels (packed_bytes(), pack_seconds() tell what that costs).
// Activations are quantized on the fly; products of codes are summed as exact integers, and what scales
// make of them is added in a fixed order: the bits of y depend neither on the instruction set nor on
// the number of threads nor on how rows are put into batches.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "pith/base/result.h"
#include "pith/io/checkpoint.h"
#include "pith/quantize/quantize.h"
#include "pith/tensor/view.h"

namespace pith {

struct CodesView;

/// How activations enter the product.
enum class Activations : std::uint8_t {
  kInt8Rows,    ///< int8, a scale for each row from its largest magnitude
  kInt8Tensor,  ///< int8, one scale for all rows of a call
  kStatic,      ///< int8, LinearOptions::static_scale; values beyond it saturate
  kInt7Rows,  ///< codes in [-63, 63]: faster where bytes are multiplied in pairs; int8 weights of a
              ///< row or tensor only
  kF32,  ///< not quantized: only weights are codes
};

struct LinearOptions {
  Activations activations = Activations::kInt8Rows;
  float static_scale = 0;  ///< for kStatic: finite and above 0
  /// One per input: x is multiplied by it first. Weights smoothed by factors (smooth.h)
  /// need 1 / factor here. Empty: none.
  std::span<const float> input_scale = {};
  /// Codes stay where they are, in memory or in the mapped file, and every call packs what it
  /// needs of them, piece by piece: no memory for weights and nothing to wait for before the
  /// first call, but a single row takes twice as long or more; large batches lose little.
  bool in_place = false;
};

class Linear {
 public:
  /// Packs a matrix of codes [outputs, inputs] of any scheme; `bias` is empty or has one
  /// value per output. A copy of a layer shares the weights. Schemes that no kernel takes
  /// (int8 with zero points, blocks that cross rows or are no multiple of 4, for int4 of
  /// 32) are decoded to f32, and activations stay f32. With in_place `weight` must outlive
  /// the layer and its copies.
  ///
  /// kInvalidArgument if the weight is no matrix, sizes differ or an option is out of its range;
  /// kUnsupported if the scheme cannot have these activations (int7 with blocks).
  static Result<Linear> make(const QuantizedTensor& weight,
                             std::span<const float> bias = {},
                             const LinearOptions& options = {});
  /// The same for weights that are not compressed (f32, f16 or bf16): what other layers
  /// are measured against. Activations stay f32.
  static Result<Linear> make(TensorView weight, std::span<const float> bias = {},
                             const LinearOptions& options = {});

  /// Loads the weight `name` of a checkpoint: codes as Pith, compressed-tensors or
  /// llama.cpp (Q8_0, Q4_0) stored them, anything else decoded. Without ".weight" at its
  /// end the name may be that of the module. If there is a tensor with ".bias" in place of
  /// ".weight", it is the bias. Factors of columns that the file has become input_scale.
  /// Sparse codes are filled up with zeros: no kernel profits from them.
  ///
  /// Codes that Pith or llama.cpp wrote are mapped and packed from there: no memory but the
  /// packed weights is needed. The mapping ends with this call; with in_place it lasts as long
  /// as the layer. A file must not shrink while it is mapped: reading beyond its end is a
  /// signal (SIGBUS). Other codes are read, and in_place has no effect on them. `model` is
  /// best opened by open_dense (dense.h), which tells codes from plain numbers; the layer
  /// does not need it any more.
  ///
  /// kNotFound if there is no such tensor; kInvalidArgument if the options give an
  /// input_scale and the file too; kCorrupt if a scale is not finite; else fails as reading
  /// and make() do.
  static Result<Linear> load(const Checkpoint& model, std::string_view name,
                             const LinearOptions& options = {});
  static Result<Linear> load(const std::filesystem::path& path, std::string_view name,
                             const LinearOptions& options = {});

  [[nodiscard]] std::int64_t inputs() const;
  [[nodiscard]] std::int64_t outputs() const;
  /// Of the codes; nothing for weights that were no codes.
  [[nodiscard]] const std::optional<Scheme>& scheme() const;
  /// Bytes of the weights in memory; with in_place only of their scales.
  [[nodiscard]] std::int64_t packed_bytes() const;
  /// Time that packing took.
  [[nodiscard]] double pack_seconds() const;

  /// True if the weights are f32: they were, or no kernel takes their scheme.
  [[nodiscard]] bool decoded() const;
  /// True if the codes are used where they are.
  [[nodiscard]] bool in_place() const;

  /// y[r] = W x[r] + b for `rows` rows; x has rows * inputs(), y rows * outputs() values.
  /// Memory is allocated only when `rows` exceeds that of all calls before.
  ///
  /// kInvalidArgument if sizes differ; kNotFinite if x has a NaN or infinity (with its index), unless
  /// activations are f32. Uses the library's threads; a layer serves one caller at a time, copies
  /// of it serve several.
  Status forward(std::span<const float> x, std::int64_t rows, std::span<float> y);
  /// The same for bf16 activations, given by their bits.
  Status forward_bf16(std::span<const std::uint16_t> x, std::int64_t rows,
                      std::span<float> y);

 private:
  struct Weights;
  struct Scratch {
    std::vector<float> converted;  // from bf16
    std::vector<float> scaled;     // by input_scale
    std::vector<std::int8_t> codes;
    std::vector<float> scales;
    std::vector<std::byte> tiles;
    std::vector<std::byte> panels;  // in place
  };
  Linear() = default;
  // From codes that `owner` keeps alive, if they are used in place.
  static Result<Linear> make(const CodesView& weight, std::shared_ptr<const void> owner,
                             std::span<const float> bias, const LinearOptions& options);
  Status quantize_input(std::span<const float> x, std::int64_t rows);

  std::shared_ptr<const Weights> weights_;
  Scratch scratch_;
};

}  // namespace pith
