// Reports, byte by byte: what is accepted can be shown in every way, and comes back.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "fuzz/check.h"
#include "pith/report/report.h"

namespace pith::fuzz {
namespace {

std::size_t count(const std::string& text, const char* part) {
  std::size_t found = 0;
  for (std::size_t at = 0; (at = text.find(part, at)) != std::string::npos; ++at) ++found;
  return found;
}

void run_report(std::string_view text) {
  const Result<Report> report = parse_report(text);
  if (!report) return check_refusal(report.error());
  const std::string written = report_json(*report);
  const Result<Report> again = parse_report(written);
  require(again.has_value(), "a written report is refused");
  require(report_json(*again) == written, "a report changes");
  const std::string summary = report_summary(*report);
  for (const char c : summary) {
    require(static_cast<unsigned char>(c) >= 0x20 || c == '\n', "a control character");
  }
  require(!report_markdown(*report).empty(), "no Markdown");
  // The data and the program of the page, and nothing that a name brought along.
  const std::string page = report_html(*report);
  require(count(page, "</script") == 2 && count(page, "<script") == 2,
          "a script too many");
}

}  // namespace
}  // namespace pith::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  pith::fuzz::run_report({reinterpret_cast<const char*>(data), size});
  return 0;
}
