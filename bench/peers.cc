#include "bench/peers.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#ifdef PITH_BENCH_OPENBLAS
#include <cblas.h>
#endif
#ifdef PITH_BENCH_ONEDNN
#include <omp.h>

#include <oneapi/dnnl/dnnl.hpp>
#endif

namespace pith::bench {

#ifdef PITH_BENCH_OPENBLAS
bool have_openblas() { return true; }
void openblas_product(const float* weight, const float* x, std::int64_t batch,
                      std::int64_t outputs, std::int64_t inputs, float* y) {
  const auto m = static_cast<int>(outputs);
  const auto k = static_cast<int>(inputs);
  if (batch == 1) {
    cblas_sgemv(CblasRowMajor, CblasNoTrans, m, k, 1, weight, k, x, 1, 0, y, 1);
    return;
  }
  cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, static_cast<int>(batch), m, k, 1,
              x, k, weight, k, 0, y, m);
}
#else
bool have_openblas() { return false; }
void openblas_product(const float*, const float*, std::int64_t, std::int64_t,
                      std::int64_t, float*) {}
#endif

void set_peer_threads([[maybe_unused]] int threads) {
#ifdef PITH_BENCH_OPENBLAS
  openblas_set_num_threads(threads);
#endif
#ifdef PITH_BENCH_ONEDNN
  omp_set_num_threads(threads);
#endif
}

#ifdef PITH_BENCH_ONEDNN
bool have_onednn() { return true; }

namespace {

using dnnl::memory;

class Product : public OneDnn {
 public:
  Product(std::int64_t batch, std::int64_t outputs, std::int64_t inputs,
          std::int64_t copies, int x_limit)
      : engine_(dnnl::engine::kind::cpu, 0), stream_(engine_) {
    const memory::desc x_desc({batch, inputs}, memory::data_type::u8,
                              memory::format_tag::ab);
    const memory::desc plain({inputs, outputs}, memory::data_type::s8,
                             memory::format_tag::ba);
    const memory::desc any({inputs, outputs}, memory::data_type::s8,
                           memory::format_tag::any);
    const memory::desc y_desc({batch, outputs}, memory::data_type::s32,
                              memory::format_tag::ab);
    const dnnl::matmul::primitive_desc desc({x_desc, any, y_desc}, engine_);
    product_ = dnnl::matmul(desc);
    x_ = memory(x_desc, engine_);
    y_ = memory(y_desc, engine_);
    std::mt19937 random(1);
    auto* x = static_cast<std::uint8_t*>(x_.get_data_handle());
    for (std::int64_t i = 0; i < batch * inputs; ++i) {
      x[i] = static_cast<std::uint8_t>(random() % (static_cast<unsigned>(x_limit) + 1));
    }
    memory codes(plain, engine_);
    auto* w = static_cast<std::int8_t*>(codes.get_data_handle());
    for (std::int64_t i = 0; i < outputs * inputs; ++i) {
      w[i] = static_cast<std::int8_t>(static_cast<int>(random() % 255) - 127);
    }
    plain_.assign(w, w + outputs * inputs);
    for (std::int64_t c = 0; c < copies; ++c) {
      weights_.emplace_back(desc.weights_desc(), engine_);
      dnnl::reorder(codes, weights_.back()).execute(stream_, codes, weights_.back());
    }
    stream_.wait();
  }

  void run(std::int64_t copy) override {
    product_.execute(stream_,
                     {{DNNL_ARG_SRC, x_},
                      {DNNL_ARG_WEIGHTS, weights_[static_cast<std::size_t>(copy)]},
                      {DNNL_ARG_DST, y_}});
    stream_.wait();
  }

  // Wrong sums of all, and the root mean square of the error relative to that of the sums.
  std::pair<double, double> error(std::int64_t batch, std::int64_t outputs,
                                  std::int64_t inputs) {
    run(0);
    const auto* x = static_cast<const std::uint8_t*>(x_.get_data_handle());
    const auto* y = static_cast<const std::int32_t*>(y_.get_data_handle());
    double wrong = 0;
    double squares = 0;
    double errors = 0;
    for (std::int64_t r = 0; r < batch; ++r) {
      for (std::int64_t o = 0; o < outputs; ++o) {
        std::int64_t sum = 0;
        for (std::int64_t c = 0; c < inputs; ++c) {
          sum += std::int64_t{x[r * inputs + c]} *
                 plain_[static_cast<std::size_t>(o * inputs + c)];
        }
        const auto off = static_cast<double>(y[r * outputs + o] - sum);
        wrong += off != 0;
        errors += off * off;
        squares += static_cast<double>(sum) * static_cast<double>(sum);
      }
    }
    return {wrong / static_cast<double>(batch * outputs), std::sqrt(errors / squares)};
  }

 private:
  dnnl::engine engine_;
  dnnl::stream stream_;
  dnnl::matmul product_;
  memory x_;
  memory y_;
  std::vector<memory> weights_;
  std::vector<std::int8_t> plain_;
};

}  // namespace

std::unique_ptr<OneDnn> OneDnn::make(std::int64_t batch, std::int64_t outputs,
                                     std::int64_t inputs, std::int64_t copies) {
  return std::make_unique<Product>(batch, outputs, inputs, copies, 255);
}

std::string onednn_error() {
  constexpr std::int64_t kBatch = 8;
  constexpr std::int64_t kSize = 256;
  const auto full = Product(kBatch, kSize, kSize, 1, 255).error(kBatch, kSize, kSize);
  const auto seven = Product(kBatch, kSize, kSize, 1, 127).error(kBatch, kSize, kSize);
  return fmt::format(
      "oneDNN u8s8 with {} columns and random codes: {:.1f} % of the sums are wrong, by "
      "{:.1f} % of their root mean square; with 7-bit activations {:.1f} % are wrong. "
      "All of Pith's are exact.\n",
      kSize, 100 * full.first, 100 * full.second, 100 * seven.first);
}
#else
bool have_onednn() { return false; }
std::unique_ptr<OneDnn> OneDnn::make(std::int64_t, std::int64_t, std::int64_t,
                                     std::int64_t) {
  return nullptr;
}
std::string onednn_error() { return {}; }
#endif

}  // namespace pith::bench
