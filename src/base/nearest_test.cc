#include "src/base/nearest.h"

#include <gtest/gtest.h>

#include <array>
#include <string>

namespace pith {
namespace {

constexpr std::array<std::string_view, 3> kStages = {"prune", "quantize", "convert"};

TEST(Nearest, SlipsAreFound) {
  EXPECT_EQ(nearest("quantise", kStages), "quantize");
  EXPECT_EQ(nearest("prunes", kStages), "prune");
  EXPECT_EQ(suggestion("quantise", kStages), " Did you mean 'quantize'?");
}

TEST(Nearest, OtherWordsAreNot) {
  EXPECT_EQ(nearest("sparsify", kStages), "");
  EXPECT_EQ(suggestion("sparsify", kStages), " Known are: prune, quantize, convert");
  EXPECT_EQ(nearest(std::string(100000, 'q'), kStages), "");
}

}  // namespace
}  // namespace pith
