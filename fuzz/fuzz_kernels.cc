// Products of every kind with random shapes and codes: all instruction sets against the
// reference. The input chooses the shape and seeds the codes; its bytes are the first codes.
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "fuzz/check.h"
#include "src/kernels/matmul.h"
#include "src/kernels/target.h"

namespace pith::fuzz {
namespace {

using namespace kernels;

class Input {
 public:
  Input(const std::uint8_t* data, std::size_t size) : data_(data), size_(size) {
    for (std::size_t i = 0; i < size; ++i) seed_ = seed_ * 31 + data[i];
    random_.seed(seed_);
  }
  // In [0, n), from the input while it lasts.
  int below(int n) {
    if (at_ >= size_) return static_cast<int>(random_() % static_cast<unsigned>(n));
    return data_[at_++] % n;
  }
  // In [low, high], often at an end, where a sum that is too narrow breaks.
  std::int8_t code(int low, int high) {
    const unsigned choice = random_() % 4;
    if (choice == 0) return static_cast<std::int8_t>(low);
    if (choice == 1) return static_cast<std::int8_t>(high);
    return static_cast<std::int8_t>(
        low + static_cast<int>(random_() % static_cast<unsigned>(high - low + 1)));
  }
  float value() { return static_cast<float>(random_() % 4001) / 777.0f - 2.5f; }

 private:
  const std::uint8_t* data_;
  std::size_t size_;
  std::size_t at_ = 0;
  unsigned seed_ = 1;
  std::mt19937 random_;
};

void check_product(Input& in) {
  PanelShape shape;
  const TileKind kind = static_cast<TileKind>(in.below(4));
  constexpr int kBits[] = {8, 4, 32};
  shape.bits = kind == TileKind::kS8    ? 4
               : kind == TileKind::kF32 ? kBits[in.below(3)]
                                        : 8;
  shape.outputs = 1 + in.below(40);
  shape.cols = 1 + in.below(200);
  shape.half_scales = in.below(2) == 1;
  if (kind != TileKind::kU7 && shape.bits != 32 && in.below(2) == 1) {
    shape.block = shape.bits == 4 ? 32 * (1 + in.below(4)) : 4 * (1 + in.below(16));
    shape.cols = shape.block * (1 + in.below(4));
  }
  const std::int64_t rows = 1 + in.below(kTileRows);
  std::vector<std::byte> panels(static_cast<std::size_t>(shape.bytes()));
  clear_panels(shape, panels.data());
  const std::int64_t blocks = shape.block == 0 ? 0 : shape.cols / shape.block;
  for (std::int64_t o = 0; o < shape.outputs; ++o) {
    if (shape.bits == 32) {
      std::vector<float> values(static_cast<std::size_t>(shape.cols));
      for (float& value : values) value = in.value();
      pack_output_f32(shape, o, values.data(), panels.data());
      continue;
    }
    std::vector<std::int8_t> codes(static_cast<std::size_t>(shape.cols));
    for (auto& code : codes) code = shape.bits == 8 ? in.code(-128, 127) : in.code(-8, 7);
    std::vector<float> scales(static_cast<std::size_t>(blocks));
    for (float& scale : scales) scale = in.value();
    pack_output(shape, o, codes.data(), scales.data(), panels.data());
  }
  std::vector<std::byte> tile(
      static_cast<std::size_t>(tile_bytes(kind, rows, shape.cols)));
  if (kind == TileKind::kF32) {
    std::vector<float> x(static_cast<std::size_t>(rows * shape.cols));
    for (float& value : x) value = in.value();
    pack_tile_f32(shape, x.data(), shape.cols, rows, tile.data());
  } else {
    const int limit = kind == TileKind::kU7 ? 63 : 127;
    std::vector<std::int8_t> x(static_cast<std::size_t>(rows * shape.cols));
    for (auto& code : x) code = in.code(-limit, limit);
    pack_tile(kind, x.data(), shape.cols, rows, shape.cols, tile.data());
  }
  PanelProduct args{shape, panels.data(), 0, shape.panels(), tile.data(), rows};
  args.stride = shape.panels() * kPanelOutputs;
  const auto size = static_cast<std::size_t>(rows * args.stride);
  std::vector<std::int32_t> expected_sums(size);
  std::vector<float> expected_y(size);
  args.sums = expected_sums.data();
  args.y = expected_y.data();
  reference_product(kind, args);
  for (const std::string& target : available_targets()) {
    require(set_target(target).ok(), "a target that is available cannot be set");
    std::vector<std::int32_t> sums(size);
    std::vector<float> y(size);
    args.sums = sums.data();
    args.y = y.data();
    product(kind, args);
    require(sums == expected_sums, "sums differ from the reference's");
    require(y == expected_y, "results differ from the reference's");
  }
}

void check_packing(Input& in) {
  PanelShape shape;
  shape.outputs = kPanelOutputs;
  shape.cols = 1 + in.below(256);
  const std::int64_t stride = shape.cols + in.below(3);
  std::vector<std::int8_t> codes(static_cast<std::size_t>(kPanelOutputs * stride));
  for (auto& code : codes) code = in.code(-128, 127);
  std::vector<std::byte> expected(static_cast<std::size_t>(shape.bytes()));
  for (std::int64_t o = 0; o < kPanelOutputs; ++o) {
    pack_output(shape, o, codes.data() + o * stride, nullptr, expected.data());
  }
  // Not a byte more than is there.
  codes.resize(static_cast<std::size_t>((kPanelOutputs - 1) * stride + shape.cols));
  codes.shrink_to_fit();
  for (const std::string& target : available_targets()) {
    require(set_target(target).ok(), "a target that is available cannot be set");
    std::vector<std::byte> panel(expected.size());
    pack_panel_s8(shape, codes.data(), stride, panel.data());
    require(panel == expected, "a panel differs from its outputs");
  }
}

}  // namespace
}  // namespace pith::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  pith::fuzz::Input in(data, size);
  if (in.below(8) == 0) {
    pith::fuzz::check_packing(in);
  } else {
    pith::fuzz::check_product(in);
  }
  return 0;
}
