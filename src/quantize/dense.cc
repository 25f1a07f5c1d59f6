#include "pith/quantize/dense.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "src/base/text.h"
#include "src/io/file.h"
#include "src/io/plain.h"
#include "src/io/stored.h"
#include "src/quantize/dense_tensor.h"
#include "src/quantize/quantization_config.h"

namespace pith {
namespace {

class DenseCheckpoint : public Checkpoint {
 public:
  DenseCheckpoint(std::unique_ptr<Checkpoint> stored, DenseView view)
      : stored_(std::move(stored)) {
    files_ = stored_->files();
    metadata_ = stored_->metadata();
    warnings_ = stored_->warnings();
    warnings_.insert(warnings_.end(), view.warnings.begin(), view.warnings.end());
    add_tensors(view);
    index_names();
  }

  [[nodiscard]] Format format() const override { return stored_->format(); }

  Status read_rows(std::size_t tensor, std::int64_t first, std::int64_t rows,
                   std::span<float> out) const override {
    PITH_OK(check_rows(*this, tensor, first, rows, out.size()));
    if (out.empty()) return {};  // a tensor without columns may have any number of rows
    const Source& source = sources_[tensor];
    if (source.values == nullptr) {
      return stored_->read_rows(source.stored, first, rows, out);
    }
    return source.values->read_rows(first, rows, out);
  }

  Status read_bytes(std::size_t tensor, std::int64_t offset,
                    std::span<std::byte> out) const override {
    PITH_OK(check_bytes(*this, tensor, offset, out.size()));
    const Source& source = sources_[tensor];
    if (source.values == nullptr) return stored_->read_bytes(source.stored, offset, out);
    return Status::unsupported(fmt::format(
        "tensor '{}': it is decoded from several parts, and has no bytes of its "
        "own",
        printable(tensors_[tensor].name)));
  }

  Result<std::optional<StoredCodes>> read_codes(std::size_t tensor) const {
    const Source& source = sources_[tensor];
    if (source.values == nullptr) return std::optional<StoredCodes>();
    return source.values->read_codes();
  }
  Result<std::optional<MappedCodes>> map_codes(std::size_t tensor) const {
    const Source& source = sources_[tensor];
    if (source.values == nullptr) return std::optional<MappedCodes>();
    return source.values->map_codes();
  }

 private:
  struct Source {
    std::size_t stored = 0;  // passed through, if there are no values
    std::shared_ptr<const DenseTensor> values;
  };

  // In the order of the data: each tensor in the place of its first part.
  void add_tensors(const DenseView& view) {
    const std::vector<TensorInfo>& stored = stored_->tensors();
    std::vector<bool> used(stored.size(), false);
    for (const std::size_t i : view.hidden) used[i] = true;
    std::vector<std::pair<std::size_t, const DecodedTensor*>> places;
    for (const DecodedTensor& tensor : view.tensors) {
      for (const std::size_t i : tensor.parts) used[i] = true;
      places.emplace_back(tensor.parts.front(), &tensor);
    }
    for (std::size_t i = 0; i < stored.size(); ++i) {
      if (!used[i]) places.emplace_back(i, nullptr);
    }
    std::stable_sort(places.begin(), places.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    for (const auto& [place, tensor] : places) {
      TensorInfo info = stored[place];
      std::shared_ptr<const DenseTensor> values;
      if (tensor != nullptr) {
        info.name = tensor->name;
        values = tensor->values;
        if (values != nullptr) describe(*tensor, info);
      }
      tensors_.push_back(std::move(info));
      sources_.push_back({place, std::move(values)});
    }
  }

  void describe(const DecodedTensor& tensor, TensorInfo& info) const {
    info.shape = tensor.shape;
    info.bytes = 0;
    for (const std::size_t i : tensor.parts) info.bytes += stored_->tensors()[i].bytes;
    info.offset = 0;
    info.encoding = Encoding();
    info.encoding.name = tensor.values->label();
    info.encoding.decodable = true;
  }

  std::unique_ptr<Checkpoint> stored_;
  std::vector<Source> sources_;  // of each of tensors()
};

Result<DenseView> view_folder(const Checkpoint& stored, const InputFolder& folder) {
  auto file = folder.open_file("config.json");
  if (!file) {
    if (file.error().code() != StatusCode::kNotFound) return file.error();
    return view_bitsandbytes(stored);
  }
  auto text = read_config(*file);
  if (!text) return text.error();
  const auto method = quantization_method(*text);
  if (!method) return method.error().with_context(file->name());
  if (*method == "compressed-tensors") {
    return view_compressed_tensors(stored, *text, file->name());
  }
  if (method->empty() || *method == "bitsandbytes") return view_bitsandbytes(stored);
  return Status::unsupported(
      fmt::format("{}: quant_method is '{}', which is not read: compressed-tensors and "
                  "bitsandbytes are",
                  file->name(), printable(*method, 32)));
}

// A file of such a folder alone does not tell what its codes mean.
Status check_alone(const Checkpoint& stored) {
  for (const TensorInfo& info : stored.tensors()) {
    if (info.name.ends_with(".weight_packed") || info.name.ends_with(".weight_scale")) {
      return Status::unsupported(fmt::format(
          "{}: tensor '{}' belongs to a quantized weight: name the folder, whose "
          "config.json tells how to read it",
          printable(stored.files()[info.file].native(), 160), printable(info.name)));
    }
  }
  return {};
}

Result<DenseView> view_of(const Checkpoint& stored, const std::filesystem::path& path) {
  if (stored.format() == Format::kNpz) return view_pith(stored);
  if (stored.format() != Format::kSafetensors) return DenseView();
  PITH_TRY(DenseView own, view_pith(stored));
  if (!own.tensors.empty() || !own.hidden.empty()) return own;
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) {
    PITH_TRY(const InputFolder folder, InputFolder::open(path));
    return view_folder(stored, folder);
  }
  PITH_OK(check_alone(stored));
  return view_bitsandbytes(stored);
}

// Blocks of GGUF that are Pith's own.
std::optional<Scheme> scheme_of(const TensorInfo& info) {
  if (info.encoding.name == "Q8_0") return Scheme::q8_0();
  if (info.encoding.name == "Q4_0") return Scheme::q4_0();
  return std::nullopt;
}

}  // namespace

Result<std::optional<StoredCodes>> read_codes(const Checkpoint& model,
                                              std::size_t tensor) {
  if (const auto* dense = dynamic_cast<const DenseCheckpoint*>(&model)) {
    return dense->read_codes(tensor);
  }
  const TensorInfo& info = model.tensors()[tensor];
  const auto scheme = scheme_of(info);
  if (model.format() != Format::kGguf || !scheme) return std::optional<StoredCodes>();
  StoredCodes stored;
  stored.tensor.scheme = *scheme;
  stored.tensor.shape = info.shape;
  stored.tensor.codes = Buffer(info.bytes);
  PITH_OK(model.read_bytes(tensor, 0, stored.tensor.codes.bytes()));
  for (std::int64_t b = 0; b < scheme->groups(info.shape); ++b) {
    if (std::isfinite(stored.tensor.scale(b))) continue;
    return StoredTensor(model, tensor)
        .corrupt(fmt::format("the scale of block {} is not finite", b));
  }
  return std::optional(std::move(stored));
}

Result<std::optional<MappedCodes>> map_codes(const Checkpoint& model,
                                             std::size_t tensor) {
  if (const auto* dense = dynamic_cast<const DenseCheckpoint*>(&model)) {
    return dense->map_codes(tensor);
  }
  const TensorInfo& info = model.tensors()[tensor];
  const auto scheme = scheme_of(info);
  if (model.format() != Format::kGguf || !scheme) return std::optional<MappedCodes>();
  PITH_TRY(std::optional<MappedFile> codes, StoredTensor(model, tensor).map());
  if (!codes) return std::optional<MappedCodes>();
  MappedCodes mapped;
  mapped.codes = *std::move(codes);
  mapped.rest.tensor.scheme = *scheme;
  mapped.rest.tensor.shape = info.shape;
  return std::optional(std::move(mapped));
}

Result<std::optional<MappedFile>> StoredTensor::map() const {
  const auto* stored = dynamic_cast<const StoredCheckpoint*>(checkpoint_);
  if (stored == nullptr) return std::optional<MappedFile>();
  PITH_TRY(MappedFile mapped, stored->map(index_));
  return std::optional(std::move(mapped));
}

Status StoredTensor::read_floats(std::int64_t first, std::span<float> out) const {
  const DType dtype = *info().encoding.dtype;
  const std::int64_t size = bits_of(dtype) / 8;
  std::vector<std::byte> bytes(out.size() * static_cast<std::size_t>(size));
  PITH_OK(read(first * size, bytes));
  decode_plain(dtype, bytes, out);
  return {};
}

Status StoredTensor::corrupt(std::string_view why) const {
  return Status::corrupt(fmt::format(
      "{}: tensor '{}': {}", printable(checkpoint_->files()[info().file].native(), 160),
      printable(info().name), why));
}

std::optional<StoredTensor> find_stored(const Checkpoint& checkpoint,
                                        std::string_view name) {
  const std::optional<std::size_t> index = checkpoint.find(name);
  if (!index) return std::nullopt;
  return StoredTensor(checkpoint, *index);
}

std::int64_t rows_at_a_time(std::int64_t cols) {
  return std::max<std::int64_t>(1, (64 << 10) / std::max<std::int64_t>(1, cols));
}

Result<std::unique_ptr<Checkpoint>> open_dense(const std::filesystem::path& path) {
  PITH_TRY(std::unique_ptr<Checkpoint> stored, Checkpoint::open(path));
  PITH_TRY(DenseView view, view_of(*stored, path));
  if (view.tensors.empty() && view.hidden.empty() && view.warnings.empty()) return stored;
  return std::unique_ptr<Checkpoint>(
      std::make_unique<DenseCheckpoint>(std::move(stored), std::move(view)));
}

}  // namespace pith
