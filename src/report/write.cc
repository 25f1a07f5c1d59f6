// A report as a file: the ending of its name says which text.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "pith/report/report.h"
#include "src/base/text.h"
#include "src/io/atomic_output.h"

namespace pith {
namespace {

struct Kind {
  std::string_view ending;
  std::string (*text)(const Report&);
};

constexpr std::array<Kind, 5> kKinds = {{{".json", &report_json},
                                         {".md", &report_markdown},
                                         {".html", &report_html},
                                         {".htm", &report_html},
                                         {".txt", &report_summary}}};

Result<Kind> kind_of(const std::filesystem::path& path) {
  const std::string ending = path.extension().string();
  const auto* const kind = std::ranges::find(kKinds, ending, &Kind::ending);
  if (kind != kKinds.end()) return *kind;
  return Status::invalid_argument(
      fmt::format("{}: a report ends in .json, .html, .md or .txt, not '{}'",
                  printable(path.string()), printable(ending)));
}

}  // namespace

Status check_report_path(const std::filesystem::path& path, bool overwrite) {
  PITH_OK(kind_of(path).status());
  return AtomicFile::create(path, {.overwrite = overwrite}).status();
}

Status write_report(const Report& report, const std::filesystem::path& path,
                    bool overwrite) {
  PITH_TRY(const Kind kind, kind_of(path));
  const std::string text = kind.text(report);
  PITH_TRY(AtomicFile out, AtomicFile::create(path, {.overwrite = overwrite}));
  PITH_OK(out.check_space(text.size()));
  PITH_OK(out.file().write_at(0, text));
  return out.publish(true, nullptr);
}

}  // namespace pith
