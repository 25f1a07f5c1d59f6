// Where the parts of tensors go: names, files, metadata.
#include <fmt/format.h>

#include <map>
#include <set>

#include "pith/base/version.h"
#include "src/io/folder_files.h"
#include "src/io/ggml_blocks.h"
#include "src/io/gguf_rules.h"
#include "src/io/plain.h"
#include "src/pipeline/compress_plan.h"

namespace pith {
namespace {

constexpr const char* kManifestKey = "pith";

class Layouter {
 public:
  explicit Layouter(CompressPlan& plan) : plan_(plan) {
    for (const TensorInfo& info : plan.source->tensors()) names_.insert(info.name);
  }

  Status run(const std::string& config) {
    CheckpointLayout& layout = plan_.layout;
    layout.format = plan_.target.format;
    if (plan_.target.folder) {
      PITH_TRY(FolderContent content, list_folder_files(*plan_.source, plan_.input));
      layout.shards = std::move(content.shards);
      layout.folder_files = std::move(content.files);
      plan_.shown.warnings.insert(plan_.shown.warnings.end(), content.notes.begin(),
                                  content.notes.end());
    }
    for (TensorPlan& tensor : plan_.tensors) {
      if (tensor.stored()) PITH_OK(add(tensor));
    }
    PITH_OK(add_metadata());
    if (plan_.convention == Convention::kCompressedTensors) {
      PITH_TRY(const std::string text, config_with_quantization(plan_, config));
      for (FolderFile& file : layout.folder_files) {
        if (file.name == "config.json") file = {file.name, {}, text};
      }
    }
    PITH_TRY(plan_.shown.output_bytes, stored_bytes(layout));
    return {};
  }

 private:
  Status add(TensorPlan& tensor) {
    if (plan_.target.format == Format::kGguf) return add_gguf(tensor);
    if (plan_.convention == Convention::kCompressedTensors && tensor.record.scheme) {
      return add_module(tensor);
    }
    // Types that manifests do not know are only copied.
    if (tensor.copied && !tensor.record.dtype) {
      add_part(tensor, PartRole::kValues, tensor.record.name, info(tensor).encoding,
               tensor.record.shape);
      return {};
    }
    PITH_TRY(const std::vector<PartLayout> parts, required_parts(tensor.record));
    for (const PartLayout& part : parts) {
      const Encoding encoding = tensor.copied
                                    ? info(tensor).encoding
                                    : plain_encoding(part.dtype, to_string(part.dtype));
      add_part(tensor, part.role, part_name(tensor, part.role), encoding, part.shape);
    }
    if (!tensor.column_scale) return {};
    PITH_TRY(const PartLayout columns, column_scale_layout(tensor.record));
    add_part(tensor, columns.role, part_name(tensor, columns.role),
             plain_encoding(columns.dtype, to_string(columns.dtype)), columns.shape);
    return {};
  }

  Status add_gguf(TensorPlan& tensor) {
    Encoding encoding = info(tensor).encoding;
    if (tensor.record.scheme) {
      encoding = find_ggml_type(*tensor.record.scheme == Scheme::q8_0() ? "Q8_0" : "Q4_0")
                     ->encoding;
    } else if (!tensor.copied) {
      encoding = plain_encoding(*tensor.record.dtype, to_string(*tensor.record.dtype));
    }
    add_part(tensor, tensor.record.scheme ? PartRole::kCodes : PartRole::kValues,
             tensor.record.name, encoding, tensor.record.shape);
    return {};
  }

  // A weight as compressed-tensors stores it: formats/compressed-tensors.
  Status add_module(TensorPlan& tensor) {
    const std::string module = module_of(tensor.record.name);
    const Scheme& scheme = *tensor.record.scheme;
    const std::int64_t rows = tensor.record.shape.rows();
    const std::int64_t cols = tensor.record.shape.cols();
    const auto plain = [](DType dtype) {
      return plain_encoding(dtype, to_string(dtype));
    };
    tensor.packed = scheme.group == Group::kBlock;
    if (tensor.packed) {
      PITH_TRY(const Shape words, Shape::make({rows, (cols * scheme.bits + 31) / 32}));
      add_part(tensor, PartRole::kCodes, module + ".weight_packed", plain(DType::kI32),
               words);
    } else {
      add_part(tensor, PartRole::kCodes, module + ".weight", plain(DType::kI8),
               tensor.record.shape);
    }
    const std::int64_t groups = tensor.packed ? cols / scheme.block_size : 1;
    PITH_TRY(const Shape scales, Shape::make({rows, groups}));
    add_part(tensor, PartRole::kScale, module + ".weight_scale", plain(scheme.scale_type),
             scales);
    if (!tensor.packed) return {};
    PITH_TRY(const Shape two, Shape::make({2}));
    add_part(tensor, PartRole::kShape, module + ".weight_shape", plain(DType::kI64), two);
    return {};
  }

  void add_part(TensorPlan& tensor, PartRole role, const std::string& name,
                const Encoding& encoding, const Shape& shape) {
    tensor.record.parts.push_back({role, name, {}});
    tensor.written.push_back(plan_.layout.tensors.size());
    const std::size_t file = plan_.target.folder ? info(tensor).file : 0;
    plan_.layout.tensors.push_back({name, encoding, shape, file});
    plan_.shown.tensors[tensor.source].bytes_after +=
        shape.elements() / encoding.block * encoding.block_bytes;
  }

  std::string part_name(const TensorPlan& tensor, PartRole role) {
    std::string name = tensor.record.name + std::string(part_suffix(role));
    if (part_suffix(role).empty()) return name;
    while (!names_.insert(name).second) name += '_';
    return name;
  }

  Status add_metadata() {
    CheckpointLayout& layout = plan_.layout;
    const Checkpoint& source = *plan_.source;
    if (layout.format == Format::kGguf) {
      if (source.format() != Format::kGguf) sort_gguf();
      layout.gguf_keys = gguf_keys_for(gguf_keys(source), layout.tensors);
      return {};
    }
    if (layout.format == Format::kNpz && plan_.manifests) return add_manifest_array();
    if (layout.format != Format::kSafetensors) return {};
    bool format = false;
    if (source.format() == Format::kSafetensors) {
      for (const auto& entry : source.metadata()) {
        if (entry.first == kManifestKey) continue;
        layout.metadata.push_back(entry);
        format = format || entry.first == "format";
      }
    }
    if (!format) layout.metadata.emplace_back("format", "pt");
    if (!plan_.manifests) return {};
    const std::size_t files = std::max<std::size_t>(1, layout.shards.size());
    for (std::size_t i = 0; i < files; ++i) {
      PITH_TRY(std::string text, manifest_text(plan_, i, true));
      if (layout.shards.empty()) {
        layout.metadata.emplace_back(kManifestKey, std::move(text));
      } else {
        layout.shard_metadata.push_back({{kManifestKey, std::move(text)}});
      }
    }
    return {};
  }

  Status add_manifest_array() {
    PITH_TRY(const std::string text, manifest_text(plan_, 0, true));
    PITH_TRY(const Shape shape, Shape::make({static_cast<std::int64_t>(text.size())}));
    plan_.manifest_array = plan_.layout.tensors.size();
    plan_.layout.tensors.push_back(
        {std::string(kManifestArray), plain_encoding(DType::kU8, "U8"), shape, 0});
    return {};
  }

  void sort_gguf() {
    std::vector<TensorSpec>& specs = plan_.layout.tensors;
    sort_for_gguf(specs);
    std::map<std::string_view, std::size_t> places;
    for (std::size_t i = 0; i < specs.size(); ++i) places.emplace(specs[i].name, i);
    for (TensorPlan& tensor : plan_.tensors) {
      for (std::size_t p = 0; p < tensor.written.size(); ++p) {
        tensor.written[p] = places.at(tensor.record.parts[p].name);
      }
    }
  }

  [[nodiscard]] const TensorInfo& info(const TensorPlan& tensor) const {
    return plan_.source->tensors()[tensor.source];
  }

  CompressPlan& plan_;
  std::set<std::string> names_;  // that are taken
};

}  // namespace

Status lay_out(CompressPlan& plan, const std::string& config) {
  return Layouter(plan).run(config);
}

Result<std::string> manifest_text(const CompressPlan& plan, std::size_t file,
                                  bool reserve) {
  Manifest manifest;
  manifest.convention = plan.convention;
  manifest.writer = "pith " PITH_VERSION;
  manifest.recipe = plan.recipe;
  for (const TensorPlan& tensor : plan.tensors) {
    if (plan.target.folder && plan.source->tensors()[tensor.source].file != file)
      continue;
    TensorRecord record = tensor.record;
    if (reserve) {
      for (StoredPart& part : record.parts) part.checksum = ~std::uint64_t{0};
      if (!tensor.copied && tensor.stored()) {
        record.error = widest_figures(record.shape.elements());
      }
    }
    manifest.tensors.push_back(std::move(record));
  }
  return manifest_to_json(manifest);
}

}  // namespace pith
