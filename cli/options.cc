#include "cli/options.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>

#include "pith/base/threads.h"

namespace pith::cli {

std::optional<std::int64_t> parse_size(const std::string& text) {
  static const std::map<std::string, double> kUnits = {
      {"", 1},         {"B", 1},      {"K", 0x1p10},   {"KiB", 0x1p10}, {"M", 0x1p20},
      {"MiB", 0x1p20}, {"G", 0x1p30}, {"GiB", 0x1p30}, {"T", 0x1p40},   {"TiB", 0x1p40},
      {"kB", 1e3},     {"MB", 1e6},   {"GB", 1e9},     {"TB", 1e12},
  };
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(),
                                            number, std::chars_format::fixed);
  const auto unit = kUnits.find(std::string(end, text.data() + text.size()));
  if (error != std::errc() || unit == kUnits.end()) return std::nullopt;
  const double bytes = number * unit->second;
  if (!(bytes >= 0) || bytes >= 0x1p63) return std::nullopt;
  return static_cast<std::int64_t>(bytes);
}

int thread_count(const CommonOptions& options) {
  return options.threads > 0 ? options.threads : default_threads();
}

void add_common_options(CLI::App& command, CommonOptions& options) {
  command
      .add_option_function<std::string>(
          "--max-memory",
          [&options](const std::string& text) {
            const std::optional<std::int64_t> size = parse_size(text);
            if (!size || *size < (1 << 20)) {
              throw CLI::ValidationError(
                  "--max-memory",
                  fmt::format(
                      "'{}', expected a size of at least 1M, such as 256M or 1GiB",
                      text));
            }
            options.max_memory = *size;
          },
          "Most memory for buffers; default 1GiB, of which a few MiB are used")
      ->type_name("SIZE");
  command
      .add_option(
          "--threads", options.threads,
          "Most threads; by default one per processor. Output does not depend on it")
      ->type_name("N")
      ->check(CLI::Range(1, 1024));
  command.add_flag("--no-progress", options.no_progress, "No progress bar on a terminal");
}

void add_choice(CLI::App& command, const std::string& name,
                const std::vector<std::string>& words,
                const std::function<void(std::size_t)>& set, const std::string& help) {
  std::string names;
  for (const std::string& word : words) names += (names.empty() ? "" : "|") + word;
  command
      .add_option_function<std::string>(
          name,
          [=](const std::string& text) {
            const auto found = std::find(words.begin(), words.end(), text);
            if (found == words.end()) {
              throw CLI::ValidationError(
                  name, fmt::format("'{}', expected one of {}", text, names));
            }
            set(static_cast<std::size_t>(found - words.begin()));
          },
          help)
      ->type_name(names);
}

void add_dtype_option(CLI::App& command, std::optional<DType>& dtype,
                      const std::string& help) {
  static constexpr DType kTypes[] = {DType::kF32, DType::kF16, DType::kBF16};
  add_choice(
      command, "--dtype", {"f32", "f16", "bf16"},
      [&dtype](std::size_t i) { dtype = kTypes[i]; }, help);
}

void add_format_option(CLI::App& command, std::optional<Format>& format) {
  static constexpr Format kFormats[] = {Format::kSafetensors, Format::kGguf, Format::kNpz,
                                        Format::kNpy};
  add_choice(
      command, "--format", {"safetensors", "gguf", "npz", "npy"},
      [&format](std::size_t i) { format = kFormats[i]; },
      "Format of OUT; by default what its name ends in");
}

}  // namespace pith::cli
