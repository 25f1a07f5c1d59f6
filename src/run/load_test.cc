// Layers loaded by name from files that are made here.
#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "pith/io/writer.h"
#include "pith/quantize/dense.h"
#include "pith/run/linear.h"
#include "src/io/ggml_blocks.h"
#include "src/quantize/manifest.h"
#include "tests/support/safetensors_builder.h"
#include "tests/support/samples.h"
#include "tests/support/temp_folder.h"
#include "tests/support/values.h"

namespace pith {
namespace {

using testing::normal_values;

using testing::ByteBuilder;
using testing::SafetensorsBuilder;
using testing::TempFolder;

constexpr std::int64_t kOutputs = 10;
constexpr std::int64_t kInputs = 64;

Shape matrix() { return Shape::make({kOutputs, kInputs}).value(); }

QuantizedTensor quantized(const Scheme& scheme) {
  const std::vector<float> w = normal_values(kOutputs * kInputs, 1);
  return quantize(TensorView::of(w, matrix(), "w").value(), scheme).value();
}

std::vector<float> forward(Linear layer) {
  const std::vector<float> x = normal_values(2 * layer.inputs(), 2);
  std::vector<float> y(static_cast<std::size_t>(2 * layer.outputs()));
  EXPECT_TRUE(layer.forward(x, 2, y).ok());
  return y;
}

ByteBuilder bytes(std::span<const std::byte> data) {
  ByteBuilder out;
  out.text(std::string_view(reinterpret_cast<const char*>(data.data()), data.size()));
  return out;
}

ByteBuilder floats(const std::vector<float>& values) {
  return bytes(std::as_bytes(std::span(values)));
}

// Codes of int8 that are not 0, as a sparse tensor has them.
struct SparseParts {
  explicit SparseParts(const QuantizedTensor& tensor) {
    const auto codes = tensor.codes.as<std::int8_t>();
    const std::int64_t cols = tensor.shape.cols();
    for (std::int64_t r = 0; r < tensor.shape.rows(); ++r) {
      offsets.u64(static_cast<std::uint64_t>(count));
      for (std::int64_t c = 0; c < cols; c += 8) {
        int bits = 0;
        for (std::int64_t k = 0; k < 8; ++k) {
          const std::int8_t code = codes[static_cast<std::size_t>(r * cols + c + k)];
          if (code == 0) continue;
          bits |= 1 << k;
          kept.u8(static_cast<std::uint8_t>(code));
          ++count;
        }
        mask.u8(static_cast<std::uint8_t>(bits));
      }
    }
  }

  std::int64_t count = 0;
  ByteBuilder kept, mask, offsets;
};

// A file of Pith's convention with the weight `w.weight`, and factors if there are any.
std::filesystem::path write_pith(const TempFolder& folder, const QuantizedTensor& tensor,
                                 const std::vector<float>& factors,
                                 const std::vector<float>& bias, bool sparse = false) {
  TensorRecord record;
  record.name = "w.weight";
  record.kind = sparse ? StoredKind::kSparse : StoredKind::kQuantized;
  record.source = "F32";
  record.shape = tensor.shape;
  record.scheme = tensor.scheme;
  std::optional<SparseParts> parts;
  if (sparse) {
    parts.emplace(tensor);
    record.kept = parts->count;
  }
  SafetensorsBuilder file;
  const auto add = [&](const PartLayout& layout, ByteBuilder data) {
    const std::string name = record.name + std::string(part_suffix(layout.role));
    record.parts.push_back({layout.role, name, std::nullopt});
    const auto extents = layout.shape.extents();
    const char* type = layout.dtype == DType::kI8    ? "I8"
                       : layout.dtype == DType::kU8  ? "U8"
                       : layout.dtype == DType::kF16 ? "F16"
                       : layout.dtype == DType::kI64 ? "I64"
                                                     : "F32";
    file.add(name, type, {extents.begin(), extents.end()}, std::move(data));
  };
  const std::vector<PartLayout> layouts = required_parts(record).value();
  for (const PartLayout& layout : layouts) {
    switch (layout.role) {
      case PartRole::kMask:
        add(layout, parts->mask);
        break;
      case PartRole::kRowOffsets:
        add(layout, parts->offsets);
        break;
      case PartRole::kCodes:
        add(layout, sparse ? parts->kept : bytes(tensor.codes.bytes()));
        break;
      default:
        add(layout, bytes(tensor.scales.bytes()));
    }
  }
  if (!factors.empty()) add(column_scale_layout(record).value(), floats(factors));
  Manifest manifest;
  manifest.tensors = {record};
  if (!bias.empty()) {
    TensorRecord kept;
    kept.name = "w.bias";
    kept.source = "F32";
    kept.shape = Shape::make({kOutputs}).value();
    kept.dtype = DType::kF32;
    kept.parts = {{PartRole::kValues, "w.bias", {}}};
    manifest.tensors.push_back(kept);
    file.add("w.bias", "F32", {kOutputs}, floats(bias));
  }
  file.metadata("format", "pt");
  file.metadata("pith", manifest_to_json(manifest).value());
  return folder.write("m.safetensors", file.str());
}

TEST(LinearLoad, FilesOfPithGiveTheLayerOfTheirCodes) {
  const std::vector<float> bias = normal_values(kOutputs, 3);
  const std::vector<float> factors(static_cast<std::size_t>(kInputs), 0.25f);
  for (const Scheme& scheme :
       {Scheme::int8_tensor(), Scheme::int8_rows(), Scheme::int8_blocks(32),
        Scheme::int8_flat_blocks(16), Scheme::int4_tensor(), Scheme::int4_blocks(32),
        Scheme::q8_0(), Scheme::q4_0()}) {
    const QuantizedTensor tensor = quantized(scheme);
    const TempFolder folder;
    const auto path = write_pith(folder, tensor, factors, bias);
    const auto layer = Linear::load(path, "w");
    ASSERT_TRUE(layer) << layer.error().message();
    EXPECT_EQ(layer->scheme(), scheme);
    EXPECT_FALSE(layer->decoded());
    const std::vector<float> y =
        forward(Linear::make(tensor, bias, {.input_scale = factors}).value());
    EXPECT_EQ(forward(*layer), y);
    const auto mapped = Linear::load(path, "w", {.in_place = true});
    ASSERT_TRUE(mapped) << mapped.error().message();
    EXPECT_TRUE(mapped->in_place());
    EXPECT_LT(mapped->packed_bytes(), layer->packed_bytes() / 2);
    EXPECT_EQ(forward(*mapped), y);
    EXPECT_FALSE(Linear::load(path, "w.weight", {.input_scale = factors}));
    const auto missing = Linear::load(path, "v");
    ASSERT_FALSE(missing);
    EXPECT_EQ(missing.error().code(), StatusCode::kNotFound);
  }
}

TEST(LinearLoad, GgufBlocksGiveTheLayerOfTheirCodes) {
  for (const Scheme& scheme : {Scheme::q8_0(), Scheme::q4_0()}) {
    const QuantizedTensor tensor = quantized(scheme);
    const TempFolder folder;
    CheckpointLayout layout;
    layout.format = Format::kGguf;
    TensorSpec spec;
    spec.name = "blk.0.ffn_up.weight";
    spec.encoding = find_ggml_type(scheme.bits == 8 ? "Q8_0" : "Q4_0")->encoding;
    spec.shape = matrix();
    layout.tensors = {spec};
    const auto path = folder / "m.gguf";
    auto writer = CheckpointWriter::create(path, layout).value();
    ASSERT_TRUE(writer->write(0, 0, tensor.codes.bytes()).ok());
    ASSERT_TRUE(writer->commit().ok());
    const auto layer = Linear::load(path, "blk.0.ffn_up");
    ASSERT_TRUE(layer) << layer.error().message();
    EXPECT_EQ(layer->scheme(), scheme);
    const std::vector<float> y = forward(Linear::make(tensor).value());
    EXPECT_EQ(forward(*layer), y);
    const auto mapped = Linear::load(path, "blk.0.ffn_up", {.in_place = true});
    ASSERT_TRUE(mapped) << mapped.error().message();
    EXPECT_EQ(mapped->packed_bytes(), 0);
    std::filesystem::remove(path);  // what is mapped stays
    EXPECT_EQ(forward(*mapped), y);
  }
}

// Two of four codes are 0 (2:4), or any: the file has the others only, the layer all.
TEST(LinearLoad, SparseCodesAreFilledUpWithZeros) {
  std::mt19937 random(5);
  for (const Scheme& scheme :
       {Scheme::int8_tensor(), Scheme::int8_rows(), Scheme::int8_blocks(32)}) {
    for (const bool two_of_four : {true, false}) {
      QuantizedTensor tensor = quantized(scheme);
      const auto codes = tensor.codes.as<std::int8_t>();
      for (std::size_t i = 0; i < codes.size(); ++i) {
        if (two_of_four ? i % 4 == 1 || i % 4 == 2 : random() % 3 == 0) codes[i] = 0;
      }
      const TempFolder folder;
      const auto path = write_pith(folder, tensor, {}, {}, true);
      const std::vector<float> y = forward(Linear::make(tensor).value());
      for (const bool in_place : {false, true}) {
        const auto layer = Linear::load(path, "w", {.in_place = in_place});
        ASSERT_TRUE(layer) << layer.error().message();
        EXPECT_EQ(layer->scheme(), scheme);
        EXPECT_FALSE(layer->decoded());
        EXPECT_EQ(forward(*layer), y) << scheme.to_string();
      }
    }
  }
}

TEST(LinearLoad, ScalesInsideMappedBlocksAreChecked) {
  QuantizedTensor tensor = quantized(Scheme::q8_0());
  const std::uint16_t infinite = 0x7c00;
  std::memcpy(tensor.codes.data() + 3 * 34, &infinite, sizeof(infinite));
  const TempFolder folder;
  const auto path = write_pith(folder, tensor, {}, {});
  for (const bool in_place : {false, true}) {
    const auto layer = Linear::load(path, "w", {.in_place = in_place});
    ASSERT_FALSE(layer);
    EXPECT_EQ(layer.error().code(), StatusCode::kCorrupt);
    EXPECT_NE(layer.error().message().find("the scale of block 3 is not finite"),
              std::string::npos);
  }
}

TEST(LinearLoad, PlainNumbersStayFloats) {
  const TempFolder folder;
  SafetensorsBuilder file;
  const std::vector<float> w = normal_values(kOutputs * kInputs, 1);
  file.add("w.weight", "F32", {kOutputs, kInputs}, floats(w));
  file.add("v.weight", "F32", {kInputs}, floats(normal_values(kInputs, 4)));
  file.add("u.weight", "F32", {kOutputs, kInputs}, floats(w));
  file.add("u.bias", "F32", {3}, floats({1, 2, 3}));
  const auto path = folder.write("m.safetensors", file.str());
  const auto layer = Linear::load(path, "w");
  ASSERT_TRUE(layer) << layer.error().message();
  EXPECT_TRUE(layer->decoded());
  EXPECT_FALSE(layer->scheme());
  EXPECT_EQ(forward(*layer),
            forward(Linear::make(TensorView::of(w, matrix(), "w").value()).value()));
  EXPECT_EQ(Linear::load(path, "v").error().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(Linear::load(path, "u").error().code(), StatusCode::kCorrupt);
}

// Samples of others: the layer computes what the decoded weights do.
TEST(LinearLoad, SamplesOfCompressedTensorsComputeAsDecoded) {
  const std::filesystem::path samples = testing::samples_folder();
  if (samples.empty()) GTEST_SKIP() << "there is no folder of samples";
  int layers = 0;
  for (const char* name :
       {"ok_w4a16_g128_pack", "ok_w4a16_g128_asym", "ok_w8a8_int_quantized"}) {
    const auto model = open_dense(samples / "compressed_tensors" / name);
    ASSERT_TRUE(model) << model.error().message();
    for (std::size_t i = 0; i < (*model)->tensors().size(); ++i) {
      const TensorInfo& info = (*model)->tensors()[i];
      if (info.shape.rank() != 2) continue;
      const auto layer =
          Linear::load(**model, info.name, {.activations = Activations::kF32});
      ASSERT_TRUE(layer) << layer.error().message();
      layers += layer->decoded() ? 0 : 1;
      const std::vector<float> w = testing::read_values(**model, i);
      const auto dense = TensorView::of(w, info.shape, info.name).value();
      const std::vector<float> expected = forward(Linear::make(dense).value());
      const std::vector<float> y = forward(*layer);
      for (std::size_t k = 0; k < y.size(); ++k) EXPECT_NEAR(y[k], expected[k], 1e-3);
    }
  }
  EXPECT_GE(layers, 3);
}

}  // namespace
}  // namespace pith
