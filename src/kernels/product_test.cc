#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "src/kernels/matmul.h"
#include "src/kernels/read_memory.h"
#include "src/kernels/target.h"

namespace pith::kernels {
namespace {

struct Case {
  TileKind kind;
  PanelShape shape;
};

std::int8_t extreme_or_random(std::mt19937& random, int limit) {
  // Many at the ends of the range, where a sum that is too narrow breaks.
  const int choice = static_cast<int>(random() % 4);
  if (choice == 0) return static_cast<std::int8_t>(limit);
  if (choice == 1) return static_cast<std::int8_t>(-limit);
  return static_cast<std::int8_t>(static_cast<int>(random() % (2u * limit + 1u)) - limit);
}

class Product : public testing::Test {
 protected:
  void TearDown() override { ASSERT_TRUE(set_target("").ok()); }

  // Compares every target with the reference, and the reference with the plain double
  // loop.
  void check(TileKind kind, const PanelShape& shape, std::int64_t rows,
             bool all_extreme = false) {
    std::mt19937 random(
        static_cast<unsigned>(shape.outputs * 131 + shape.cols * 7 + rows));
    const int weight_limit = shape.bits == 8 ? 127 : 7;
    const int x_limit = kind == TileKind::kU7 ? 63 : 127;
    std::vector<std::int8_t> w(static_cast<std::size_t>(shape.outputs * shape.cols));
    std::vector<std::int8_t> x(static_cast<std::size_t>(rows * shape.cols));
    for (auto& code : w) {
      code = all_extreme ? static_cast<std::int8_t>(shape.bits == 8 ? 127 : -8)
                         : extreme_or_random(random, weight_limit);
    }
    for (auto& code : x) {
      code = all_extreme ? static_cast<std::int8_t>(-x_limit)
                         : extreme_or_random(random, x_limit);
    }
    const std::int64_t blocks = shape.block == 0 ? 0 : shape.cols / shape.block;
    std::vector<float> scales(static_cast<std::size_t>(shape.outputs * blocks));
    for (float& scale : scales) scale = static_cast<float>(random() % 64 + 1) / 1024;

    std::vector<std::byte> panels(static_cast<std::size_t>(shape.bytes()));
    clear_panels(shape, panels.data());
    for (std::int64_t o = 0; o < shape.outputs; ++o) {
      pack_output(shape, o, w.data() + o * shape.cols, scales.data() + o * blocks,
                  panels.data());
    }
    std::vector<std::byte> tile(
        static_cast<std::size_t>(tile_bytes(kind, rows, shape.cols)));
    pack_tile(kind, x.data(), shape.cols, rows, shape.cols, tile.data());

    PanelProduct args;
    args.shape = shape;
    args.panels = panels.data();
    args.last = shape.panels();
    args.tile = tile.data();
    args.rows = rows;
    args.stride = shape.panels() * kPanelOutputs;
    const auto size = static_cast<std::size_t>(rows * args.stride);
    std::vector<std::int32_t> sums(size), expected_sums(size);
    std::vector<float> y(size), expected_y(size);
    args.sums = expected_sums.data();
    args.y = expected_y.data();
    reference_product(kind, args);
    for (std::int64_t r = 0; r < rows; ++r) {
      for (std::int64_t o = 0; o < shape.outputs; ++o) {
        std::int64_t sum = 0;
        float value = 0;
        for (std::int64_t c = 0; c < shape.cols; ++c) {
          const int code = x[static_cast<std::size_t>(r * shape.cols + c)];
          sum += w[static_cast<std::size_t>(o * shape.cols + c)] *
                 (kind == TileKind::kU7 ? code + kU7Offset : code);
          if (shape.block > 0 && (c + 1) % shape.block == 0) {
            value += static_cast<float>(sum) *
                     scales[static_cast<std::size_t>(o * blocks + c / shape.block)];
            sum = 0;
          }
        }
        const auto i = static_cast<std::size_t>(r * args.stride + o);
        if (shape.block > 0) {
          ASSERT_EQ(expected_y[i], value) << r << ' ' << o;
        } else {
          ASSERT_EQ(expected_sums[i], sum) << r << ' ' << o;
        }
      }
    }
    for (const std::string& target : available_targets()) {
      ASSERT_TRUE(set_target(target).ok());
      args.sums = sums.data();
      args.y = y.data();
      product(kind, args);
      if (shape.block > 0) {
        ASSERT_EQ(y, expected_y) << target << ' ' << shape.cols << ' ' << rows;
      } else {
        ASSERT_EQ(sums, expected_sums) << target << ' ' << shape.cols << ' ' << rows;
      }
    }
  }
};

constexpr std::int64_t kCols[] = {1,  3,  15, 16,  17,  31,  32,  33,
                                  63, 64, 65, 127, 128, 129, 4096};
constexpr std::int64_t kOutputs[] = {1, 7, 8, 9, 16, 33, 40};

TEST_F(Product, RowScaledSumsAreExact) {
  for (const std::int64_t cols : kCols) {
    for (const std::int64_t outputs : kOutputs) {
      for (std::int64_t rows = 1; rows <= kTileRows; ++rows) {
        check(TileKind::kS16, {.bits = 8, .outputs = outputs, .cols = cols}, rows);
        check(TileKind::kU7, {.bits = 8, .outputs = outputs, .cols = cols}, rows);
        check(TileKind::kS8, {.bits = 4, .outputs = outputs, .cols = cols}, rows);
      }
    }
  }
}

TEST_F(Product, WholePanelsArePackedAsTheirOutputs) {
  std::mt19937 random(4);
  for (const std::int64_t cols : kCols) {
    const PanelShape shape{.bits = 8, .outputs = 8, .cols = cols};
    const std::int64_t stride = cols + 5;
    std::vector<std::int8_t> codes(static_cast<std::size_t>(8 * stride));
    for (auto& code : codes) code = extreme_or_random(random, 127);
    std::vector<std::byte> expected(static_cast<std::size_t>(shape.bytes()));
    clear_panels(shape, expected.data());
    for (std::int64_t o = 0; o < 8; ++o) {
      pack_output(shape, o, codes.data() + o * stride, nullptr, expected.data());
    }
    for (const std::string& target : available_targets()) {
      ASSERT_TRUE(set_target(target).ok());
      std::vector<std::byte> panel(expected.size());
      pack_panel_s8(shape, codes.data(), stride, panel.data());
      ASSERT_EQ(panel, expected) << target << ' ' << cols;
    }
  }
}

TEST_F(Product, BlockScaledSumsHaveOneOrder) {
  for (const bool half : {false, true}) {
    for (const std::int64_t block : {32, 64, 128}) {
      for (const std::int64_t outputs : kOutputs) {
        for (std::int64_t rows = 1; rows <= kTileRows; ++rows) {
          const std::int64_t cols = 3 * block;
          check(TileKind::kS16, {8, outputs, cols, block, half}, rows);
          check(TileKind::kS8, {4, outputs, cols, block, half}, rows);
        }
      }
    }
    check(TileKind::kS16, {8, 9, 36, 12, half}, 5);
  }
}

TEST_F(Product, FloatActivationsHaveOneOrder) {
  std::mt19937 random(1);
  for (const int bits : {8, 4}) {
    for (const std::int64_t block : {0, 32, 64}) {
      for (std::int64_t rows = 1; rows <= kTileRows; ++rows) {
        for (const std::int64_t outputs : kOutputs) {
          PanelShape shape{bits, outputs, block == 0 ? 77 : 3 * block, block, true};
          std::vector<std::int8_t> w(static_cast<std::size_t>(shape.cols));
          std::vector<float> scales(3);
          std::vector<std::byte> panels(static_cast<std::size_t>(shape.bytes()));
          clear_panels(shape, panels.data());
          for (std::int64_t o = 0; o < outputs; ++o) {
            for (auto& code : w) code = extreme_or_random(random, bits == 8 ? 127 : 7);
            for (float& scale : scales)
              scale = static_cast<float>(random() % 64 + 1) / 1024;
            pack_output(shape, o, w.data(), scales.data(), panels.data());
          }
          std::vector<float> x(static_cast<std::size_t>(rows * shape.cols));
          for (float& value : x)
            value = static_cast<float>(random() % 2001) / 777.0f - 1.2f;
          std::vector<std::byte> tile(
              static_cast<std::size_t>(tile_bytes(TileKind::kF32, rows, shape.cols)));
          pack_tile_f32(shape, x.data(), shape.cols, rows, tile.data());
          PanelProduct args{shape, panels.data(), 0, shape.panels(), tile.data(), rows};
          args.stride = shape.panels() * kPanelOutputs;
          std::vector<float> expected(static_cast<std::size_t>(rows * args.stride));
          std::vector<float> y(expected.size());
          args.y = expected.data();
          reference_product(TileKind::kF32, args);
          args.y = y.data();
          for (const std::string& target : available_targets()) {
            ASSERT_TRUE(set_target(target).ok());
            product_f32(args);
            ASSERT_EQ(y, expected)
                << target << ' ' << bits << ' ' << block << ' ' << rows;
          }
        }
      }
    }
  }
}

TEST_F(Product, FloatWeightsHaveOneOrder) {
  std::mt19937 random(2);
  const auto value = [&] { return static_cast<float>(random() % 2001) / 777.0f - 1.2f; };
  for (const std::int64_t cols : {std::int64_t{1}, std::int64_t{33}, kDenseBlock,
                                  kDenseBlock + 1, 2 * kDenseBlock + 77}) {
    for (const std::int64_t outputs : kOutputs) {
      for (std::int64_t rows = 1; rows <= kTileRows; ++rows) {
        const PanelShape shape{.bits = 32, .outputs = outputs, .cols = cols};
        std::vector<std::byte> panels(static_cast<std::size_t>(shape.bytes()));
        clear_panels(shape, panels.data());
        std::vector<float> w(static_cast<std::size_t>(cols));
        for (std::int64_t o = 0; o < outputs; ++o) {
          for (float& weight : w) weight = value();
          pack_output_f32(shape, o, w.data(), panels.data());
        }
        std::vector<float> x(static_cast<std::size_t>(rows * cols));
        for (float& activation : x) activation = value();
        std::vector<std::byte> tile(
            static_cast<std::size_t>(tile_bytes(TileKind::kF32, rows, cols)));
        pack_tile_f32(shape, x.data(), cols, rows, tile.data());
        PanelProduct args{shape, panels.data(), 0, shape.panels(), tile.data(), rows};
        args.stride = shape.panels() * kPanelOutputs;
        std::vector<float> expected(static_cast<std::size_t>(rows * args.stride));
        std::vector<float> y(expected.size());
        args.y = expected.data();
        reference_product(TileKind::kF32, args);
        for (std::int64_t r = 0; r < rows; ++r) {  // and the last output's is W x
          double sum = 0;
          for (std::int64_t c = 0; c < cols; ++c) {
            sum += double{w[static_cast<std::size_t>(c)]} *
                   double{x[static_cast<std::size_t>(r * cols + c)]};
          }
          ASSERT_NEAR(expected[static_cast<std::size_t>(r * args.stride + outputs - 1)],
                      sum, 1e-5 * static_cast<double>(cols));
        }
        args.y = y.data();
        for (const std::string& target : available_targets()) {
          ASSERT_TRUE(set_target(target).ok());
          product_f32(args);
          ASSERT_EQ(y, expected) << target << ' ' << cols << ' ' << rows;
        }
      }
    }
  }
}

// Every byte is read, or the limit would be none.
TEST_F(Product, ReadMemoryReadsAllOfIt) {
  std::vector<std::byte> memory(static_cast<std::size_t>(2 * kReadPiece + 64));
  std::mt19937 random(3);
  for (std::byte& byte : memory) byte = static_cast<std::byte>(random());
  for (const std::string& target : available_targets()) {
    ASSERT_TRUE(set_target(target).ok());
    for (const std::int64_t pieces : {0, 1, 2}) {
      EXPECT_EQ(read_memory(memory.data(), pieces),
                reference_read_memory(memory.data(), pieces))
          << target;
    }
  }
}

TEST_F(Product, LargestCodesDoNotOverflow) {
  for (std::int64_t rows = 1; rows <= kTileRows; ++rows) {
    check(TileKind::kS16, {.bits = 8, .outputs = 8, .cols = kMaxExactCols}, rows, true);
    check(TileKind::kU7, {.bits = 8, .outputs = 8, .cols = 4096}, rows, true);
    check(TileKind::kS8, {4, 8, 4096, 32, true}, rows, true);
    check(TileKind::kS8, {.bits = 4, .outputs = 8, .cols = 4096}, rows, true);
  }
}

}  // namespace
}  // namespace pith::kernels
