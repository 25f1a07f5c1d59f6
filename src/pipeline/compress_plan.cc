#include "src/pipeline/compress_plan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/stat.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "pith/quantize/dense.h"
#include "pith/tensor/view.h"
#include "src/base/parallel.h"
#include "src/base/text.h"
#include "src/io/file.h"
#include "src/io/folder_files.h"
#include "src/io/gguf_rules.h"
#include "src/io/pieces.h"
#include "src/quantize/quantization_config.h"

namespace pith {
namespace {

namespace fs = std::filesystem;

bool is_embedding(const Recipe& recipe, const std::string& name) {
  return recipe.embedding_names.match(name);
}

bool is_float16or32(std::optional<DType> dtype) {
  return dtype == DType::kF32 || dtype == DType::kF16 || dtype == DType::kBF16;
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

class Planner {
 public:
  Planner(const CompressOptions& options, CompressPlan& plan)
      : options_(options), recipe_(options.recipe), plan_(plan) {}

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
      for (const StagePtr& stage : tensor.rule->stages) {
        if (stage->storage({}).column_scale &&
            stage->skip_reason(tensor.header).empty()) {
          return "it has no factors of columns, which 'smooth' needs";
        }
      }
    }
    return any ? "" : "nothing is quantized";
  }

  Status decide() {
    for (TensorPlan& tensor : plan_.tensors) PITH_OK(decide(tensor));
    return check_stages();
  }

 private:
  [[nodiscard]] const TensorInfo& info(const TensorPlan& tensor) const {
    return plan_.source->tensors()[tensor.source];
  }

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

  // A stage that leaves all tensors of its rule does nothing, which nobody wants.
  [[nodiscard]] Status check_stages() const {
    for (const auto& [stage, use] : uses_) {
      if (use.taken > 0) continue;
      return Status::invalid_argument(
          fmt::format("rule {}: stage '{}' takes none of its {} tensors: '{}' {}",
                      use.rule->to_string(), stage->name(), use.left,
                      printable(use.first), use.reason));
    }
    return {};
  }

  Status decide(TensorPlan& tensor) {
    const TensorInfo& source = info(tensor);
    TensorRecord& record = tensor.record;
    if (tensor.rule == nullptr) return keep(tensor);
    PITH_OK(check_source(tensor));
    const auto& stages = tensor.rule->stages;
    for (std::size_t i = 0; i + 1 < stages.size(); ++i) {
      if (!stages[i]->stores()) continue;
      return Status::invalid_argument(fmt::format(
          "rule {}: stage '{}' comes after '{}', which stores the tensor: put it last",
          tensor.rule->to_string(), stages[i + 1]->name(), stages[i]->name()));
    }
    Storage storage{
        is_float16or32(source.encoding.dtype) ? *source.encoding.dtype : DType::kF32, {}};
    for (const StagePtr& stage : stages) {
      StageUse& use = uses_[stage];
      if (const std::string reason = stage->skip_reason(tensor.header); !reason.empty()) {
        if (use.left++ == 0)
          use = {tensor.rule, tensor.header.name, reason, use.taken, 1};
        tensor.note = fmt::format("stage '{}' leaves it: it {}", stage->name(), reason);
        tensor.after_stages.push_back(storage);
        continue;
      }
      ++use.taken;
      if (stage->joint()) {
        return Status::unsupported(
            fmt::format("rule {}: stage '{}' has the scope global, but files are "
                        "compressed tensor by "
                        "tensor; choose the scope tensor or row",
                        tensor.rule->to_string(), stage->name()));
      }
      if (!stage->stores()) {
        PITH_OK(
            stage->fits(tensor.header).with_context("rule " + tensor.rule->to_string()));
        tensor.stages.push_back(stage);
        PITH_OK(scale_columns(tensor, *stage, storage));
      } else {
        PITH_TRY(storage, store(tensor, *stage, storage));
      }
      tensor.after_stages.push_back(storage);
    }
    if (tensor.stages.empty() && !storage.scheme &&
        storage.dtype == source.encoding.dtype) {
      return keep(tensor);
    }
    record.kind = storage.scheme ? StoredKind::kQuantized : StoredKind::kConverted;
    if (storage.scheme) {
      record.scheme = storage.scheme;
    } else {
      record.dtype = storage.dtype;
    }
    return choose_sparse(tensor);
  }

  // If the stage scales columns, only Pith's own files hold the factors.
  Status scale_columns(TensorPlan& tensor, const Stage& stage, Storage& storage) const {
    if (!stage.storage({}).column_scale) return {};
    if (plan_.target.format == Format::kGguf || tensor.column_scale) {
      return Status::invalid_argument(fmt::format(
          "rule {}: stage '{}' {}", tensor.rule->to_string(), stage.name(),
          tensor.column_scale ? "comes twice"
                              : "needs a factor per column, which a GGUF file has not: "
                                "choose a .safetensors output"));
    }
    tensor.column_scale = true;
    storage = stage.storage(storage);
    return {};
  }

  Status check_source(const TensorPlan& tensor) const {
    const TensorInfo& source = info(tensor);
    if (!source.encoding.decodable) {
      return Status::unsupported(
          fmt::format("tensor '{}': {} cannot be decoded, only kept: add a rule with "
                      "'stages: []' for it, or --ignore it",
                      printable(source.name), source.encoding.name));
    }
    if (source.encoding.dtype || options_.allow_requantize) return {};
    return Status::unsupported(fmt::format(
        "tensor '{}' is quantized already ({}): compressing it again adds to its error; "
        "--allow-requantize does so",
        printable(source.name), source.encoding.name));
  }

  // What the last stage asks for, or what the format has instead.
  Result<Storage> store(TensorPlan& tensor, const Stage& stage, const Storage& before) {
    Storage storage = stage.storage(before);
    const bool gguf = plan_.target.format == Format::kGguf;
    if (gguf && gguf_wants_f32(tensor.header.name, tensor.header.shape)) {
      tensor.note = "f32, as engines that read GGUF want it";
      return Storage{DType::kF32, {}};
    }
    if (gguf && storage.scheme) {
      if (*storage.scheme != Scheme::q8_0() && *storage.scheme != Scheme::q4_0()) {
        return Status::invalid_argument(
            fmt::format("rule {}: a GGUF file has no {}: choose q8_0 or q4_0, or a "
                        ".safetensors output",
                        tensor.rule->to_string(), storage.scheme->to_string()));
      }
      if (tensor.header.shape.cols() % storage.scheme->block_size != 0) {
        tensor.note = fmt::format("f16: its rows of {} are no multiple of {}",
                                  tensor.header.shape.cols(), storage.scheme->block_size);
        return Storage{DType::kF16, {}};
      }
    }
    if (storage.scheme && plan_.convention == Convention::kCompressedTensors) {
      // Engines load scales in the type of the weights.
      const std::optional<DType> dtype = info(tensor).encoding.dtype;
      storage.scheme->scale_type = is_float16or32(dtype) ? *dtype : DType::kF16;
    }
    PITH_OK(fits(tensor, stage));
    return storage;
  }

  Status fits(const TensorPlan& tensor, const Stage& stage) const {
    const Status status = stage.fits(tensor.header);
    if (status.ok()) return {};
    std::string hint;
    const std::optional<Scheme> scheme = stage.storage({}).scheme;
    if (scheme && scheme->group == Group::kBlock) {
      // The largest block that divides the row instead.
      std::int64_t size = std::min(scheme->block_size, tensor.header.shape.cols());
      while (size > 1 && (tensor.header.shape.cols() % size != 0 ||
                          (scheme->bits == 4 && size % 2 != 0))) {
        --size;
      }
      if (size > 1) {
        hint = fmt::format(
            "; a block of {} would divide it: give it a rule of its own, or "
            "--ignore it",
            size);
      }
    }
    return {status.code(), fmt::format("rule {}: {}{}", tensor.rule->to_string(),
                                       status.message(), hint)};
  }

  Status keep(TensorPlan& tensor) {
    const TensorInfo& source = info(tensor);
    tensor.rule = nullptr;
    tensor.stages.clear();
    tensor.record.kind = StoredKind::kKept;
    tensor.copied = true;
    if (source.encoding.dtype) tensor.record.dtype = source.encoding.dtype;
    if (plan_.target.format == Format::kGguf) {
      if (is_float16or32(source.encoding.dtype) && source.encoding.dtype != DType::kF32 &&
          plan_.source->format() != Format::kGguf &&
          gguf_wants_f32(source.name, source.shape)) {
        tensor.record.kind = StoredKind::kConverted;
        tensor.record.dtype = DType::kF32;
        tensor.copied = false;
        tensor.note = "f32, as engines that read GGUF want it";
      }
      return {};
    }
    if (source.encoding.dtype) return {};
    // Blocks that only their own format holds.
    if (!options_.allow_requantize || !source.encoding.decodable) {
      return Status::unsupported(fmt::format(
          "tensor '{}' is {} and would be kept, but a {} file cannot hold that; "
          "--allow-requantize decodes it to f16",
          printable(source.name), source.encoding.name, to_string(plan_.target.format)));
    }
    tensor.record.kind = StoredKind::kConverted;
    tensor.record.dtype = DType::kF16;
    tensor.copied = false;
    tensor.note = "decoded to f16";
    return {};
  }

  // Bytes of what a record stores.
  static Result<std::int64_t> bytes_of_record(const TensorRecord& record) {
    PITH_TRY(const std::vector<PartLayout> parts, required_parts(record));
    std::int64_t bytes = 0;
    for (const PartLayout& part : parts) {
      PITH_TRY(const std::int64_t some, pith::bytes_of(part.dtype, part.shape));
      bytes += some;
    }
    return bytes;
  }

  Status choose_sparse(TensorPlan& tensor) {
    const StoreMode mode = tensor.rule->store;
    const bool possible = plan_.target.format == Format::kSafetensors &&
                          plan_.convention == Convention::kPith;
    if (mode == StoreMode::kDense || (mode == StoreMode::kAuto && !possible)) return {};
    std::string why;
    std::optional<std::int64_t> kept;
    if (!possible) {
      why = "only safetensors in Pith's own convention hold sparse tensors";
    } else if (tensor.stages.empty() || !tensor.stages.back()->kept(tensor.header)) {
      why = "no stage before tells from the shape alone how much it keeps";
    } else if (tensor.record.scheme && tensor.record.scheme->layout != Layout::kSplit) {
      why = "blocks with scales inside are dense";
    } else {
      kept = tensor.stages.back()->kept(tensor.header);
    }
    if (!kept) {
      if (mode == StoreMode::kAuto) return {};
      return Status::invalid_argument(
          fmt::format("rule {}: tensor '{}' cannot be stored sparse: {}",
                      tensor.rule->to_string(), printable(tensor.header.name), why));
    }
    TensorRecord sparse = tensor.record;
    sparse.kind = StoredKind::kSparse;
    sparse.kept = *kept;
    PITH_TRY(const std::int64_t sparse_bytes, bytes_of_record(sparse));
    PITH_TRY(const std::int64_t dense_bytes, bytes_of_record(tensor.record));
    if (mode == StoreMode::kSparse || sparse_bytes < dense_bytes) tensor.record = sparse;
    return {};
  }

  // What a stage has to do.
  struct StageUse {
    const Rule* rule = nullptr;
    std::string first = {};  // tensor that it leaves, and why
    std::string reason = {};
    std::int64_t taken = 0;  // tensors
    std::int64_t left = 0;
  };

  const CompressOptions& options_;
  const Recipe& recipe_;
  CompressPlan& plan_;
  std::map<StagePtr, StageUse> uses_;
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
                         Planner& planner, CompressPlan& plan) {
  plan.shown.convention = FileConvention::kPith;
  if (plan.target.format != Format::kSafetensors) {
    if (options.convention == FileConvention::kAuto) return {};
    return Status::invalid_argument(
        fmt::format("a convention is for safetensors, but the output is {}",
                    to_string(plan.target.format)));
  }
  std::string why = planner.against_compressed_tensors();
  if (why.empty() && !plan.target.folder) why = "the output is no folder";
  if (why.empty() && config.empty()) why = "the input has no config.json";
  if (options.convention == FileConvention::kCompressedTensors && !why.empty()) {
    return Status::invalid_argument("compressed-tensors cannot say this: " + why);
  }
  if (options.convention == FileConvention::kPith || !why.empty()) return {};
  plan.convention = Convention::kCompressedTensors;
  plan.shown.convention = FileConvention::kCompressedTensors;
  planner.keep_for_compressed_tensors();
  return {};
}

// Aliases need a reader that knows of them.
Status alias_tied(const CompressOptions& options, const std::string& config,
                  CompressPlan& plan) {
  const bool own =
      plan.target.format == Format::kSafetensors && plan.convention == Convention::kPith;
  const bool said_in_config =
      plan.convention == Convention::kCompressedTensors &&
      config.find("\"tie_word_embeddings\": true") != std::string::npos;
  if (!own && !said_in_config) return {};
  PITH_TRY(const std::vector<std::size_t> tied,
           find_tied(*plan.source, options.recipe.embedding_names, options.cancel));
  for (std::size_t i = 0; i < tied.size(); ++i) {
    if (tied[i] == i) continue;
    TensorPlan& tensor = plan.tensors[i];
    const TensorPlan& target = plan.tensors[tied[i]];
    tensor = TensorPlan(i, plan.source->tensors()[i]);
    tensor.record.kind = StoredKind::kAlias;
    tensor.record.alias_of = target.header.name;
  }
  return {};
}

std::int64_t file_bytes(const fs::path& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 ? status.st_size : 0;
}

// How a tensor is stored, for people.
std::string scheme_text(const TensorPlan& tensor, const TensorInfo& source) {
  if (!tensor.stored()) return "alias";
  if (tensor.copied) return std::string(source.encoding.name);
  std::vector<std::string> words;
  for (const StagePtr& stage : tensor.stages) words.push_back(stage->describe());
  words.push_back(tensor.record.scheme ? tensor.record.scheme->to_string()
                                       : std::string(to_string(*tensor.record.dtype)));
  if (tensor.sparse()) words.emplace_back("sparse");
  return fmt::format("{}", fmt::join(words, ", "));
}

void describe(const CompressOptions& options, CompressPlan& plan) {
  Plan& shown = plan.shown;
  shown.format = plan.target.format;
  for (const fs::path& file : plan.source->files()) shown.input_bytes += file_bytes(file);
  for (const FolderFile& file : plan.layout.folder_files) {
    shown.copied_bytes += file.source.empty()
                              ? static_cast<std::int64_t>(file.text.size())
                              : file_bytes(file.source);
  }
  bool only_pith = false;
  std::int64_t whole = 0;  // bytes of the largest tensor that must be in memory
  for (TensorPlan& tensor : plan.tensors) {
    const TensorInfo& source = plan.source->tensors()[tensor.source];
    PlannedTensor& row = shown.tensors[tensor.source];
    row.scheme = scheme_text(tensor, source);
    row.note = tensor.note;
    row.alias_of = tensor.record.alias_of;
    row.action = !tensor.stored() ? TensorAction::kAliased
                 : tensor.copied  ? TensorAction::kKept
                                  : TensorAction::kCompressed;
    only_pith = only_pith || !tensor.stored() || tensor.record.scheme || tensor.sparse();
    int passes = 1;
    for (const StagePtr& stage : tensor.stages) {
      const Result<std::unique_ptr<StageStream>> stream =
          stage->stream({&tensor.header, 1});
      if (!stream) whole = std::max(whole, 4 * tensor.header.shape.elements());
      passes += stream && (*stream)->needs_pass() ? 2 : 0;
    }
    if (tensor.record.scheme && tensor.record.scheme->group == Group::kTensor) ++passes;
    shown.passes = std::max(shown.passes, passes);
  }
  const std::int64_t buffers =
      std::min(options.max_memory, PieceList::kThreadBytes * most_threads());
  shown.memory_bytes = buffers + whole;
  switch (plan.target.format) {
    case Format::kGguf:
      if (plan.source->format() == Format::kGguf) {
        shown.loads.emplace_back("llama.cpp and other engines that read GGUF");
      } else {
        shown.warnings.emplace_back(
            "a GGUF file made of tensors alone has no architecture and tokenizer keys: "
            "engines cannot run it");
      }
      break;
    case Format::kNpz:
    case Format::kNpy:
      shown.loads.emplace_back("NumPy, as arrays");
      break;
    default:
      if (plan.convention == Convention::kCompressedTensors) {
        shown.loads.emplace_back("transformers and vLLM (compressed-tensors)");
      } else if (!only_pith) {
        shown.loads.emplace_back("every reader of safetensors");
      }
      shown.loads.emplace_back("Pith; 'pith restore' decodes it for others");
  }
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
  plan.manifests = plan.target.format == Format::kSafetensors;
  PITH_TRY(const std::string config, read_folder_config(input));
  Planner planner(options, plan);
  PITH_OK(planner.choose());
  PITH_OK(choose_convention(options, config, planner, plan));
  PITH_OK(planner.decide());
  PITH_OK(alias_tied(options, config, plan));
  PITH_OK(lay_out(plan, config));
  describe(options, plan);
  return plan;
}

}  // namespace pith
