#include "cli/terminal.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <nlohmann/json.hpp>

namespace pith::cli {
namespace {

bool is_dumb_terminal() {
  const char* terminal = std::getenv("TERM");
  return terminal != nullptr && std::string_view(terminal) == "dumb";
}

bool is_set(const char* variable) {
  const char* value = std::getenv(variable);
  return value != nullptr && *value != '\0';
}

std::string human_time(double seconds) {
  if (seconds < 60) return fmt::format("{:.0f} s", seconds);
  const auto whole = static_cast<std::int64_t>(seconds);
  if (whole < 3600) return fmt::format("{}:{:02} min", whole / 60, whole % 60);
  return fmt::format("{}:{:02} h", whole / 3600, whole / 60 % 60);
}

std::size_t terminal_width() {
  winsize size{};
  if (::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return 80;
  return size.ws_col;
}

bool is_continuation(char c) { return (static_cast<unsigned char>(c) & 0xc0) == 0x80; }

}  // namespace

std::string escape_controls(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    // 80 to 9F are control characters too; in UTF-8 they come after C2.
    const bool second_table = byte == 0xc2 && i + 1 < text.size() &&
                              static_cast<unsigned char>(text[i + 1]) < 0xa0;
    if (byte == '\n') {
      out += "\\n";
    } else if (byte < 0x20 || byte == 0x7f || second_table) {
      out += fmt::format("\\x{:02x}", byte);
    } else {
      out += text[i];
    }
  }
  return out;
}

std::string json_text(const nlohmann::ordered_json& document) {
  return document.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

std::size_t display_width(std::string_view text) {
  return text.size() - static_cast<std::size_t>(
                           std::count_if(text.begin(), text.end(), is_continuation));
}

std::string format_table(const std::vector<std::vector<std::string>>& rows,
                         const std::vector<bool>& right, bool bold_head) {
  std::vector<std::size_t> widths(right.size(), 0);
  for (const std::vector<std::string>& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      widths[i] = std::max(widths[i], display_width(row[i]));
    }
  }
  std::string out;
  for (std::size_t r = 0; r < rows.size(); ++r) {
    std::string line;
    for (std::size_t i = 0; i < rows[r].size(); ++i) {
      const std::string fill(widths[i] - display_width(rows[r][i]), ' ');
      line += i == 0 ? "" : "  ";
      line += right[i] ? fill + rows[r][i] : rows[r][i] + fill;
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += r == 0 && bold_head ? fmt::format("\x1b[1m{}\x1b[0m\n", line) : line + "\n";
  }
  return out;
}

bool decorate_results() {
  return ::isatty(STDOUT_FILENO) == 1 && !is_set("NO_COLOR") && !is_dumb_terminal();
}

ProgressBar::ProgressBar(bool wanted)
    : active_(wanted && ::isatty(STDERR_FILENO) == 1 && !is_dumb_terminal()),
      begin_(Clock::now()),
      last_(begin_) {}

ProgressBar::~ProgressBar() {
  constexpr std::string_view kClear = "\r\x1b[K";
  if (visible_ && ::write(STDERR_FILENO, kClear.data(), kClear.size()) < 0) return;
}

ProgressFunction ProgressBar::function() {
  if (!active_) return {};
  return [this](const Progress& progress) { show(progress); };
}

void ProgressBar::show(const Progress& progress) {
  const Clock::time_point now = Clock::now();
  if (now - last_ < std::chrono::milliseconds(100)) return;
  last_ = now;
  const double seconds = std::chrono::duration<double>(now - begin_).count();
  const std::string line =
      fmt::format("\r{}\x1b[K", progress_line(progress, seconds, terminal_width() - 1));
  visible_ = ::write(STDERR_FILENO, line.data(), line.size()) >= 0;
}

std::string progress_line(const Progress& progress, double seconds, std::size_t width) {
  const auto done = static_cast<double>(progress.done);
  const auto total = static_cast<double>(std::max<std::int64_t>(1, progress.total));
  const double share = std::clamp(done / total, 0.0, 1.0);
  const double speed = seconds > 0 ? done / seconds : 0;
  constexpr std::size_t kBar = 24;
  const auto filled = static_cast<std::size_t>(share * kBar);
  std::string line =
      fmt::format("[{}{}] {:3.0f} %  {}/s", std::string(filled, '#'),
                  std::string(kBar - filled, ' '), share * 100, human_bytes(speed));
  if (speed > 0) line += fmt::format("  {} left", human_time((total - done) / speed));
  line += "  " + escape_controls(progress.item);
  while (display_width(line) > width) line.pop_back();
  while (!line.empty() && is_continuation(line.back())) line.pop_back();
  return line;
}

}  // namespace pith::cli
