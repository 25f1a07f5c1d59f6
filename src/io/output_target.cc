#include "src/io/output_target.h"

#include <fmt/format.h>

#include "src/base/text.h"

namespace pith {
namespace {

namespace fs = std::filesystem;

std::optional<Format> format_of_name(const fs::path& path) {
  for (const Format format :
       {Format::kSafetensors, Format::kGguf, Format::kNpz, Format::kNpy}) {
    if (path.extension() == fmt::format(".{}", to_string(format))) return format;
  }
  return std::nullopt;
}

}  // namespace

Result<OutputTarget> find_output_target(const fs::path& input, const fs::path& output,
                                        std::optional<Format> format) {
  std::error_code ignored;
  const std::optional<Format> named = format_of_name(output);
  OutputTarget target;
  target.folder = !output.has_filename() || fs::is_directory(output, ignored) ||
                  (!named && fs::is_directory(input, ignored));
  if (target.folder) {
    target.format = format.value_or(Format::kSafetensors);
    if (target.format != Format::kSafetensors) {
      return Status::invalid_argument(
          fmt::format("output '{}' is a folder, which holds safetensors, not {}",
                      printable(output.native()), to_string(target.format)));
    }
    return target;
  }
  if (!format && !named) {
    return Status::invalid_argument(fmt::format(
        "output '{}': its name does not tell the format; expected .safetensors, "
        ".gguf, .npz or .npy",
        printable(output.native())));
  }
  target.format = format ? *format : *named;
  return target;
}

bool is_real(const Encoding& encoding) {
  if (!encoding.dtype) return true;  // quantized
  switch (*encoding.dtype) {
    case DType::kF8E5M2:
    case DType::kF8E4M3:
    case DType::kF8E4M3Fnuz:
    case DType::kF8E5M2Fnuz:
    case DType::kF16:
    case DType::kBF16:
    case DType::kF32:
    case DType::kF64:
      return true;
    default:
      return false;
  }
}

}  // namespace pith
