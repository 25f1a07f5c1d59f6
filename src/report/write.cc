// A report as a file: the ending of its name says which text.
#include <fmt/format.h>

#include "pith/report/report.h"
#include "src/base/text.h"
#include "src/io/atomic_output.h"

namespace pith {

Status write_report(const Report& report, const std::filesystem::path& path,
                    bool overwrite) {
  const std::filesystem::path ending = path.extension();
  std::string text;
  if (ending == ".json") {
    text = report_json(report);
  } else if (ending == ".md") {
    text = report_markdown(report);
  } else if (ending == ".html" || ending == ".htm") {
    text = report_html(report);
  } else if (ending == ".txt") {
    text = report_summary(report);
  } else {
    return Status::invalid_argument(
        fmt::format("{}: a report ends in .json, .html, .md or .txt, not '{}'",
                    printable(path.string()), printable(ending.string())));
  }
  PITH_TRY(AtomicFile out, AtomicFile::create(path, {.overwrite = overwrite}));
  PITH_OK(out.check_space(text.size()));
  PITH_OK(out.file().write_at(0, text));
  return out.publish(true, nullptr);
}

}  // namespace pith
