// The report as one page: markup, style and program lie beside this file and are put
// into the library when it is built (CMakeLists.txt); the data is the JSON of the report.
#include <fmt/format.h>

#include "pith/report/format.h"
#include "pith/report/report.h"
#include "src/report/page.h"

namespace pith {
namespace {

// For text between tags and in attributes.
std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '&':
        out += "&amp;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

// JSON inside of a <script>: outside of strings it has no < or &, and inside \u003c means
// the same. So nothing in a report can end the script or begin a comment.
std::string inside_script(std::string_view json) {
  std::string out;
  out.reserve(json.size() + json.size() / 16);
  for (const char c : json) {
    switch (c) {
      case '<':
        out += "\\u003c";
        break;
      case '>':
        out += "\\u003e";
        break;
      case '&':
        out += "\\u0026";
        break;
      default:
        out += c;
    }
  }
  return out;
}

}  // namespace

std::string report_html(const Report& report) {
  const std::string title =
      fmt::format("{} - Pith report", report::one_line(report.output.path));
  std::string out;
  std::string_view rest = kPageHtml;
  // {{name}} in the markup, each once.
  while (true) {
    const std::size_t begin = rest.find("{{");
    if (begin == std::string_view::npos) break;
    const std::size_t end = rest.find("}}", begin);
    const std::string_view name = rest.substr(begin + 2, end - begin - 2);
    out += rest.substr(0, begin);
    if (name == "title") out += escaped(title);
    if (name == "summary") out += escaped(report_summary(report));
    if (name == "style") out += kPageCss;
    if (name == "data") out += inside_script(report_json(report));
    if (name == "program") out += kPageJs;
    rest.remove_prefix(end + 2);
  }
  out += rest;
  return out;
}

}  // namespace pith
