// The operations that are measured: one table.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "bench/limits.h"

namespace pith::bench {

/// 256 MiB of f32: far more than any cache holds.
inline constexpr std::int64_t kRows = 16384;
inline constexpr std::int64_t kCols = 4096;
inline constexpr std::int64_t kCount = kRows * kCols;

struct Operation {
  std::string name;
  /// What memory has to do at least; more than one if the values are needed twice.
  std::vector<Traffic> passes;
  double floor_share = 0;  ///< of the limit, to reach with two threads; 0: none
  double floor_speed = 0;  ///< in GB/s of f32, to reach with one thread; 0: none
  std::function<void()> run;
};

/// The tensors, touched before anything is timed: the first touch of a page costs twenty
/// times as much as its bytes.
class Tensors {
 public:
  Tensors();
  ~Tensors();

  /// For the limits: random bytes of kCount f32 values each.
  [[nodiscard]] const std::byte* in() const;
  [[nodiscard]] std::byte* out();

  [[nodiscard]] std::vector<Operation> operations();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace pith::bench
