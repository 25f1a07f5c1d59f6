#include "src/pipeline/journal.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>
#include <xxhash.h>

#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <sstream>

#include "src/base/text.h"

namespace pith {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kFirstLine = "pith journal 1";
constexpr std::size_t kSumDigits = 16;

std::string with_sum(const std::string& line) {
  return fmt::format("{} {:016x}\n", line, XXH3_64bits(line.data(), line.size()));
}

// Lines whose checksum is right, up to the first that is not.
std::vector<std::string> good_lines(std::string_view text) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    if (end == std::string_view::npos || end < kSumDigits + 1) break;
    const std::string line(text.substr(0, end - kSumDigits - 1));
    if (with_sum(line) != text.substr(0, end + 1)) break;
    lines.push_back(line);
    text.remove_prefix(end + 1);
  }
  return lines;
}

// Line breaks would end a line.
std::string one_line(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '\n') {
      out += "\\n";
    } else if (c == '\\') {
      out += "\\\\";
    } else {
      out += c;
    }
  }
  return out;
}

std::string entry_text(const JournalEntry& entry) {
  std::string line = fmt::format("tensor {} {}", entry.tensor, entry.checksums.size());
  for (const std::uint64_t sum : entry.checksums) line += fmt::format(" {:x}", sum);
  line += fmt::format(" {}", entry.nonzero.size());
  for (const std::int64_t count : entry.nonzero) line += fmt::format(" {}", count);
  line += entry.has_figures ? " 1" : " 0";
  const ErrorFigures& f = entry.figures;
  // Hexadecimal, so that sums come back as they were.
  line += fmt::format(" {} {} {} {} {} {:a} {:a} {:a} {:a} {:a} {}", f.count,
                      f.non_finite, f.zeros_before, f.zeros_after, f.saturated,
                      f.sum_error, f.sum_error_squared, f.sum_squared_before,
                      f.sum_squared_after, f.max_error, f.max_index);
  return line;
}

bool read_double(std::istringstream& in, double& value) {
  std::string word;
  if (!(in >> word)) return false;
  char* end = nullptr;
  value = std::strtod(word.c_str(), &end);
  return *end == '\0';
}

bool read_entry(const std::string& line, JournalEntry& entry) {
  std::istringstream in(line);
  std::string word;
  std::size_t count = 0;
  if (!(in >> word >> entry.tensor >> count) || word != "tensor" || count > 16)
    return false;
  for (std::size_t i = 0; i < count; ++i) {
    entry.checksums.emplace_back();
    if (!(in >> std::hex >> entry.checksums.back() >> std::dec)) return false;
  }
  if (!(in >> count) || count > 1000) return false;
  for (std::size_t i = 0; i < count; ++i) {
    entry.nonzero.emplace_back();
    if (!(in >> entry.nonzero.back())) return false;
  }
  ErrorFigures& f = entry.figures;
  if (!(in >> entry.has_figures >> f.count >> f.non_finite >> f.zeros_before >>
        f.zeros_after >> f.saturated)) {
    return false;
  }
  return read_double(in, f.sum_error) && read_double(in, f.sum_error_squared) &&
         read_double(in, f.sum_squared_before) && read_double(in, f.sum_squared_after) &&
         read_double(in, f.max_error) && static_cast<bool>(in >> f.max_index);
}

Status write_all(int fd, std::string_view text, const fs::path& path) {
  while (!text.empty()) {
    const ssize_t written = ::write(fd, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) {
      return output_error(written == 0 ? ENOSPC : errno, printable(path.native(), 160),
                          "the journal cannot be written");
    }
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  return {};
}

}  // namespace

fs::path journal_path(const fs::path& output) {
  const fs::path plain = output.has_filename() ? output : output.parent_path();
  return plain.parent_path() / fmt::format(".pith-{}.journal", plain.filename().string());
}

std::string part_name(const fs::path& output) {
  const fs::path plain = output.has_filename() ? output : output.parent_path();
  return fmt::format(".pith-{}.part", plain.filename().string());
}

Result<Journal> Journal::read(const fs::path& path, const Fingerprint& fingerprint,
                              bool resume) {
  Journal journal;
  journal.path_ = path;
  std::vector<std::string> wanted = {std::string(kFirstLine)};
  for (const auto& [name, text] : fingerprint) {
    wanted.push_back(fmt::format("{}: {}", name, one_line(text)));
  }
  wanted.emplace_back("begin");
  bool begun = false;
  if (resume) {
    std::ifstream file(path, std::ios::binary);
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    const std::vector<std::string> lines = good_lines(text);
    // One that was killed before the fingerprint was complete has nothing to continue.
    begun = lines.size() >= wanted.size();
    for (std::size_t i = 0; i < wanted.size() && i < lines.size(); ++i) {
      if (lines[i] == wanted[i]) continue;
      return Status::invalid_argument(fmt::format(
          "{}: the run that was killed had another {} ('{}', now '{}'); run without "
          "--resume to begin anew",
          printable(path.native(), 160),
          i == 0 ? "version" : fingerprint[std::min(i - 1, fingerprint.size() - 1)].first,
          printable(lines[i], 64), printable(wanted[i], 64)));
    }
    for (std::size_t i = wanted.size(); begun && i < lines.size(); ++i) {
      JournalEntry entry;
      if (!read_entry(lines[i], entry)) break;
      journal.entries_.push_back(std::move(entry));
    }
  }
  journal.head_ = std::move(wanted);
  return journal;
}

Status Journal::begin() {
  fd_ =
      ::open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0666);
  if (fd_ < 0) {
    return output_error(errno, printable(path_.native(), 160),
                        "the journal cannot be created");
  }
  std::string text;
  for (const std::string& line : head_) text += with_sum(line);
  for (const JournalEntry& entry : entries_) text += with_sum(entry_text(entry));
  return write_all(fd_, text, path_);
}

Journal::~Journal() {
  if (fd_ >= 0) ::close(fd_);
}

Journal::Journal(Journal&& other) noexcept
    : path_(std::move(other.path_)),
      fd_(std::exchange(other.fd_, -1)),
      head_(std::move(other.head_)),
      entries_(std::move(other.entries_)) {}

Journal& Journal::operator=(Journal&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(fd_, other.fd_);
  std::swap(head_, other.head_);
  std::swap(entries_, other.entries_);
  return *this;
}

Status Journal::add(const JournalEntry& entry) {
  if (fd_ < 0) return {};
  return write_all(fd_, with_sum(entry_text(entry)), path_);
}

void Journal::remove() noexcept {
  if (fd_ < 0) return;
  ::unlink(path_.c_str());
  ::close(std::exchange(fd_, -1));
}

}  // namespace pith
