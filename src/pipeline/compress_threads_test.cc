// Threads that compress one tensor together.
#include <gtest/gtest.h>

#include <memory>
#include <new>

#include "pith/base/threads.h"
#include "pith/pipeline/compress.h"
#include "src/kernels/target.h"
#include "src/pipeline/compress_test_model.h"
#include "tests/support/temp_folder.h"
#include "tests/support/values.h"

namespace pith {
namespace {

namespace fs = std::filesystem;
using testing::file_bytes;

TEST(Compress, SameBytesForAllThreadsTargetsAndMemory) {
  const testing::TempFolder folder;
  const fs::path odd = folder.path() / "odd.safetensors";
  const fs::path even = folder.path() / "even.safetensors";
  // Several pieces each.
  write_model(odd, {{"a.weight", {4000, 300}}, {"b.weight", {450, 2000}, DType::kBF16}});
  write_model(even, {{"a.weight", {1200, 1024}},
                     {"b.weight", {600, 2048}, DType::kBF16},
                     {"c.weight", {2400, 512}, DType::kF16}});
  const fs::path output = folder.path() / "out.safetensors";
  struct Case {
    fs::path input;
    std::string quantize;
    std::string prune;
  };
  for (const auto& [input, quantize, prune] : std::vector<Case>{{odd, "int8-row", ""},
                                                                {odd, "int4-g20", "0.5"},
                                                                {odd, "int8", "0.5"},
                                                                {odd, "fp16", ""},
                                                                {even, "q8_0", ""},
                                                                {even, "int8-row", ""},
                                                                {even, "q4_0", ""}}) {
    CompressOptions options = options_of(quantize, prune);
    ASSERT_TRUE(compress(input, output, options));
    const std::string good = file_bytes(output);
    for (const int threads : {1, 2, 8}) {
      const ThreadLimit limit(threads);
      ASSERT_TRUE(compress(input, output, options));
      EXPECT_TRUE(file_bytes(output) == good) << quantize << threads;
    }
    for (const std::string& target : kernels::available_targets()) {
      ASSERT_TRUE(kernels::set_target(target).ok());
      ASSERT_TRUE(compress(input, output, options));
      EXPECT_TRUE(file_bytes(output) == good) << quantize;
    }
    ASSERT_TRUE(kernels::set_target("").ok());
    options.max_memory = 2 << 20;
    ASSERT_TRUE(compress(input, output, options));
    EXPECT_TRUE(file_bytes(output) == good) << quantize;
  }
}

// A stage that finds no memory after some strips.
class Exhausting : public Stage {
 public:
  std::string_view name() const override { return "exhaust"; }
  Status validate() const override { return {}; }
  Status apply(const TensorHeader& /*tensor*/,
               std::span<float> /*values*/) const override {
    return {};
  }
  Result<std::unique_ptr<StageStream>> stream(
      std::span<const TensorHeader> /*tensors*/) const override {
    struct Stream : StageStream {
      int strips = 0;
      Status apply(std::span<float> /*values*/) override {
        if (++strips == 3) throw std::bad_alloc();
        return {};
      }
    };
    return std::unique_ptr<StageStream>(std::make_unique<Stream>());
  }
};

// Threads that wait for a piece do not wait for ever.
TEST(Compress, AnExceptionEndsAllThreads) {
  const testing::TempFolder folder;
  const fs::path input = folder.path() / "in.safetensors";
  const fs::path output = folder.path() / "out.safetensors";
  write_model(input, {{"a.weight", {1000, 1000}}});
  CompressOptions options = options_of("int8-row");
  auto& stages = options.recipe.rules.front().stages;
  stages.insert(stages.begin(), std::make_shared<Exhausting>());
  for (const int threads : {1, 2, 4}) {
    const ThreadLimit limit(threads);
    EXPECT_THROW((void)compress(input, output, options), std::bad_alloc);
    EXPECT_FALSE(fs::exists(output));
  }
}

}  // namespace
}  // namespace pith
