// The index of a sharded checkpoint, `model.safetensors.index.json`:
//
//   {"metadata": {"total_size": 20}, "weight_map": {"NAME": "SHARD", ...}}
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "pith/base/result.h"
#include "src/io/reader.h"

namespace pith {

class ShardIndex {
 public:
  /// kCorrupt if the text is no such object, a key or tensor is given twice, or a shard
  /// is no plain file name (file.h).
  static Result<ShardIndex> parse(ByteReader& in);

  /// Sorted, each once.
  [[nodiscard]] const std::vector<std::string>& shards() const { return shards_; }
  [[nodiscard]] std::size_t tensors() const { return entries_.size(); }
  /// Index into shards() of the file that holds a tensor.
  [[nodiscard]] std::optional<std::size_t> shard_of(std::string_view name) const;
  /// Calls `use(name, shard)` for all tensors, sorted by name.
  template <typename F>
  void each(F use) const {
    for (const Entry& entry : entries_) use(name_of(entry), std::size_t{entry.shard});
  }
  /// Bytes of all tensors as the index has it; it is informative, and nothing if it is no
  /// whole number.
  [[nodiscard]] std::optional<std::uint64_t> total_size() const { return total_size_; }

 private:
  friend class IndexHandler;
  // Packed: an index may be long.
  struct Entry {
    std::uint32_t name = 0;  // begin in names_
    std::uint32_t name_size = 0;
    std::uint32_t shard = 0;
  };
  [[nodiscard]] std::string_view name_of(const Entry& entry) const {
    return std::string_view(names_).substr(entry.name, entry.name_size);
  }

  std::string names_;
  std::vector<Entry> entries_;
  std::vector<std::string> shards_;
  std::optional<std::uint64_t> total_size_;
};

/// Bytes an index may have.
inline constexpr std::uint64_t kMaxIndex = 100'000'000;

/// Opens what Checkpoint::open needs: the name of the index or single safetensors file
/// among the entries of a folder, sorted. kNotFound if there is none, kUnsupported if it
/// is not clear which; the caller puts the folder in front.
struct FolderChoice {
  std::string name;
  bool is_index = false;
  std::vector<std::string> ignored;  ///< other safetensors files, if it is no index
};
Result<FolderChoice> choose_safetensors(const std::vector<std::string>& entries);

}  // namespace pith
