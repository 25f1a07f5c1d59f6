// pith_golden FILE.jsonl...: runs golden vectors against the library.
//
// Prints every failure (case, expected, got) and last `N passed, M failed, K skipped`.
// Exit code 0 if nothing failed, 1 if something did, 2 if a file cannot be read or none
// is given.
// `--deviations` prints the table of deliberate deviations instead.
#include <fmt/format.h>

#include <cstdio>
#include <fstream>
#include <string>
#include <string_view>

#include "tests/golden/case.h"
#include "tests/golden/deviations.h"

namespace {

using pith::golden::Case;
using pith::golden::Finding;
using pith::golden::Verdict;

struct Counts {
  int passed = 0;
  int deviating = 0;  // of those that passed
  int failed = 0;
  int skipped = 0;

  Counts& operator+=(const Counts& other) {
    passed += other.passed;
    deviating += other.deviating;
    failed += other.failed;
    skipped += other.skipped;
    return *this;
  }
};

void run_line(const std::string& line, std::string_view place, Counts& counts) {
  Case item;
  try {
    item = pith::golden::parse_case(line);
  } catch (const pith::golden::BadCase& error) {
    ++counts.failed;
    fmt::print("FAIL {}: no case: {}\n", place, error.what());
    return;
  }
  const Finding finding = pith::golden::run_case(item);
  switch (finding.verdict) {
    case Verdict::kPassed:
      ++counts.passed;
      break;
    case Verdict::kDeviates:
      ++counts.passed;
      ++counts.deviating;
      break;
    case Verdict::kSkipped:
      ++counts.skipped;
      break;
    case Verdict::kFailed:
      ++counts.failed;
      fmt::print("FAIL {}\n     {}\n", item.name, finding.text);
      break;
  }
}

bool run_file(const char* path, Counts& total) {
  std::ifstream file(path);
  if (!file) {
    fmt::print(stderr, "pith_golden: {}: cannot be opened\n", path);
    return false;
  }
  Counts counts;
  std::string line;
  for (int number = 1; std::getline(file, line); ++number) {
    if (!line.empty()) run_line(line, fmt::format("{}:{}", path, number), counts);
  }
  if (file.bad()) {
    fmt::print(stderr, "pith_golden: {}: cannot be read\n", path);
    return false;
  }
  fmt::print(
      "{}: {} as the reference, {} as the table of deviations, {} failed, {} skipped\n",
      path, counts.passed - counts.deviating, counts.deviating, counts.failed,
      counts.skipped);
  total += counts;
  return true;
}

void print_deviations() {
  for (const pith::golden::Deviation& entry : pith::golden::deviations()) {
    fmt::print("defect:{} {}\n    Pith {}\n    {}: {} {}\n", entry.defect, entry.cases,
               entry.pith,
               entry.check == nullptr ? "skipped, see" : "checked here and in",
               entry.file, entry.test);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 2 && std::string_view(argv[1]) == "--deviations") {
    print_deviations();
    return 0;
  }
  if (argc < 2) {
    fmt::print(stderr, "usage: pith_golden FILE.jsonl... | --deviations\n");
    return 2;
  }
  Counts total;
  bool readable = true;
  for (int i = 1; i < argc; ++i) readable = run_file(argv[i], total) && readable;
  fmt::print("{} passed, {} failed, {} skipped\n", total.passed, total.failed,
             total.skipped);
  if (!readable) return 2;
  return total.failed == 0 ? 0 : 1;
}
