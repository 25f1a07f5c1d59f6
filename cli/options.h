// Values on the command line, and the options that commands share.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "pith/io/checkpoint.h"
#include "pith/tensor/dtype.h"

namespace pith::cli {

/// "256M", "1GiB", "1000000", "2GB": K, M, G, T with or without iB are powers of 1024,
/// kB, MB, GB, TB of 1000. Nothing if it is no size or too large.
std::optional<std::int64_t> parse_size(const std::string& text);

struct CommonOptions {
  int threads = 0;  ///< 0: as many as there are processors
  std::int64_t max_memory = std::int64_t{1} << 30;
  bool no_progress = false;
};

/// Of --threads, or as many as this process may use.
int thread_count(const CommonOptions& options);

/// --threads, --max-memory, --no-progress
void add_common_options(CLI::App& command, CommonOptions& options);

/// An option that takes one of several words; `set` is called with the word's number.
void add_choice(CLI::App& command, const std::string& name,
                const std::vector<std::string>& words,
                const std::function<void(std::size_t)>& set, const std::string& help);

/// --dtype f32|f16|bf16
void add_dtype_option(CLI::App& command, std::optional<DType>& dtype,
                      const std::string& help);
/// --format safetensors|gguf|npz|npy
void add_format_option(CLI::App& command, std::optional<Format>& format);

}  // namespace pith::cli
