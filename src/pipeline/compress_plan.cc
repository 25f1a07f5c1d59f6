#include "src/pipeline/compress_plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "pith/quantize/dense.h"
#include "src/base/text.h"
#include "src/io/file.h"
#include "src/io/folder_files.h"
#include "src/quantize/quantization_config.h"

namespace pith {
namespace {

namespace fs = std::filesystem;

bool is_embedding(const Recipe& recipe, const std::string& name) {
  return recipe.embedding_names.match(name);
}

// Schemes that config.json can describe to engines other than Pith.
bool is_compressed_tensors(const Scheme& scheme) {
  Scheme plain = scheme;
  plain.scale_type = DType::kF32;
  Scheme w8a8 = Scheme::w8a8();
  w8a8.scale_type = DType::kF32;
  Scheme grouped = Scheme::w4a16(scheme.block_size);
  grouped.bits = scheme.bits;
  grouped.scale_type = DType::kF32;
  return plain == w8a8 || (scheme.group == Group::kBlock && plain == grouped);
}

class Chooser {
 public:
  Chooser(const Recipe& recipe, CompressPlan& plan) : recipe_(recipe), plan_(plan) {}

  Status choose() {
    std::vector<TensorHeader> headers;
    std::vector<std::size_t> real;
    const std::vector<TensorInfo>& tensors = plan_.source->tensors();
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      plan_.tensors.emplace_back(i, tensors[i]);
      if (!is_real(tensors[i].encoding)) continue;
      headers.push_back({tensors[i].name, tensors[i].shape});
      real.push_back(i);
    }
    PITH_TRY(const std::vector<RuleChoice> choices, recipe_.choose(headers, false));
    plan_.shown.tensors.resize(tensors.size());
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      PlannedTensor& shown = plan_.shown.tensors[i];
      shown.name = tensors[i].name;
      shown.shape = tensors[i].shape;
      shown.dtype = tensors[i].encoding.name;
      shown.bytes_before = tensors[i].bytes;
      shown.rule = "no real numbers";
    }
    for (std::size_t i = 0; i < real.size(); ++i) {
      TensorPlan& tensor = plan_.tensors[real[i]];
      PlannedTensor& shown = plan_.shown.tensors[real[i]];
      const RuleChoice& choice = choices[i];
      shown.rule = choice.rule != nullptr ? choice.rule->to_string() : choice.reason;
      if (choice.rule != nullptr && !choice.rule->stages.empty()) {
        tensor.rule = choice.rule;
      }
    }
    return {};
  }

  // Engines load only linear layers in this convention; others stay as they are.
  void keep_for_compressed_tensors() {
    for (TensorPlan& tensor : plan_.tensors) {
      if (tensor.rule == nullptr || named_exactly(tensor)) continue;
      const bool quantizes = stored_by(tensor) && stored_by(tensor)->scheme.has_value();
      if (!quantizes || !is_embedding(recipe_, tensor.header.name)) continue;
      tensor.rule = nullptr;
      plan_.shown.tensors[tensor.source].rule =
          "embedding or head: engines load only inner layers compressed";
    }
  }

  // Whether every tensor can be said in the convention of compressed-tensors; why not.
  std::string against_compressed_tensors() const {
    bool any = false;
    for (const TensorPlan& tensor : plan_.tensors) {
      if (tensor.rule == nullptr) continue;
      for (const StagePtr& stage : tensor.rule->stages) {
        if (stage->scales_columns() && stage->skip_reason(tensor.header).empty()) {
          return "it has no factors of columns, which 'smooth' needs";
        }
      }
      const std::optional<Storage> storage = stored_by(tensor);
      if (!storage || !storage->scheme) continue;
      if (!named_exactly(tensor) && is_embedding(recipe_, tensor.header.name)) continue;
      any = true;
      if (!is_compressed_tensors(*storage->scheme)) {
        return fmt::format("{} is none of its schemes: w8a8, w8a16, w4a16",
                           storage->scheme->to_string());
      }
      if (tensor.header.shape.rank() != 2 || module_of(tensor.header.name).empty()) {
        return fmt::format("tensor '{}' is no two-dimensional '.weight' of a module",
                           printable(tensor.header.name));
      }
      if (tensor.rule->store == StoreMode::kSparse) {
        return "it has no sparse tensors that engines still read";
      }
    }
    return any ? "" : "nothing is quantized";
  }

  // Whether a scheme is one of that convention.
  [[nodiscard]] bool wants_compressed_tensors() const {
    return std::ranges::any_of(plan_.tensors, [](const TensorPlan& tensor) {
      if (tensor.rule == nullptr) return false;
      const std::optional<Storage> storage = stored_by(tensor);
      return storage && storage->scheme && is_compressed_tensors(*storage->scheme);
    });
  }

 private:
  [[nodiscard]] static bool named_exactly(const TensorPlan& tensor) {
    return std::any_of(tensor.rule->match.begin(), tensor.rule->match.end(),
                       [&](const NamePattern& pattern) {
                         return pattern.exact() && pattern.match(tensor.header.name);
                       });
  }

  // How the last stage of the rule stores the tensor, if it says so.
  [[nodiscard]] static std::optional<Storage> stored_by(const TensorPlan& tensor) {
    const StagePtr& last = tensor.rule->stages.back();
    if (!last->stores()) return std::nullopt;
    return last->storage({});
  }

  const Recipe& recipe_;
  CompressPlan& plan_;
};

}  // namespace

Result<std::string> read_folder_config(const std::filesystem::path& input) {
  std::error_code ignored;
  if (!fs::is_directory(input, ignored)) return std::string();
  PITH_TRY(const InputFolder folder, InputFolder::open(input));
  const Result<InputFile> file = folder.open_file("config.json");
  if (!file) {
    if (file.error().code() == StatusCode::kNotFound) return std::string();
    return file.error();
  }
  return read_config(*file);
}

namespace {

Status choose_convention(const CompressOptions& options, const std::string& config,
                         Chooser& chooser, CompressPlan& plan) {
  plan.shown.convention = FileConvention::kPith;
  if (plan.target.format != Format::kSafetensors) {
    if (options.convention == FileConvention::kAuto) return {};
    return Status::invalid_argument(
        fmt::format("a convention is for safetensors, but the output is {}",
                    to_string(plan.target.format)));
  }
  std::string why = chooser.against_compressed_tensors();
  if (why.empty() && !plan.target.folder) why = "the output is no folder";
  if (why.empty() && config.empty()) why = "the input has no config.json";
  if (options.convention == FileConvention::kCompressedTensors && !why.empty()) {
    return Status::invalid_argument("compressed-tensors cannot say this: " + why);
  }
  if (options.convention == FileConvention::kAuto && !why.empty() && plan.target.folder &&
      !config.empty() && chooser.wants_compressed_tensors()) {
    plan.shown.warnings.push_back(
        "stored in Pith's own convention, as compressed-tensors cannot say this: " + why);
  }
  if (options.convention == FileConvention::kPith || !why.empty()) return {};
  plan.convention = Convention::kCompressedTensors;
  plan.shown.convention = FileConvention::kCompressedTensors;
  chooser.keep_for_compressed_tensors();
  return {};
}

// Whether two equal tensors would be stored the same way.
bool same_fate(const TensorPlan& a, const TensorPlan& b) {
  return a.copied == b.copied && a.record.scheme == b.record.scheme &&
         a.record.dtype == b.record.dtype &&
         (a.rule == b.rule || (a.stages.empty() && b.stages.empty()));
}

// Aliases need a reader that knows of them.
Status alias_tied(const CompressOptions& options, const std::string& config,
                  CompressPlan& plan) {
  const bool own =
      plan.target.format == Format::kSafetensors && plan.convention == Convention::kPith;
  const bool said_in_config =
      plan.convention == Convention::kCompressedTensors && ties_embeddings(config);
  if (!own && !said_in_config) return {};
  PITH_TRY(const std::vector<std::size_t> tied,
           find_tied(*plan.source, options.recipe.embedding_names, options.cancel));
  for (std::size_t i = 0; i < tied.size(); ++i) {
    if (tied[i] == i) continue;
    TensorPlan& tensor = plan.tensors[i];
    const TensorPlan& target = plan.tensors[tied[i]];
    if (own && !same_fate(tensor, target)) {
      tensor.note = fmt::format("equals '{}', but is stored apart: rules differ",
                                printable(target.header.name));
      continue;
    }
    tensor = TensorPlan(i, plan.source->tensors()[i]);
    tensor.record.kind = StoredKind::kAlias;
    tensor.record.alias_of = target.header.name;
  }
  return {};
}

}  // namespace

std::string module_of(const std::string& name) {
  constexpr std::string_view kWeight = ".weight";
  if (!name.ends_with(kWeight) || name.size() == kWeight.size()) return {};
  return name.substr(0, name.size() - kWeight.size());
}

Result<CompressPlan> make_compress_plan(const fs::path& input, const fs::path& output,
                                        const CompressOptions& options) {
  constexpr std::int64_t kLeastMemory = 1 << 20;
  if (options.max_memory < kLeastMemory) {
    return Status::invalid_argument(
        fmt::format("the memory limit is {} bytes, expected at least {}",
                    options.max_memory, kLeastMemory));
  }
  CompressPlan plan;
  plan.input = input;
  plan.recipe = options.recipe.text;
  PITH_TRY(plan.source, open_dense(input));
  plan.shown.warnings = plan.source->warnings();
  if (!output.empty()) {
    PITH_TRY(plan.target, find_output_target(input, output, options.format));
  } else {
    std::error_code ignored;
    plan.target.folder = fs::is_directory(input, ignored);
    plan.target.format = options.format.value_or(Format::kSafetensors);
    if (plan.target.format != Format::kSafetensors) plan.target.folder = false;
  }
  plan.manifests =
      plan.target.format == Format::kSafetensors ||
      (plan.target.format == Format::kNpz && !plan.source->find(kManifestArray));
  if (plan.target.format == Format::kNpz && !plan.manifests) {
    plan.shown.warnings.push_back(
        fmt::format("a tensor of the input is named '{}': the npz file has no manifest, "
                    "and codes in it "
                    "cannot be read back",
                    kManifestArray));
  }
  PITH_TRY(const std::string config, read_folder_config(input));
  Chooser chooser(options.recipe, plan);
  PITH_OK(chooser.choose());
  PITH_OK(choose_convention(options, config, chooser, plan));
  PITH_OK(decide(options, plan));
  PITH_OK(alias_tied(options, config, plan));
  PITH_OK(lay_out(plan, config));
  describe(options, plan);
  return plan;
}

}  // namespace pith
