// Where an output goes and what it is, as its name and the input tell.
#pragma once

#include <filesystem>
#include <optional>

#include "pith/base/result.h"
#include "pith/io/checkpoint.h"

namespace pith {

struct OutputTarget {
  Format format = Format::kSafetensors;
  bool folder = false;
};

/// A folder if the output is one, is written with a slash, or has no known ending while the
/// input is a folder; else a file of the format that was asked for or that its name ends
/// in. kInvalidArgument if the name does not tell, or a folder is to hold another format
/// than safetensors.
Result<OutputTarget> find_output_target(const std::filesystem::path& input,
                                        const std::filesystem::path& output,
                                        std::optional<Format> format);

/// True for types that are numbers of a network, not indices or masks: floating-point and
/// quantized ones.
[[nodiscard]] bool is_real(const Encoding& encoding);

}  // namespace pith
