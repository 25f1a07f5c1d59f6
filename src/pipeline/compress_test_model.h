// Checkpoints of random weights for tests, and how they are compressed.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "pith/io/writer.h"
#include "pith/pipeline/compress.h"
#include "pith/quantize/convert.h"

namespace pith {

struct Tensor {
  std::string name;
  std::vector<std::int64_t> shape;
  DType dtype = DType::kF32;
};

inline std::vector<float> random_values(std::int64_t n, unsigned seed) {
  std::mt19937 source(seed);
  std::normal_distribution<float> normal(0, 0.05f);
  std::vector<float> values(static_cast<std::size_t>(n));
  for (float& value : values) value = normal(source);
  return values;
}

inline std::vector<std::byte> bytes_as(const std::vector<float>& values, DType dtype) {
  const auto n = static_cast<std::int64_t>(values.size());
  std::vector<std::byte> bytes(static_cast<std::size_t>(n * bits_of(dtype) / 8));
  const Shape shape = Shape::make({n}).value();
  const TensorView view = TensorView::of(values, shape).value();
  EXPECT_TRUE(convert(view, dtype, bytes));
  return bytes;
}

inline void write_model(const std::filesystem::path& path,
                        const std::vector<Tensor>& tensors,
                        Format format = Format::kSafetensors) {
  CheckpointLayout layout;
  layout.format = format;
  for (const Tensor& t : tensors) {
    layout.tensors.push_back(
        TensorSpec::plain(t.name, t.dtype, Shape::make(t.shape).value()));
  }
  auto writer =
      CheckpointWriter::create(path, layout, {.overwrite = true, .sync = false});
  ASSERT_TRUE(writer) << writer.error().message();
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const std::int64_t n = layout.tensors[i].shape.elements();
    const std::vector<std::byte> bytes =
        bytes_as(random_values(n, static_cast<unsigned>(i + 1)), tensors[i].dtype);
    ASSERT_TRUE((*writer)->write(i, 0, bytes).ok());
  }
  const Status done = (*writer)->commit();
  ASSERT_TRUE(done.ok()) << done.message();
}

inline std::vector<Tensor> small_model() {
  return {{"model.embed_tokens.weight", {40, 64}},
          {"model.layers.0.mlp.up.weight", {2100, 256}},  // more than one piece
          {"model.layers.0.mlp.down.weight", {64, 96}, DType::kBF16},
          {"model.layers.0.attn.weight", {64, 64}, DType::kF16},
          {"model.norm.weight", {64}},
          {"model.empty.weight", {0, 64}}};
}

inline CompressOptions options_of(const std::string& quantize,
                                  const std::string& prune = "") {
  RecipeFlags flags;
  flags.quantize = quantize;
  flags.prune = prune;
  CompressOptions options;
  options.recipe = recipe_from_flags(flags).value();
  options.sync = false;
  options.overwrite = true;
  return options;
}

}  // namespace pith
