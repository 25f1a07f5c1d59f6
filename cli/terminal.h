// How things look on a terminal.
#pragma once

#include <chrono>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "pith/base/progress.h"
#include "pith/report/format.h"

namespace pith::cli {

/// Control bytes become \x1b or \n: names come from files, and must not command a
/// terminal.
std::string escape_controls(std::string_view text);

using report::counted;
using report::human_bytes;
using report::with_commas;

/// What --json prints; bytes that are no UTF-8, as names of files may have, are replaced.
std::string json_text(const nlohmann::ordered_json& document);

/// Columns the text takes, one for each character.
std::size_t display_width(std::string_view text);

/// Rows of cells as aligned text, two spaces between columns. Columns in `right` are
/// aligned to the right. `bold_head` makes the first row bold.
std::string format_table(const std::vector<std::vector<std::string>>& rows,
                         const std::vector<bool>& right, bool bold_head);

/// Results may be decorated: stdout is a terminal, and NO_COLOR is not set.
bool decorate_results();

/// A bar on stderr that says what is done, how fast, and how long it will take. Shown
/// only on a terminal, at most ten times a second; gone with the object.
class ProgressBar {
 public:
  explicit ProgressBar(bool wanted);
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  /// For the options of the library; must not outlive the bar.
  ProgressFunction function();

 private:
  using Clock = std::chrono::steady_clock;
  void show(const Progress& progress);

  bool active_;
  bool visible_ = false;
  Clock::time_point begin_;
  Clock::time_point last_;
};

/// The text of a bar that fits `width` columns.
std::string progress_line(const Progress& progress, double seconds, std::size_t width);

}  // namespace pith::cli
