// The table of deviations is worth what its references are worth: the tests that it names
// exist.
#include "tests/golden/deviations.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>
#include <string>

namespace pith::golden {
namespace {

std::string read_source(std::string_view file) {
  std::ifstream stream(std::filesystem::path(PITH_SOURCE_DIR) / file);
  std::ostringstream text;
  text << stream.rdbuf();
  return text.str();
}

TEST(GoldenDeviations, NamedTestsExist) {
  for (const Deviation& entry : deviations()) {
    SCOPED_TRACE(std::string(entry.defect) + " " + std::string(entry.cases));
    EXPECT_FALSE(entry.pith.empty());
    if (entry.file.empty()) {
      // Only what Pith does not offer has no test.
      EXPECT_TRUE(entry.check == nullptr && entry.defect.empty());
      continue;
    }
    const std::string source = read_source(entry.file);
    ASSERT_FALSE(source.empty()) << entry.file << " cannot be read";
    const std::size_t dot = entry.test.find('.');
    ASSERT_NE(dot, std::string_view::npos) << entry.test;
    const std::regex definition(R"((TEST|TEST_F|TEST_P|RC_GTEST_PROP)\(\s*)" +
                                std::string(entry.test.substr(0, dot)) + R"(,\s*)" +
                                std::string(entry.test.substr(dot + 1)) + R"(\b)");
    EXPECT_TRUE(std::regex_search(source, definition))
        << entry.file << " has no test " << entry.test;
  }
}

}  // namespace
}  // namespace pith::golden
