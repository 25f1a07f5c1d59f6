// What the engines that run GGUF files expect beyond the format itself.
#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "pith/io/gguf.h"
#include "pith/io/writer.h"

namespace pith {

/// True for tensors that engines want in f32 whatever the type of the others: vectors,
/// norms, positions, and the small matrices of state-space and mixture-of-experts layers.
[[nodiscard]] bool gguf_wants_f32(std::string_view name, const Shape& shape);

/// Puts tensors in the usual order: those outside of layers ("blk.N.") first, then layer
/// by layer, each group by name.
void sort_for_gguf(std::vector<TensorSpec>& tensors);

/// `general.file_type` for a file of these tensors: the type of most of their elements;
/// none if it has no number.
[[nodiscard]] std::optional<std::uint32_t> gguf_file_type(
    std::span<const TensorSpec> tensors);

/// Keys of a source for a file of these tensors: in order, without those of split files;
/// `general.quantization_version` and `general.file_type` at the end.
[[nodiscard]] std::vector<GgufKey> gguf_keys_for(std::span<const GgufKey> source,
                                                 std::span<const TensorSpec> tensors);

}  // namespace pith
