#include "src/kernels/target.h"

#include <gtest/gtest.h>

namespace pith::kernels {
namespace {

TEST(Target, EveryAvailableSetCanBeChosen) {
  const std::vector<std::string> names = available_targets();
  ASSERT_FALSE(names.empty());
  for (const std::string& name : names) {
    ASSERT_TRUE(set_target(name).ok()) << name;
    EXPECT_EQ(active_target().value(), name);
  }
  ASSERT_TRUE(set_target("").ok());
  EXPECT_EQ(active_target().value(), names.front());
}

TEST(Target, UnknownNameSaysWhatThereIs) {
  const Status status = set_target("altivec");
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find(available_targets().front()), std::string::npos);
}

}  // namespace
}  // namespace pith::kernels
