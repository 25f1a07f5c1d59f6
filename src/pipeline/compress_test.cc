#include "pith/pipeline/compress.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>
#include <limits>
#include <map>

#include "pith/pipeline/pipeline.h"
#include "pith/pipeline/verify.h"
#include "pith/quantize/dense.h"
#include "src/pipeline/compress_test_model.h"
#include "src/quantize/manifest.h"
#include "tests/support/temp_folder.h"
#include "tests/support/values.h"

namespace pith {
namespace {

namespace fs = std::filesystem;
using testing::file_bytes;

std::vector<float> read_tensor(const Checkpoint& checkpoint, const std::string& name) {
  const std::size_t i = checkpoint.find(name).value();
  const Shape& shape = checkpoint.tensors()[i].shape;
  std::vector<float> values(static_cast<std::size_t>(shape.elements()));
  const Status status = checkpoint.read_rows(i, 0, shape.rows(), values);
  EXPECT_TRUE(status.ok()) << status.message();
  return values;
}

// What the stages in memory make of a tensor.
std::vector<float> expected(const Recipe& recipe, const Checkpoint& source,
                            const std::string& name) {
  const std::size_t i = source.find(name).value();
  const TensorHeader header{name, source.tensors()[i].shape};
  std::vector<float> values = read_tensor(source, name);
  const auto choices = recipe.choose({&header, 1}, false);
  if (!choices) return values;  // no rule takes it
  for (const RuleChoice& choice : *choices) {
    if (choice.rule == nullptr || values.empty()) continue;
    for (const StagePtr& stage : choice.rule->stages) {
      const Status status = stage->apply(header, values);
      EXPECT_TRUE(status.ok()) << status.message();
    }
  }
  return values;
}

// Zeros have no sign as codes.
bool same_values(const std::vector<float>& a, const std::vector<float>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end());
}

struct MatrixCase {
  const char* quantize;
  const char* prune;
};

class CompressMatrix : public ::testing::TestWithParam<MatrixCase> {};

// Plans, compresses and reads back.
void expect_plan_and_library(const std::vector<Tensor>& model, const MatrixCase& param,
                             const std::string& name) {
  const testing::TempFolder folder;
  const fs::path input = folder.path() / "in.safetensors";
  write_model(input, model);
  const CompressOptions options = options_of(param.quantize, param.prune);
  const fs::path output = folder.path() / name;
  const Result<Plan> planned = plan(input, output, options);
  ASSERT_TRUE(planned) << planned.error().message();
  const Result<Report> report = compress(input, output, options);
  ASSERT_TRUE(report) << report.error().message();
  EXPECT_EQ(planned->output_bytes, static_cast<std::int64_t>(fs::file_size(output)));
  EXPECT_EQ(report->output.bytes, planned->output_bytes);

  const auto source = Checkpoint::open(input).value();
  const auto dense = open_dense(output);
  ASSERT_TRUE(dense) << dense.error().message();
  ASSERT_EQ((*dense)->tensors().size(), source->tensors().size());
  for (const TensorInfo& info : source->tensors()) {
    EXPECT_TRUE(same_values(read_tensor(**dense, info.name),
                            expected(options.recipe, *source, info.name)))
        << info.name;
  }
  std::int64_t stored = 0;
  for (std::size_t i = 0; i < planned->tensors.size(); ++i) {
    EXPECT_EQ(planned->tensors[i].bytes_after, report->tensors[i].bytes_after);
    stored += planned->tensors[i].bytes_after;
  }
  ASSERT_FALSE(report->stages.empty());
  EXPECT_EQ(report->stages.back().bytes_after, stored);
  const Result<VerifyResult> verified = verify(input, output, {});
  ASSERT_TRUE(verified) << verified.error().message();
  EXPECT_TRUE(verified->problems.empty()) << verified->problems.front();
  EXPECT_GT(verified->figures, 0);
}

TEST_P(CompressMatrix, PlanIsTheFileAndRestoreIsTheLibrary) {
  expect_plan_and_library(small_model(), GetParam(), "out.safetensors");
}

TEST_P(CompressMatrix, TheSameInNpz) {
  const std::string scheme = GetParam().quantize;
  if (scheme == "bf16" || scheme.starts_with("w4a16")) GTEST_SKIP() << "npy has no bf16";
  std::vector<Tensor> model = small_model();
  for (Tensor& tensor : model) {
    if (tensor.dtype == DType::kBF16) tensor.dtype = DType::kF32;
  }
  expect_plan_and_library(model, GetParam(), "out.npz");
}

INSTANTIATE_TEST_SUITE_P(
    All, CompressMatrix,
    ::testing::Values(MatrixCase{"int8", ""}, MatrixCase{"int8-row", ""},
                      MatrixCase{"int8-block32", ""}, MatrixCase{"int8-flat64", ""},
                      MatrixCase{"int8-flat50", ""}, MatrixCase{"int4", ""},
                      MatrixCase{"int4-row", ""}, MatrixCase{"int4-g32", ""},
                      MatrixCase{"w8a8", ""}, MatrixCase{"w4a16-g32", ""},
                      MatrixCase{"q8_0", ""}, MatrixCase{"q4_0", ""},
                      MatrixCase{"fp16", ""}, MatrixCase{"bf16", ""},
                      MatrixCase{"", "0.5"}, MatrixCase{"", "0.9"},
                      MatrixCase{"int8", "0.5"}, MatrixCase{"int8-row", "0.7"},
                      MatrixCase{"int8-block32", "0.8"}, MatrixCase{"int8-flat64", "0.8"},
                      MatrixCase{"int4-g32", "0.8"}, MatrixCase{"int4", "0.91"},
                      MatrixCase{"int4-row", "0.3"}, MatrixCase{"q8_0", "0.5"},
                      MatrixCase{"fp16", "0.8"}),
    [](const auto& param) {
      std::string name = fmt::format("{}_{}", param.param.quantize, param.param.prune);
      for (char& c : name) {
        if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
      }
      return name;
    });

TEST(Compress, EveryStageStreamsAsInMemory) {
  const testing::TempFolder folder;
  const fs::path input = folder.path() / "in.safetensors";
  write_model(input, {{"a.weight", {300, 256}}, {"b.weight", {64, 96}, DType::kBF16}});
  const fs::path output = folder.path() / "out.safetensors";
  for (const char* stages :
       {"{prune: {n_m: 2:4}}, {quantize: int8-row}",
        "{prune: {sparsity: 0.5, importance: random, seed: 3}}, {quantize: int8}",
        "{prune: {sparsity: 0.5, granularity: row}}, {quantize: int4-row}",
        "{prune: {sparsity: 0.5, granularity: column}}, {quantize: int8}",
        "{prune: {sparsity: 0.5, granularity: block, block_cols: 16}}, {convert: f16}",
        "{prune: {sparsity: 0.4, scope: row}}, {quantize: int8-block32}",
        "{clip: 0.3}, {quantize: int8}", "{limit: 0.99}, {quantize: int8}",
        "{clip: 0.2}, {prune: {sparsity: 0.6}}, {quantize: {bits: 8, percentile: 0.99}}",
        "{prune: {sparsity: 0.6}}, {store: sparse}",
        "{prune: {sparsity: 0.6}}, {quantize: int8}, {store: dense}"}) {
    CompressOptions options = options_of("int8");
    const Result<Recipe> recipe = Recipe::parse(
        fmt::format("version: 1\nrules: [{{match: '*', stages: [{}]}}]\n", stages));
    ASSERT_TRUE(recipe) << stages << recipe.error().message();
    options.recipe = *recipe;
    const Result<Plan> planned = plan(input, output, options);
    ASSERT_TRUE(planned) << stages << planned.error().message();
    const Result<Report> report = compress(input, output, options);
    ASSERT_TRUE(report) << stages << report.error().message();
    EXPECT_EQ(planned->output_bytes, static_cast<std::int64_t>(fs::file_size(output)));
    const auto source = Checkpoint::open(input).value();
    const auto dense = open_dense(output).value();
    for (const TensorInfo& info : source->tensors()) {
      EXPECT_TRUE(same_values(read_tensor(*dense, info.name),
                              expected(options.recipe, *source, info.name)))
          << stages << " " << info.name;
    }
  }
}

TEST(Compress, TensorsCompeteAsInMemory) {
  const testing::TempFolder folder;
  const fs::path input = folder.path() / "in.safetensors";
  const fs::path output = folder.path() / "out.safetensors";
  // bf16 has many ties; 'b' is more than one piece.
  write_model(input, {{"a.weight", {30, 32}, DType::kBF16},
                      {"b.weight", {300, 256}, DType::kBF16},
                      {"bias", {32}},
                      {"c.weight", {64, 32}, DType::kBF16}});
  for (const char* sparsity : {"0", "0.001", "0.3", "0.5", "0.77", "0.999"}) {
    SCOPED_TRACE(sparsity);
    CompressOptions options = options_of("int8");
    options.recipe =
        Recipe::parse(fmt::format("version: 1\nrules: [{{match: '*', stages: [{{prune: "
                                  "{{sparsity: {}, scope: global}}}}]}}]\n",
                                  sparsity))
            .value();
    const Result<Report> report = compress(input, output, options);
    ASSERT_TRUE(report) << report.error().message();
    const auto source = Checkpoint::open(input).value();
    const auto dense = open_dense(output).value();
    std::vector<std::vector<float>> values;
    std::vector<PruneTensor> tensors;
    for (const std::string name : {"a.weight", "b.weight", "c.weight"}) {
      values.push_back(read_tensor(*source, name));
    }
    const std::string names[] = {"a.weight", "b.weight", "c.weight"};
    for (std::size_t i = 0; i < 3; ++i) {
      tensors.push_back(
          {names[i], values[i], source->tensors()[*source->find(names[i])].shape});
    }
    PruneOptions prune;
    prune.sparsity = std::stof(sparsity);
    prune.scope = PruneScope::kGlobal;
    ASSERT_TRUE(prune_model(tensors, prune));
    for (std::size_t i = 0; i < 3; ++i) {
      EXPECT_EQ(read_tensor(*dense, names[i]), values[i]) << names[i];
    }
    const Result<VerifyResult> verified = verify(input, output, {});
    ASSERT_TRUE(verified) << verified.error().message();
    EXPECT_TRUE(verified->problems.empty()) << verified->problems.front();
  }
}

TEST(Compress, WhatCannotCompeteIsRefused) {
  const testing::TempFolder folder;
  const fs::path input = folder.path() / "in.safetensors";
  write_model(input, {{"a.weight", {30, 32}}, {"b.weight", {64, 32}}});
  const auto refusal = [&](const std::string& stages) {
    CompressOptions options = options_of("int8");
    options.recipe =
        Recipe::parse("version: 1\nrules: [{match: '*', stages: [" + stages + "]}]\n")
            .value();
    const Result<Report> report =
        compress(input, folder.path() / "out.safetensors", options);
    EXPECT_FALSE(report);
    return report ? "" : report.error().message();
  };
  EXPECT_NE(refusal("{clip: 0.1}, {prune: {sparsity: 0.5, scope: global}}")
                .find("comes after 'clip': put it first"),
            std::string::npos);
  EXPECT_NE(refusal("{prune: {sparsity: 0.5, scope: global, importance: random}}")
                .find("importance random with the scope global"),
            std::string::npos);
  EXPECT_FALSE(fs::exists(folder.path() / "out.safetensors"));
}

TEST(Compress, ShardsStayOneToOne) {
  const testing::TempFolder folder;
  const fs::path input = folder.path() / "in";
  CheckpointLayout layout;
  layout.shards = {"model-00001-of-00002.safetensors",
                   "model-00002-of-00002.safetensors"};
  const Shape shape = Shape::make({8, 64}).value();
  for (std::size_t i = 0; i < 3; ++i) {
    TensorSpec spec = TensorSpec::plain(fmt::format("w{}.weight", i), DType::kF32, shape);
    spec.file = i / 2;
    layout.tensors.push_back(spec);
  }
  auto writer = CheckpointWriter::create(input, layout).value();
  for (std::size_t i = 0; i < 3; ++i) {
    const std::vector<float> values = random_values(512, static_cast<unsigned>(i));
    ASSERT_TRUE(writer->write(i, 0, std::as_bytes(std::span(values))).ok());
  }
  ASSERT_TRUE(writer->commit().ok());
  const fs::path output = folder.path() / "out";
  const CompressOptions options = options_of("int8-row");
  const Plan planned = plan(input, output, options).value();
  const Result<Report> report = compress(input, output, options);
  ASSERT_TRUE(report) << report.error().message();
  // The index counts on both sides, wherever sizes are told.
  const auto bytes_in = [](const fs::path& path) {
    std::int64_t bytes = 0;
    for (const auto& file : fs::directory_iterator(path)) {
      bytes += static_cast<std::int64_t>(file.file_size());
    }
    return bytes;
  };
  EXPECT_EQ(planned.output_bytes, bytes_in(output));
  EXPECT_EQ(planned.input_bytes, bytes_in(input));
  const VerifyResult verified = verify(input, output, {}).value();
  EXPECT_EQ(verified.output_bytes, bytes_in(output));
  EXPECT_EQ(verified.source_bytes, bytes_in(input));
  EXPECT_EQ(report->output.files, 2);
  const auto source = Checkpoint::open(input).value();
  const auto dense = open_dense(output);
  ASSERT_TRUE(dense) << dense.error().message();
  for (const TensorInfo& info : source->tensors()) {
    EXPECT_TRUE(same_values(read_tensor(**dense, info.name),
                            expected(options.recipe, *source, info.name)));
  }
}

TEST(Compress, SparseOnlyWhereItIsSmaller) {
  const testing::TempFolder folder;
  const fs::path input = folder.path() / "in.safetensors";
  write_model(input, {{"w.weight", {64, 256}}});
  EXPECT_EQ(plan(input, {}, options_of("int8-row", "0.05"))->tensors[0].scheme,
            "prune 0.05 l1, int8 row f32");
  EXPECT_EQ(plan(input, {}, options_of("int8-row", "0.5"))->tensors[0].scheme,
            "prune 0.5 l1, int8 row f32, sparse");
}

TEST(Compress, NotFiniteIsRefusedKeptOrZeroed) {
  const testing::TempFolder folder;
  const fs::path input = folder.path() / "in.safetensors";
  const Shape shape = Shape::make({2, 32}).value();
  CheckpointLayout layout;
  layout.tensors.push_back(TensorSpec::plain("w.weight", DType::kF32, shape));
  auto writer = CheckpointWriter::create(input, layout).value();
  std::vector<float> values = random_values(64, 7);
  values[33] = std::numeric_limits<float>::infinity();
  ASSERT_TRUE(writer->write(0, 0, std::as_bytes(std::span(values))).ok());
  ASSERT_TRUE(writer->commit().ok());
  const fs::path output = folder.path() / "out.safetensors";
  for (const char* scheme : {"int8", "int8-row", "q8_0", "fp16"}) {
    CompressOptions options = options_of(scheme);
    const Result<Report> refused = compress(input, output, options);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code(), StatusCode::kNotFinite);
    EXPECT_NE(refused.error().message().find("'w.weight'"), std::string::npos);
    EXPECT_NE(refused.error().message().find("33"), std::string::npos);
    EXPECT_FALSE(fs::exists(output));
    options.non_finite = NonFiniteChoice::kZero;
    // Whatever becomes of it, the report tells, and the figures are of the others.
    const auto expect_told = [&](const Result<Report>& report) {
      ASSERT_TRUE(report) << report.error().message();
      EXPECT_EQ(report->tensors[0].error->non_finite, 1);
      EXPECT_EQ(report->tensors[0].error->count, 63);
      ASSERT_EQ(report->warnings.size(), 1u);
      EXPECT_TRUE(report->warnings[0].starts_with("w.weight: 1 of its values"));
      const Result<VerifyResult> verified = verify(input, output, {});
      ASSERT_TRUE(verified);
      EXPECT_TRUE(verified->problems.empty()) << verified->problems[0];
    };
    expect_told(compress(input, output, options));
    EXPECT_EQ(read_tensor(*open_dense(output).value(), "w.weight")[33], 0.0f);
    options.non_finite = NonFiniteChoice::kKeep;
    expect_told(compress(input, output, options));
    fs::remove(output);
  }
}

TEST(Compress, QuantizedInputIsRefusedUnlessAllowed) {
  const testing::TempFolder folder;
  const fs::path input = folder.path() / "in.safetensors";
  write_model(input, {{"w.weight", {64, 64}}});
  const fs::path once = folder.path() / "once.safetensors";
  ASSERT_TRUE(compress(input, once, options_of("int8-row")));
  CompressOptions options = options_of("q4_0");
  const Result<Plan> refused = plan(once, {}, options);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message().find("--allow-requantize"), std::string::npos);
  options.allow_requantize = true;
  EXPECT_TRUE(compress(once, folder.path() / "twice.safetensors", options));
}

TEST(Compress, TiedEmbeddingsAreStoredOnce) {
  const testing::TempFolder folder;
  const fs::path input = folder.path() / "in.safetensors";
  const Shape shape = Shape::make({50, 64}).value();
  CheckpointLayout layout;
  for (const char* name : {"lm_head.weight", "model.embed_tokens.weight", "x.weight"}) {
    layout.tensors.push_back(TensorSpec::plain(name, DType::kF32, shape));
  }
  auto writer = CheckpointWriter::create(input, layout).value();
  const std::vector<float> values = random_values(50 * 64, 3);
  for (std::size_t i = 0; i < 3; ++i) {
    ASSERT_TRUE(writer->write(i, 0, std::as_bytes(std::span(values))).ok());
  }
  ASSERT_TRUE(writer->commit().ok());
  const fs::path output = folder.path() / "out.safetensors";
  const Result<Report> report = compress(input, output, options_of("int8-row"));
  ASSERT_TRUE(report) << report.error().message();
  EXPECT_EQ(report_totals(*report).aliased, 1);
  EXPECT_EQ(report_totals(*report).compressed, 2);
  const auto dense = open_dense(output).value();
  EXPECT_EQ(dense->tensors().size(), 3u);
  EXPECT_EQ(read_tensor(*dense, "lm_head.weight"),
            read_tensor(*dense, "model.embed_tokens.weight"));

  // Unless a rule takes one of them alone.
  CompressOptions apart = options_of("int8-row");
  apart.recipe =
      recipe_from_flags({.quantize = "int8-row", .ignore = {"embed_tokens"}}).value();
  apart.overwrite = true;
  const Result<Report> two = compress(input, output, apart);
  ASSERT_TRUE(two) << two.error().message();
  EXPECT_EQ(report_totals(*two).aliased, 0);
  EXPECT_EQ(report_totals(*two).kept, 1);
  EXPECT_EQ(read_tensor(*open_dense(output).value(), "model.embed_tokens.weight"),
            values);
  EXPECT_FALSE(two->warnings.empty());
}

// Its head is in no file, as config.json ties it to the embedding.
TEST(Compress, TiedFolderIsVerifiedWithWhatComesAlong) {
  const testing::TempFolder folder;
  const fs::path input = folder.path() / "in";
  fs::create_directory(input);
  const Shape shape = Shape::make({40, 128}).value();
  CheckpointLayout layout;
  for (const char* name :
       {"lm_head.weight", "model.embed_tokens.weight", "model.up_proj.weight"}) {
    layout.tensors.push_back(TensorSpec::plain(name, DType::kF32, shape));
  }
  auto writer = CheckpointWriter::create(input / "model.safetensors", layout).value();
  const std::vector<float> values = random_values(40 * 128, 3);
  for (std::size_t i = 0; i < 3; ++i) {
    ASSERT_TRUE(writer->write(i, 0, std::as_bytes(std::span(values))).ok());
  }
  ASSERT_TRUE(writer->commit().ok());
  std::ofstream(input / "config.json") << R"({"tie_word_embeddings":true})";
  std::ofstream(input / "tokenizer.json") << "{}";
  const fs::path output = folder.path() / "out";
  const Result<Report> report = compress(input, output, options_of("w8a8"));
  ASSERT_TRUE(report) << report.error().message();
  EXPECT_EQ(report_totals(*report).aliased, 1);
  const VerifyResult good = verify(input, output, {}).value();
  EXPECT_TRUE(good.problems.empty()) << good.problems[0];
  EXPECT_EQ(good.aliased, 1);
  EXPECT_EQ(good.files, 1);
  std::ofstream(output / "tokenizer.json") << "[]";
  EXPECT_EQ(
      verify(input, output, {})->problems,
      std::vector<std::string>{"file 'tokenizer.json': is not as it is in the source"});
  fs::remove(output / "tokenizer.json");
  std::string config = file_bytes(output / "config.json");
  const std::size_t tied = config.find("true", config.find("tie_word_embeddings"));
  std::ofstream(output / "config.json") << config.replace(tied, 4, "false");
  EXPECT_EQ(verify(input, output, {})->problems,
            (std::vector<std::string>{"tensor 'lm_head.weight': is missing",
                                      "file 'tokenizer.json': is missing"}));
}

TEST(Compress, GgufFallsBackWhereRowsDoNotDivide) {
  const testing::TempFolder folder;
  const fs::path input = folder.path() / "in.safetensors";
  write_model(input, {{"blk.0.ffn_up.weight", {64, 64}},
                      {"blk.0.ffn_down.weight", {64, 172}},
                      {"blk.0.attn_norm.weight", {64}, DType::kF16}});
  const fs::path output = folder.path() / "out.gguf";
  for (const char* scheme : {"q8_0", "q4_0", "fp16", "bf16"}) {
    const CompressOptions options = options_of(scheme);
    const Plan planned = plan(input, output, options).value();
    ASSERT_TRUE(compress(input, output, options));
    EXPECT_EQ(planned.output_bytes, static_cast<std::int64_t>(fs::file_size(output)));
  }
  ASSERT_TRUE(compress(input, output, options_of("q8_0")));
  const auto gguf = Checkpoint::open(output).value();
  const auto name_of = [&](const char* name) {
    return gguf->tensors()[gguf->find(name).value()].encoding.name;
  };
  EXPECT_EQ(name_of("blk.0.ffn_up.weight"), "Q8_0");
  EXPECT_EQ(name_of("blk.0.ffn_down.weight"), "F16");
  EXPECT_EQ(name_of("blk.0.attn_norm.weight"), "F32");
  EXPECT_FALSE(plan(input, output, options_of("int8-row")));
}

TEST(Compress, AFolderThatCannotBeCompressedTensorsSaysWhy) {
  const testing::TempFolder folder;
  const fs::path input = folder.path() / "in";
  fs::create_directory(input);
  write_model(input / "model.safetensors", {{"conv.weight", {8, 4, 32}}});
  std::ofstream(input / "config.json") << "{}";
  const fs::path output = folder.path() / "out";
  const Plan planned = plan(input, output, options_of("w8a8")).value();
  EXPECT_EQ(planned.convention, FileConvention::kPith);
  ASSERT_EQ(planned.warnings.size(), 1u);
  EXPECT_NE(planned.warnings[0].find("'conv.weight'"), std::string::npos);
  // Nobody asked for it here.
  EXPECT_TRUE(plan(input, output, options_of("int8-row"))->warnings.empty());
}

TEST(Compress, FolderOfCompressedTensors) {
  const testing::TempFolder folder;
  const fs::path input = folder.path() / "in";
  fs::create_directory(input);
  write_model(input / "model.safetensors",
              {{"model.embed_tokens.weight", {40, 128}, DType::kBF16},
               {"model.layers.0.mlp.up_proj.weight", {100, 128}, DType::kBF16},
               {"model.norm.weight", {128}, DType::kBF16}});
  std::ofstream(input / "config.json") << R"({"model_type": "llama"})";
  std::ofstream(input / "tokenizer.json") << "{}";
  const fs::path output = folder.path() / "out";
  for (const char* scheme : {"w8a8", "w4a16", "w8a16", "w4a16-g64"}) {
    fs::remove_all(output);
    const CompressOptions options = options_of(scheme);
    const Plan planned = plan(input, output, options).value();
    EXPECT_EQ(planned.convention, FileConvention::kCompressedTensors);
    const Result<Report> report = compress(input, output, options);
    ASSERT_TRUE(report) << report.error().message();
    EXPECT_EQ(planned.output_bytes,
              static_cast<std::int64_t>(fs::file_size(output / "model.safetensors")));
    EXPECT_EQ(planned.copied_bytes,
              static_cast<std::int64_t>(fs::file_size(output / "config.json") + 2));
    EXPECT_NE(file_bytes(output / "config.json").find("\"ignore\""), std::string::npos);
    EXPECT_EQ(file_bytes(output / "tokenizer.json"), "{}");
    const auto dense = open_dense(output);
    ASSERT_TRUE(dense) << dense.error().message();
    ASSERT_EQ((*dense)->tensors().size(), 3u);
    // Scales are bf16, as the weights are.
    Recipe recipe = options.recipe;
    Scheme stored = scheme_from_name(scheme).value();
    stored.scale_type = DType::kBF16;
    recipe.rules.back().stages = {quantize_stage(stored)};
    const auto source = Checkpoint::open(input).value();
    const std::string name = "model.layers.0.mlp.up_proj.weight";
    EXPECT_TRUE(same_values(read_tensor(**dense, name), expected(recipe, *source, name)))
        << scheme;
  }
}

RC_GTEST_PROP(Compress, EveryTensorIsAccountedFor, ()) {
  const testing::TempFolder folder;
  const fs::path input = folder.path() / "in.safetensors";
  const int count = *rc::gen::inRange(1, 8);
  std::vector<Tensor> tensors;
  for (int i = 0; i < count; ++i) {
    Tensor tensor;
    tensor.name = fmt::format(
        "{}{}", *rc::gen::element<std::string>("a.", "w.scale", "lm_head.", "é/"),
        i == 0 ? "" : std::to_string(i));
    if (i > 0 && *rc::gen::arbitrary<bool>()) {
      tensor.name = tensors.back().name +
                    *rc::gen::element<std::string>(".scale", ".mask", ".scale_");
    }
    const int rank = *rc::gen::inRange(0, 4);
    for (int d = 0; d < rank; ++d) tensor.shape.push_back(*rc::gen::inRange(0, 40));
    tensor.dtype = *rc::gen::element(DType::kF32, DType::kF16, DType::kBF16);
    tensors.push_back(tensor);
  }
  std::map<std::string, int> names;
  for (const Tensor& tensor : tensors) RC_PRE(++names[tensor.name] == 1);
  write_model(input, tensors);
  RecipeFlags flags;
  flags.quantize = *rc::gen::element<std::string>("int8", "int8-row", "int8-flat10",
                                                  "int4", "fp16", "");
  flags.prune = *rc::gen::element<std::string>("", "0.5", "0.95");
  flags.skip_embeddings = *rc::gen::arbitrary<bool>();
  RC_PRE(!flags.quantize.empty() || !flags.prune.empty());
  CompressOptions options;
  options.recipe = recipe_from_flags(flags).value();
  options.sync = false;
  const fs::path output = folder.path() / "out.safetensors";
  const Result<Plan> planned = plan(input, output, options);
  const Result<Report> report = compress(input, output, options);
  if (!planned) {
    // No tensor of rank 2, or none but embeddings.
    RC_ASSERT(planned.error().message().find("takes none") != std::string::npos);
    RC_ASSERT(!report);
    return;
  }
  if (!report) RC_FAIL(report.error().message());
  RC_ASSERT(planned->output_bytes == static_cast<std::int64_t>(fs::file_size(output)));
  const auto source = Checkpoint::open(input).value();
  const auto dense = open_dense(output);
  if (!dense) RC_FAIL(dense.error().message());
  RC_ASSERT((*dense)->tensors().size() == tensors.size());
  for (const TensorInfo& info : source->tensors()) {
    RC_ASSERT(same_values(read_tensor(**dense, info.name),
                          expected(options.recipe, *source, info.name)));
  }
}

}  // namespace
}  // namespace pith
