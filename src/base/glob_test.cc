#include "pith/base/glob.h"

#include <gtest/gtest.h>

#include <string>

namespace pith {
namespace {

TEST(Glob, MatchesWholeNames) {
  EXPECT_TRUE(glob_match("", ""));
  EXPECT_TRUE(glob_match("*", ""));
  EXPECT_TRUE(glob_match("w", "w"));
  EXPECT_FALSE(glob_match("w", "ww"));
  EXPECT_FALSE(glob_match("", "w"));
  EXPECT_TRUE(glob_match("*.weight", "layers.0.weight"));
  EXPECT_FALSE(glob_match("*.weight", "layers.0.weight_scale"));
  EXPECT_TRUE(glob_match("layers.?.*", "layers.7.bias"));
  EXPECT_FALSE(glob_match("layers.?.*", "layers.17.bias"));
  EXPECT_TRUE(glob_match("*a*b*c*", "xxaxxbxxc"));
  EXPECT_TRUE(glob_match("a**b", "ab"));
  EXPECT_FALSE(glob_match("a*b", "abc"));
}

TEST(Glob, Brackets) {
  EXPECT_TRUE(glob_match("layers.[0-3].w", "layers.2.w"));
  EXPECT_FALSE(glob_match("layers.[0-3].w", "layers.4.w"));
  EXPECT_TRUE(glob_match("[!0-3]", "4"));
  EXPECT_FALSE(glob_match("[!0-3]", "3"));
  EXPECT_TRUE(glob_match("[]x]", "]"));
  EXPECT_TRUE(glob_match("[a-]", "-"));
  EXPECT_TRUE(glob_match("[a", "[a"));  // no bracket without its end
  EXPECT_FALSE(glob_match("[abc]", ""));
}

TEST(Glob, NoPatternTakesLong) {
  std::string pattern;
  for (int i = 0; i < 100; ++i) pattern += "a*";
  EXPECT_FALSE(glob_match(pattern + "b", std::string(20000, 'a')));
}

}  // namespace
}  // namespace pith
