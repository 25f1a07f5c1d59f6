// A program of its own: it replaces operator new.
#include <gtest/gtest.h>

#include <cstdlib>
#include <new>
#include <vector>

#include "pith/base/threads.h"
#include "pith/run/linear.h"

namespace {
// Counts the allocations of this thread while it is asked to.
thread_local bool counting = false;
thread_local int allocations = 0;
}  // namespace

// Not inlined: the compiler would take them for a mismatch.
[[gnu::noinline]] void* operator new(std::size_t size) {
  if (counting) ++allocations;
  if (void* memory = std::malloc(size == 0 ? 1 : size)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}

namespace pith {
namespace {

constexpr std::int64_t kOutputs = 72;
constexpr std::int64_t kInputs = 256;

QuantizedTensor weight(const Scheme& scheme) {
  std::vector<float> w(kOutputs * kInputs);
  for (std::size_t i = 0; i < w.size(); ++i) w[i] = static_cast<float>(i % 61) - 30;
  const Shape shape = Shape::make({kOutputs, kInputs}).value();
  return quantize(TensorView::of(w, shape, "w").value(), scheme).value();
}

int allocations_of(Linear& layer, std::int64_t rows) {
  const std::vector<float> x(static_cast<std::size_t>(rows * kInputs), 0.5f);
  std::vector<float> y(static_cast<std::size_t>(rows * kOutputs));
  allocations = 0;
  counting = true;
  const bool ok = layer.forward(x, rows, y).ok();
  counting = false;
  EXPECT_TRUE(ok);
  return allocations;
}

TEST(LinearAllocation, ForwardAllocatesOnlyTheFirstTime) {
  const ThreadLimit limit(1);  // all work is done, and counted, on this thread
  const std::vector<float> ones(kInputs, 1.0f);
  for (const Scheme& scheme : {Scheme::int8_tensor(), Scheme::int8_rows(),
                               Scheme::int8_blocks(32), Scheme::int8_flat_blocks(96),
                               Scheme::int4_rows(), Scheme::q8_0(), Scheme::q4_0()}) {
    for (const Activations activations :
         {Activations::kInt8Rows, Activations::kInt8Tensor, Activations::kF32}) {
      for (const bool in_place : {false, true}) {
        const QuantizedTensor codes = weight(scheme);
        Linear layer =
            Linear::make(
                codes, {},
                {.activations = activations, .input_scale = ones, .in_place = in_place})
                .value();
        EXPECT_GT(allocations_of(layer, 7), 0) << scheme.to_string();
        EXPECT_EQ(allocations_of(layer, 7), 0) << scheme.to_string();
        EXPECT_EQ(allocations_of(layer, 1), 0) << scheme.to_string();
      }
    }
  }
}

}  // namespace
}  // namespace pith
