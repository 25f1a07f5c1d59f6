// Compressed checkpoints read as if they were dense.
//
//   PITH_TRY(std::unique_ptr<pith::Checkpoint> model, pith::open_dense("Llama-W4A16"));
//   for (const pith::TensorInfo& t : model->tensors()) use(t.name, t.shape);
//   PITH_OK(model->read_rows(0, 0, 16, rows));   // f32, whatever is stored
//
// Codes, scales, masks and the like become the one tensor they stand for, under its own
// name; all other tensors pass through as they are. Known are
//   - Pith's own files (docs/formats/pith.md): all schemes, sparse tensors, aliases;
//   - folders of compressed-tensors: int-quantized, pack-quantized (4 and 8 bits),
//     float-quantized and naive-quantized; by tensor, channel, group or block; symmetric or
//     with zero points; weight_g_idx;
//   - bitsandbytes: NF4 and FP4 (also nested), and the 8-bit weights of LLM.int8.
// Anything else Checkpoint::open reads is given as it is. Values are computed in f32,
// (code - zero point) * scale, each product rounded once.
//
// Rows are decoded when they are read: memory does not grow with the tensors.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <vector>

#include "pith/base/result.h"
#include "pith/io/checkpoint.h"
#include "pith/quantize/quantize.h"

namespace pith {

/// Opens a file or folder as Checkpoint::open does, and reads through its compression.
///
/// In the result, TensorInfo of a decoded tensor has the name of its scheme as encoding,
/// the shape and name of what it stands for, and the bytes of all its parts; read_bytes
/// is kUnsupported for it. read_rows is kCorrupt if a scale is not finite (for
/// compressed-tensors: not above 0) or the parts contradict each other.
///
/// Fails as Checkpoint::open does; kCorrupt if parts are missing, or their types and shapes
/// do not fit; kUnsupported for a quantization method that is not read: the message names
/// it.
Result<std::unique_ptr<Checkpoint>> open_dense(const std::filesystem::path& path);

/// A tensor of a compressed checkpoint as the codes that are stored.
struct StoredCodes {
  QuantizedTensor tensor;  ///< those of a sparse tensor filled up with zeros
  /// What columns are multiplied by after decoding; empty: nothing.
  std::vector<float> column_scale;
};

/// The codes of a tensor of a checkpoint that open_dense opened, or nothing if it is not
/// stored as integer codes that a Scheme describes (plain numbers, floating-point codes,
/// columns out of order, blocks of several rows). GGUF's Q8_0 and Q4_0 are such codes.
/// kCorrupt as read_rows.
Result<std::optional<StoredCodes>> read_codes(const Checkpoint& model,
                                              std::size_t tensor);

}  // namespace pith
