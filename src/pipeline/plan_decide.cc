// What becomes of each tensor by its rule: stages, scheme, sparse or dense, fallbacks.
#include <fmt/format.h>

#include <algorithm>

#include "pith/tensor/view.h"
#include "src/base/text.h"
#include "src/io/gguf_rules.h"
#include "src/pipeline/compress_plan.h"

namespace pith {
namespace {

bool is_float16or32(std::optional<DType> dtype) {
  return dtype == DType::kF32 || dtype == DType::kF16 || dtype == DType::kBF16;
}

class Decider {
 public:
  Decider(const CompressOptions& options, CompressPlan& plan)
      : options_(options), plan_(plan) {}

  Status run() {
    for (TensorPlan& tensor : plan_.tensors) PITH_OK(decide(tensor));
    return check_stages();
  }

 private:
  // What a stage has to do.
  struct StageUse {
    const Stage* stage;
    const Rule* rule;
    std::string first = {};  // tensor that it leaves, and why
    std::string reason = {};
    std::int64_t taken = 0;  // tensors
    std::int64_t left = 0;
  };

  [[nodiscard]] const TensorInfo& info(const TensorPlan& tensor) const {
    return plan_.source->tensors()[tensor.source];
  }

  // A stage that leaves all tensors of its rule does nothing, which nobody wants.
  [[nodiscard]] Status check_stages() const {
    for (const StageUse& use : uses_) {
      if (use.taken > 0 || use.left == 0) continue;
      return Status::invalid_argument(
          fmt::format("rule {}: stage '{}' takes none of its {} tensors: '{}' {}",
                      use.rule->to_string(), use.stage->name(), use.left,
                      printable(use.first), use.reason));
    }
    return {};
  }

  StageUse& use_of(const Stage& stage, const Rule& rule) {
    const auto found = std::find_if(uses_.begin(), uses_.end(), [&](const StageUse& use) {
      return use.stage == &stage;
    });
    if (found != uses_.end()) return *found;
    return uses_.emplace_back(StageUse{&stage, &rule});
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
      StageUse& use = use_of(*stage, *tensor.rule);
      if (const std::string reason = stage->skip_reason(tensor.header); !reason.empty()) {
        const bool empty = tensor.header.shape.elements() == 0;  // no stage minds
        if (!empty && use.left++ == 0) {
          use.first = tensor.header.name;
          use.reason = reason;
        }
        tensor.note = fmt::format("stage '{}' leaves it: it {}", stage->name(), reason);
        tensor.after_stages.push_back(storage);
        continue;
      }
      ++use.taken;
      if (stage->joint() && !tensor.stages.empty()) {
        return Status::unsupported(fmt::format(
            "rule {}: stage '{}' has the scope global, but comes after '{}': put it "
            "first",
            tensor.rule->to_string(), stage->name(), tensor.stages.back()->name()));
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
    if (!stage.scales_columns()) return {};
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

  const CompressOptions& options_;
  CompressPlan& plan_;
  std::vector<StageUse> uses_;  // in the order of the tensors
};

}  // namespace

Status decide(const CompressOptions& options, CompressPlan& plan) {
  return Decider(options, plan).run();
}

}  // namespace pith
