#include "pith/run/linear.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "pith/base/threads.h"
#include "pith/quantize/dynamic.h"
#include "pith/run/matvec.h"
#include "pith/tensor/half.h"
#include "src/kernels/target.h"
#include "tests/support/values.h"

namespace pith {
namespace {

using testing::normal_values;

QuantizedTensor quantized(std::int64_t outputs, std::int64_t inputs,
                          const Scheme& scheme) {
  const std::vector<float> w = normal_values(outputs * inputs, 1);
  const auto view = TensorView::of(w, Shape::make({outputs, inputs}).value(), "w");
  Result<QuantizedTensor> q = quantize(*view, scheme);
  EXPECT_TRUE(q) << q.status().message();
  return *std::move(q);
}

// W (decoded) times x (quantized and decoded), in double.
std::vector<double> expected(const QuantizedTensor& weight, const std::vector<float>& x,
                             std::int64_t rows) {
  std::vector<float> w(static_cast<std::size_t>(weight.elements()));
  EXPECT_TRUE(dequantize(weight, w).ok());
  const std::int64_t outputs = weight.shape[0];
  const std::int64_t inputs = weight.shape[1];
  std::vector<double> y(static_cast<std::size_t>(rows * outputs));
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t o = 0; o < outputs; ++o) {
      double sum = 0;
      for (std::int64_t c = 0; c < inputs; ++c) {
        sum += static_cast<double>(w[static_cast<std::size_t>(o * inputs + c)]) *
               static_cast<double>(x[static_cast<std::size_t>(r * inputs + c)]);
      }
      y[static_cast<std::size_t>(r * outputs + o)] = sum;
    }
  }
  return y;
}

const Scheme kSchemes[] = {Scheme::int8_tensor(),
                           Scheme::int8_rows(),
                           Scheme::int8_blocks(32),
                           Scheme::int8_flat_blocks(64),
                           Scheme::int8_flat_blocks(48),
                           Scheme::int4_tensor(),
                           Scheme::int4_rows(),
                           Scheme::int4_blocks(32),
                           Scheme::q8_0(),
                           Scheme::q4_0(),
                           Scheme::w8a8(),
                           Scheme::w4a16(128)};

class LinearTest : public ::testing::Test {
 protected:
  void TearDown() override { ASSERT_TRUE(kernels::set_target("").ok()); }
};

TEST_F(LinearTest, EverySchemeEqualsDecodedWeightsTimesDecodedActivations) {
  constexpr std::int64_t kOutputs = 37;
  constexpr std::int64_t kInputs = 384;
  for (const Scheme& scheme : kSchemes) {
    const QuantizedTensor weight = quantized(kOutputs, kInputs, scheme);
    const std::vector<float> bias = normal_values(kOutputs, 3);
    Linear f32 = Linear::make(weight, bias, {.activations = Activations::kF32}).value();
    Linear int8 = Linear::make(weight, bias).value();
    for (const std::int64_t rows : {1, 2, 5, 6, 7, 13}) {
      const std::vector<float> x = normal_values(rows * kInputs, 2);
      const auto codes = dynamic_quantize_rows(x, rows, kInputs).value();
      const std::vector<float> rounded = dequantize(codes).value();
      std::vector<float> y(static_cast<std::size_t>(rows * kOutputs));
      ASSERT_TRUE(f32.forward(x, rows, y).ok());
      const auto exact = expected(weight, x, rows);
      for (std::size_t i = 0; i < y.size(); ++i) {
        ASSERT_NEAR(y[i], exact[i] + static_cast<double>(bias[i % kOutputs]), 1e-3)
            << scheme.to_string();
      }
      ASSERT_TRUE(int8.forward(x, rows, y).ok());
      // A scheme that is decoded keeps its activations.
      const bool decoded = scheme == Scheme::int8_flat_blocks(48) && kInputs % 48 != 0;
      const auto approximate = expected(weight, decoded ? x : rounded, rows);
      for (std::size_t i = 0; i < y.size(); ++i) {
        ASSERT_NEAR(y[i], approximate[i] + static_cast<double>(bias[i % kOutputs]), 1e-3)
            << scheme.to_string();
      }
    }
  }
}

// Odd numbers of columns: rows of int4 codes end in half a byte.
TEST_F(LinearTest, AnySizeEqualsDecodedWeights) {
  for (const Scheme& scheme : {Scheme::int8_tensor(), Scheme::int8_rows(),
                               Scheme::int4_tensor(), Scheme::int4_rows()}) {
    for (const std::int64_t outputs : {1, 7, 8, 9, 65}) {
      for (const std::int64_t inputs : {1, 15, 16, 17, 31, 33, 63, 65, 127, 129}) {
        const QuantizedTensor weight = quantized(outputs, inputs, scheme);
        Linear layer =
            Linear::make(weight, {}, {.activations = Activations::kF32}).value();
        const std::vector<float> x = normal_values(3 * inputs, 2);
        std::vector<float> y(static_cast<std::size_t>(3 * outputs));
        ASSERT_TRUE(layer.forward(x, 3, y).ok());
        const auto exact = expected(weight, x, 3);
        for (std::size_t i = 0; i < y.size(); ++i) {
          ASSERT_NEAR(y[i], exact[i], 1e-3) << scheme.to_string() << ' ' << inputs;
        }
      }
    }
  }
}

TEST_F(LinearTest, BitsDependOnNeitherTargetNorThreadsNorBatch) {
  constexpr std::int64_t kOutputs = 75;
  constexpr std::int64_t kInputs = 256;
  constexpr std::int64_t kRows = 13;
  const std::vector<float> x = normal_values(kRows * kInputs, 4);
  for (const Scheme& scheme : kSchemes) {
    const QuantizedTensor weight = quantized(kOutputs, kInputs, scheme);
    for (const Activations activations : {Activations::kInt8Rows, Activations::kF32}) {
      Linear layer = Linear::make(weight, {}, {.activations = activations}).value();
      Linear in_place =
          Linear::make(weight, {}, {.activations = activations, .in_place = true})
              .value();
      std::vector<float> first;
      for (const std::string& target : kernels::available_targets()) {
        ASSERT_TRUE(kernels::set_target(target).ok());
        for (const int threads : {1, 2, 5}) {
          const ThreadLimit limit(threads);
          std::vector<float> y(static_cast<std::size_t>(kRows * kOutputs));
          ASSERT_TRUE(layer.forward(x, kRows, y).ok());
          if (first.empty()) first = y;
          ASSERT_EQ(y, first) << target << ' ' << threads << ' ' << scheme.to_string();
          ASSERT_TRUE(in_place.forward(x, kRows, y).ok());
          ASSERT_EQ(y, first) << target << ' ' << threads << ' ' << scheme.to_string();
        }
      }
      for (std::int64_t r = 0; r < kRows; ++r) {
        std::vector<float> y(static_cast<std::size_t>(kOutputs));
        const std::span row(x.data() + r * kInputs, static_cast<std::size_t>(kInputs));
        ASSERT_TRUE(layer.forward(row, 1, y).ok());
        for (std::int64_t o = 0; o < kOutputs; ++o) {
          ASSERT_EQ(y[static_cast<std::size_t>(o)],
                    first[static_cast<std::size_t>(r * kOutputs + o)]);
        }
      }
    }
  }
}

TEST_F(LinearTest, RowSchemeIsTheReferencesMatvec) {
  constexpr std::int64_t kOutputs = 33;
  constexpr std::int64_t kInputs = 129;
  const QuantizedTensor weight = quantized(kOutputs, kInputs, Scheme::int8_rows());
  const std::vector<float> x = normal_values(kInputs, 5);
  std::vector<float> y(kOutputs);
  std::vector<float> reference(kOutputs);
  MatvecScratch scratch;
  ASSERT_TRUE(w8a8_matvec(weight.codes.as<std::int8_t>(), weight.scales.as<float>(),
                          kOutputs, kInputs, x, reference, scratch)
                  .ok());
  Linear layer = Linear::make(weight).value();
  ASSERT_TRUE(layer.forward(x, 1, y).ok());
  EXPECT_EQ(y, reference);
}

TEST_F(LinearTest, ColumnsBeyondTheInt32BoundAreExact) {
  constexpr std::int64_t kInputs = 140000;
  const std::vector<float> ones(static_cast<std::size_t>(kInputs), 1.0f);
  const auto view = TensorView::of(ones, Shape::make({1, kInputs}).value(), "w");
  const QuantizedTensor weight = quantize(*view, Scheme::int8_rows()).value();
  for (const Activations activations : {Activations::kInt8Rows, Activations::kInt7Rows}) {
    for (const bool in_place : {false, true}) {
      Linear layer =
          Linear::make(weight, {}, {.activations = activations, .in_place = in_place})
              .value();
      std::vector<float> y(1);
      ASSERT_TRUE(layer.forward(ones, 1, y).ok());
      EXPECT_NEAR(y[0], static_cast<float>(kInputs), 1.0f);
    }
  }
}

TEST_F(LinearTest, OtherActivations) {
  constexpr std::int64_t kInputs = 64;
  const QuantizedTensor weight = quantized(9, kInputs, Scheme::int8_rows());
  const std::vector<float> x = normal_values(3 * kInputs, 6);
  const auto exact = expected(weight, x, 3);
  std::vector<std::uint16_t> bf16;
  std::vector<float> from_bf16;
  for (const float value : x) {
    bf16.push_back(f32_to_bf16(value));
    from_bf16.push_back(bf16_to_f32(bf16.back()));
  }
  for (const LinearOptions& options :
       {LinearOptions{Activations::kInt8Tensor}, LinearOptions{Activations::kInt7Rows},
        LinearOptions{Activations::kStatic, 4.0f / 127}}) {
    Linear layer = Linear::make(weight, {}, options).value();
    std::vector<float> y(27);
    ASSERT_TRUE(layer.forward(x, 3, y).ok());
    for (std::size_t i = 0; i < y.size(); ++i) EXPECT_NEAR(y[i], exact[i], 1.0);
    std::vector<float> z(27);
    ASSERT_TRUE(layer.forward(from_bf16, 3, y).ok());
    ASSERT_TRUE(layer.forward_bf16(bf16, 3, z).ok());
    EXPECT_EQ(y, z);
  }
  EXPECT_EQ(Linear::make(quantized(8, 64, Scheme::q8_0()), {}, {Activations::kInt7Rows})
                .error()
                .code(),
            StatusCode::kUnsupported);
}

TEST_F(LinearTest, InputScaleUndoesSmoothing) {
  constexpr std::int64_t kInputs = 32;
  std::vector<float> w = normal_values(4 * kInputs, 7);
  std::vector<float> factors(static_cast<std::size_t>(kInputs));
  for (std::size_t i = 0; i < factors.size(); ++i) factors[i] = i % 2 == 0 ? 2.0f : 0.5f;
  std::vector<float> inverse;
  for (const float factor : factors) inverse.push_back(1 / factor);
  std::vector<float> smooth = w;
  for (std::size_t i = 0; i < w.size(); ++i) smooth[i] *= factors[i % factors.size()];
  const Shape shape = Shape::make({4, kInputs}).value();
  const QuantizedTensor weight =
      quantize(TensorView::of(smooth, shape, "w").value(), Scheme::int8_rows()).value();
  Linear layer =
      Linear::make(weight, {}, {.activations = Activations::kF32, .input_scale = inverse})
          .value();
  const std::vector<float> x = normal_values(kInputs, 8);
  std::vector<float> y(4);
  ASSERT_TRUE(layer.forward(x, 1, y).ok());
  for (std::size_t o = 0; o < 4; ++o) {
    double sum = 0;
    for (std::size_t c = 0; c < factors.size(); ++c) {
      sum += static_cast<double>(w[o * factors.size() + c]) * static_cast<double>(x[c]);
    }
    EXPECT_NEAR(y[o], sum, 0.3);
  }
}

TEST_F(LinearTest, NoInputsGiveTheBiasAndNoOutputsNothing) {
  const std::vector<float> bias = {1, 2, 3};
  const std::vector<float> none;
  for (const Scheme& scheme : {Scheme::int8_tensor(), Scheme::int8_rows(),
                               Scheme::int4_rows(), Scheme::int8_blocks(32)}) {
    const auto narrow = TensorView::of(none, Shape::make({3, 0}).value(), "w");
    const auto no_inputs = quantize(*narrow, scheme);
    ASSERT_TRUE(no_inputs) << no_inputs.error().message();
    Linear layer = Linear::make(*no_inputs, bias).value();
    std::vector<float> y(6);
    ASSERT_TRUE(layer.forward({}, 2, y).ok());
    EXPECT_EQ(y, (std::vector<float>{1, 2, 3, 1, 2, 3})) << scheme.to_string();

    const auto flat = TensorView::of(none, Shape::make({0, 32}).value(), "w");
    const auto no_outputs = quantize(*flat, scheme);
    ASSERT_TRUE(no_outputs) << no_outputs.error().message();
    Linear empty = Linear::make(*no_outputs).value();
    EXPECT_TRUE(empty.forward(std::vector<float>(64), 2, {}).ok());
  }
}

TEST_F(LinearTest, BadInputIsRefused) {
  const QuantizedTensor weight = quantized(4, 8, Scheme::int8_rows());
  EXPECT_FALSE(Linear::make(weight, std::vector<float>(3)));
  EXPECT_FALSE(Linear::make(weight, {}, {.activations = Activations::kStatic}));
  const std::vector<float> infinite(8, INFINITY);
  EXPECT_FALSE(Linear::make(weight, {}, {.input_scale = infinite}));
  EXPECT_FALSE(Linear::make(weight, {}, {.input_scale = std::span(infinite).first(7)}));
  Linear layer = Linear::make(weight).value();
  std::vector<float> y(4);
  EXPECT_EQ(layer.forward(std::vector<float>(7), 1, y).code(),
            StatusCode::kInvalidArgument);
  std::vector<float> x(8, 1.0f);
  x[5] = NAN;
  const Status status = layer.forward(x, 1, y);
  EXPECT_EQ(status.code(), StatusCode::kNotFinite);
  EXPECT_NE(status.message().find('5'), std::string::npos);
  EXPECT_TRUE(layer.forward({}, 0, {}).ok());
}

}  // namespace
}  // namespace pith
