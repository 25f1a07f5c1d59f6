// Other libraries that multiply matrices, if they were there when this was configured.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

namespace pith::bench {

[[nodiscard]] bool have_openblas();
[[nodiscard]] bool have_onednn();

/// For both.
void set_peer_threads(int threads);

/// y[batch][outputs] = x[batch][inputs] W^T, by sgemv for one row.
void openblas_product(const float* weight, const float* x, std::int64_t batch,
                      std::int64_t outputs, std::int64_t inputs, float* y);

/// int8 matmul of oneDNN: u8 activations, s8 weights in the layout it likes best, s32 out.
class OneDnn {
 public:
  virtual ~OneDnn() = default;
  /// `copies` of the weights, random codes.
  static std::unique_ptr<OneDnn> make(std::int64_t batch, std::int64_t outputs,
                                      std::int64_t inputs, std::int64_t copies);
  virtual void run(std::int64_t copy) = 0;
};

/// What its sums are worth on this processor: a line of Markdown.
[[nodiscard]] std::string onednn_error();

}  // namespace pith::bench
