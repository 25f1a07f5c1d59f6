#include "pith/pipeline/restore.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "pith/quantize/dense.h"
#include "src/base/text.h"
#include "src/pipeline/compress_engine.h"

namespace pith {
namespace {

namespace fs = std::filesystem;

// A model that is dense again says nothing of quantization.
std::string config_without_quantization(const std::string& config) {
  nlohmann::ordered_json document = nlohmann::ordered_json::parse(config, nullptr, false);
  if (!document.is_object()) return config;
  document.erase("quantization_config");
  return document.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

// Tensors that are plain numbers go over as they are, all others are decoded.
Status decide(const RestoreOptions& options, CompressPlan& plan) {
  const std::vector<TensorInfo>& tensors = plan.source->tensors();
  plan.shown.tensors.resize(tensors.size());
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const Encoding& encoding = tensors[i].encoding;
    TensorPlan& tensor = plan.tensors.emplace_back(i, tensors[i]);
    tensor.copied = encoding.dtype.has_value();
    if (!tensor.copied && !encoding.decodable) {
      return Status::unsupported(fmt::format("tensor '{}': {} cannot be decoded",
                                             printable(tensors[i].name), encoding.name));
    }
    tensor.record.kind = tensor.copied ? StoredKind::kKept : StoredKind::kConverted;
    tensor.record.dtype = tensor.copied ? encoding.dtype : options.dtype;
  }
  return {};
}

}  // namespace

Result<RestoreReport> restore(const fs::path& input, const fs::path& output,
                              const RestoreOptions& options) {
  if (options.dtype != DType::kF32 && options.dtype != DType::kF16 &&
      options.dtype != DType::kBF16) {
    return Status::invalid_argument(
        fmt::format("dtype is {}, expected f32, f16 or bf16", to_string(options.dtype)));
  }
  CompressPlan plan;
  plan.input = input;
  PITH_TRY(plan.source, open_dense(input));
  PITH_TRY(plan.target, find_output_target(input, output, options.format));
  PITH_OK(decide(options, plan));
  PITH_TRY(const std::string config, read_folder_config(input));
  PITH_OK(lay_out(plan, config));
  for (FolderFile& file : plan.layout.folder_files) {
    if (file.name == "config.json" &&
        config.find("\"quantization_config\"") != std::string::npos) {
      file = {file.name, {}, config_without_quantization(config)};
    }
  }
  CompressOptions run;
  run.non_finite = NonFiniteChoice::kKeep;  // as they are decoded
  run.overwrite = options.overwrite;
  run.sync = options.sync;
  run.samples = false;
  run.max_memory = options.max_memory;
  run.cancel = options.cancel;
  run.progress = options.progress;
  PITH_OK(run_plan(plan, output, run).status());

  RestoreReport report;
  report.format = plan.target.format;
  report.notes = plan.source->warnings();
  report.notes.insert(report.notes.end(), plan.shown.warnings.begin(),
                      plan.shown.warnings.end());
  for (const TensorPlan& tensor : plan.tensors) {
    ++report.tensors;
    report.restored += tensor.copied ? 0 : 1;
    report.input_bytes += plan.source->tensors()[tensor.source].bytes;
  }
  report.output_bytes = plan.shown.output_bytes;
  return report;
}

}  // namespace pith
