#include "src/io/pytorch.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/base/checked.h"
#include "src/base/text.h"
#include "src/io/pickle.h"
#include "src/io/plain.h"
#include "src/io/views.h"

namespace pith {
namespace {

constexpr std::string_view kPickle = "/data.pkl";
constexpr std::uint64_t kMaxPickle = 64 << 20;

std::string_view encoding_name(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return "F32";
    case DType::kF64:
      return "F64";
    case DType::kF16:
      return "F16";
    case DType::kBF16:
      return "BF16";
    case DType::kI64:
      return "I64";
    case DType::kI32:
      return "I32";
    case DType::kI16:
      return "I16";
    case DType::kI8:
      return "I8";
    case DType::kU8:
      return "U8";
    default:
      return "BOOL";
  }
}

// The folder that all entries are in, as "name/"; nothing if there is no data.pkl
// directly below a folder.
std::optional<std::string> root_of(const ZipArchive& zip) {
  for (const ZipEntry& entry : zip.entries()) {
    if (!entry.name.ends_with(kPickle)) continue;
    const std::string_view root =
        std::string_view(entry.name).substr(0, entry.name.size() - kPickle.size());
    if (root.find('/') == std::string_view::npos) return std::string(root) + "/";
  }
  return std::nullopt;
}

class PytorchCheckpoint : public ViewCheckpoint {
 public:
  PytorchCheckpoint(std::unique_ptr<ByteSource> source, ZipArchive zip,
                    std::filesystem::path path)
      : source_(std::move(source)), zip_(std::move(zip)) {
    set_file(std::move(path), source_->name());
    warnings_ = zip_.warnings();
    for (std::size_t i = 0; i < zip_.entries().size(); ++i) {
      by_name_.emplace(zip_.entries()[i].name, i);
    }
  }

  [[nodiscard]] Format format() const override { return Format::kPytorch; }

  Status read() {
    const std::string root = root_of(zip_).value();
    for (const ZipEntry& entry : zip_.entries()) {
      if (entry.name.starts_with(root)) continue;
      return Status::corrupt(
          fmt::format("entry '{}' is not in the folder of the pickle, '{}'",
                      printable(entry.name), printable(root)));
    }
    PITH_OK(check_byte_order(root));
    const std::size_t pickle = by_name_.at(root + "data.pkl");
    PITH_TRY(const std::vector<std::byte> bytes, read_entry(pickle, kMaxPickle));
    Result<PickledModel> model = read_state_dict(bytes);
    if (!model) {
      return model.error().with_context(printable(zip_.entries()[pickle].name, 60));
    }
    std::vector<std::size_t> entries;
    for (const PickledStorage& storage : model->storages) {
      PITH_TRY(const std::size_t entry, find_storage(root, storage));
      entries.push_back(entry);
      storages_.push_back(zip_.open_entry(entry));
    }
    for (PickledTensor& tensor : model->tensors) {
      const ZipEntry& entry = zip_.entries()[entries[tensor.storage]];
      const DType dtype = model->storages[tensor.storage].dtype;
      add(std::move(tensor), dtype, entry);
    }
    metadata_ = std::move(model->values);
    index_names();
    return {};
  }

 private:
  Result<std::vector<std::byte>> read_entry(std::size_t index,
                                            std::uint64_t limit) const {
    const ZipEntry& entry = zip_.entries()[index];
    if (entry.uncompressed > limit) {
      return Status::unsupported(
          fmt::format("entry '{}' has {} bytes, at most {} are read",
                      printable(entry.name), entry.uncompressed, limit));
    }
    std::vector<std::byte> bytes(static_cast<std::size_t>(entry.uncompressed));
    PITH_OK(zip_.open_entry(index)->read(0, bytes));
    return bytes;
  }

  Status check_byte_order(const std::string& root) const {
    const auto found = by_name_.find(root + "byteorder");
    if (found == by_name_.end()) return {};
    PITH_TRY(const std::vector<std::byte> bytes, read_entry(found->second, 16));
    const std::string_view order(reinterpret_cast<const char*>(bytes.data()),
                                 bytes.size());
    if (order == "little") return {};
    return Status::unsupported(
        fmt::format("byte order '{}', expected 'little'", printable(order)));
  }

  Result<std::size_t> find_storage(const std::string& root,
                                   const PickledStorage& storage) const {
    const auto found = by_name_.find(root + "data/" + storage.key);
    if (found == by_name_.end()) {
      return Status::corrupt(fmt::format("storage '{}': there is no entry '{}data/{}'",
                                         printable(storage.key, 40), printable(root, 40),
                                         printable(storage.key, 40)));
    }
    const ZipEntry& entry = zip_.entries()[found->second];
    const CheckedSize bytes = CheckedSize::from_signed(storage.elements) *
                              static_cast<std::uint64_t>(bits_of(storage.dtype) / 8);
    if (!bytes.valid() || bytes.value() != entry.uncompressed) {
      return Status::corrupt(fmt::format("storage '{}' of {} {} elements has {} bytes",
                                         printable(storage.key, 40), storage.elements,
                                         to_string(storage.dtype), entry.uncompressed));
    }
    return found->second;
  }

  void add(PickledTensor tensor, DType dtype, const ZipEntry& entry) {
    TensorInfo info;
    info.name = std::move(tensor.name);
    info.encoding = plain_encoding(dtype, encoding_name(dtype));
    info.shape = Shape::make(tensor.sizes).value();  // checked with the pickle
    TensorBytes bytes;
    bytes.view.source = storages_[tensor.storage].get();
    bytes.view.item_bytes = info.encoding.block_bytes;
    if (info.shape.elements() > 0) {  // else the offset may be anything
      bytes.view.begin = static_cast<std::uint64_t>(tensor.offset) *
                         static_cast<std::uint64_t>(info.encoding.block_bytes);
    }
    bytes.view.extents = std::move(tensor.sizes);
    bytes.view.strides = std::move(tensor.strides);
    if (!entry.deflated && info.shape.elements() > 0 && is_row_major(bytes.view)) {
      info.offset = entry.data_begin + bytes.view.begin;
    }
    add_tensor(std::move(info), std::move(bytes));
  }

  std::unique_ptr<ByteSource> source_;
  ZipArchive zip_;
  std::map<std::string, std::size_t> by_name_;  // entries
  std::vector<std::unique_ptr<ByteSource>> storages_;
};

}  // namespace

bool is_pytorch(const ZipArchive& zip) { return root_of(zip).has_value(); }

CheckpointResult read_pytorch(std::unique_ptr<ByteSource> source, ZipArchive zip,
                              std::filesystem::path path) {
  auto checkpoint = std::make_unique<PytorchCheckpoint>(std::move(source), std::move(zip),
                                                        std::move(path));
  PITH_OK(checkpoint->read());
  return std::unique_ptr<Checkpoint>(std::move(checkpoint));
}

CheckpointResult open_legacy_pickle(InputFile file) {
  // torch.save before version 1.6 begins with a pickled magic number.
  constexpr std::string_view kLegacy =
      "\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19\x2e";
  std::array<char, kLegacy.size()> start = {};
  const auto known = std::span(start).first(
      static_cast<std::size_t>(std::min<std::uint64_t>(start.size(), file.size())));
  PITH_OK(file.read_exact(0, std::as_writable_bytes(known)));
  const bool legacy = std::string_view(known.data(), known.size()) == kLegacy;
  return Status::unsupported(fmt::format(
      "{}: {}, which could run any code when it is loaded: convert it to safetensors "
      "where "
      "it is trusted, or save it again with torch.save of version 1.6 or later",
      file.name(), legacy ? "a PyTorch file from before version 1.6" : "a bare pickle"));
}

}  // namespace pith
