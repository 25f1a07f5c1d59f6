// The table of deviations is worth what its references are worth: the tests that it names
// exist, and no entry is there for nothing.
#include "tests/golden/deviations.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
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
    // Only what is skipped, because Pith does not offer it, has no test.
    if (entry.check == nullptr) continue;
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

std::filesystem::path shared_folder() {
  const char* set = std::getenv("PITH_SHARED");
  if (set != nullptr) return set;
  return std::filesystem::path(PITH_SOURCE_DIR).parent_path() / "shared";
}

TEST(GoldenDeviations, EveryEntryIsUsed) {
  const std::filesystem::path folder = shared_folder() / "golden";
  if (!std::filesystem::is_directory(folder)) {
    GTEST_SKIP() << "no folder " << folder << "; PITH_SHARED names another place";
  }
  std::set<const Deviation*> used;
  for (const auto& file : std::filesystem::directory_iterator(folder)) {
    if (file.path().extension() != ".jsonl") continue;
    std::ifstream stream(file.path());
    for (std::string line; std::getline(stream, line);) {
      used.insert(find_deviation(parse_case(line)));
    }
  }
  for (const Deviation& entry : deviations()) {
    EXPECT_TRUE(used.contains(&entry)) << entry.defect << " " << entry.cases;
  }
}

}  // namespace
}  // namespace pith::golden
