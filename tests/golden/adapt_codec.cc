// blockwise.jsonl and topk.jsonl: pith/codec/.
#include <algorithm>
#include <vector>

#include "pith/codec/blockwise.h"
#include "pith/codec/top_k.h"
#include "tests/golden/adapters.h"

namespace pith::golden {
namespace {

Result<Json> blockwise(const Json& inputs) {
  const std::vector<float> data = to_f32s(inputs.at("data"));
  PITH_TRY(BlockwiseCodes codes,
           blockwise_compress(data, {.block_size = to_size(inputs.at("block_size")),
                                     .scales = BlockScales::kF16}));
  std::vector<float> decoded(data.size());
  PITH_OK(blockwise_decompress(codes, decoded));
  const Json shape = inputs.value("shape", Json{data.size()});
  return Json{{"q", integers(codes.codes)},
              {"scales", f16s(codes.scales_f16)},
              {"shape", shape},
              {"block_size", codes.block_size},
              {"size_bytes", codes.size_bytes()},
              {"original_size_bytes", 4 * data.size()},
              {"compression_ratio", f32(codes.compression_ratio())},
              {"decompressed", f32s(decoded)},
              {"decompressed_shape", shape}};
}

Result<Json> blockwise_back(const Json& inputs) {
  const std::vector<std::int8_t> q = to_codes(inputs.at("q"));
  const Json shape = inputs.value("shape", Json{q.size()});
  PITH_TRY(Shape extents, to_shape(shape));
  BlockwiseCodes codes{.block_size = to_size(inputs.at("block_size")),
                       .scale_type = DType::kF16,
                       .codes = q,
                       .scales_f16 = {},
                       .scales_f32 = {}};
  if (inputs.contains("scales")) codes.scales_f16 = to_f16s(inputs.at("scales"));
  std::vector<float> decoded(static_cast<std::size_t>(extents.elements()));
  PITH_OK(blockwise_decompress(codes, decoded));
  return Json{{"decompressed", f32s(decoded)}, {"decompressed_shape", shape}};
}

Result<Json> top_k(const Json& inputs) {
  const std::vector<float> data = to_f32s(inputs.at("data"));
  const float fraction = to_f32(inputs.at("k_fraction"));
  PITH_TRY(TopKValues kept, top_k_compress(data, fraction));
  std::vector<float> decoded(data.size());
  PITH_OK(top_k_decompress(kept, decoded));
  return Json{{"k_fraction", f32(std::min(fraction, 1.0F))},
              {"compressed",
               {{"indices", integers(kept.indices)},
                {"values", f32s(kept.values)},
                {"original_size", kept.elements},
                {"shape", inputs.value("shape", Json{data.size()})}}},
              {"size_bytes", kept.size_bytes()},
              {"original_size_bytes", 4 * kept.elements},
              {"compression_ratio", f32(kept.compression_ratio())},
              {"decompressed", f32s(decoded)}};
}

Result<Json> top_k_back(const Json& inputs) {
  PITH_TRY(Shape shape, to_shape(inputs.at("shape")));
  const TopKValues kept{.elements = to_size(inputs.at("original_size")),
                        .indices = to_extents(inputs.at("indices")),
                        .values = to_f32s(inputs.at("values"))};
  std::vector<float> decoded(static_cast<std::size_t>(shape.elements()));
  PITH_OK(top_k_decompress(kept, decoded));
  return Json{{"decompressed", f32s(decoded)}, {"decompressed_shape", extents_of(shape)}};
}

constexpr AdapterEntry kCodecAdapters[] = {
    {"blockwise_compress", blockwise},
    {"blockwise_decompress", blockwise_back},
    {"topk_compress", top_k},
    {"topk_decompress", top_k_back},
};

}  // namespace

std::span<const AdapterEntry> codec_adapters() { return kCodecAdapters; }

}  // namespace pith::golden
