#include <pith/pith.h>

#include <cstdio>
#include <vector>

int main() {
  const std::vector<float> weights = {1.0f, -2.0f, 0.5f, 4.0f};
  const auto view = pith::TensorView::of(weights, pith::Shape::make({2, 2}).value(), "w");
  const auto small = pith::quantize(*view, pith::Scheme::int8_rows());
  if (!small || small->stored_bytes() != 4 + 2 * 4) return 1;
  std::puts("an installed Pith works");
}
