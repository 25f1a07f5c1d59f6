// What both targets of the index do with a text.
#pragma once

#include <algorithm>
#include <span>
#include <string_view>

#include "fuzz/check.h"
#include "src/io/file.h"
#include "src/io/index.h"
#include "src/io/reader.h"

namespace pith::fuzz {

/// Parses an index. In an accepted one every tensor has a shard that is a plain file name.
inline void run_index(std::span<const std::byte> text) {
  ByteReader in(text);
  const Result<ShardIndex> index = ShardIndex::parse(in);
  if (!index) return check_refusal(index.error());
  const auto& shards = index->shards();
  require(std::is_sorted(shards.begin(), shards.end()), "shards are not sorted");
  require(std::adjacent_find(shards.begin(), shards.end()) == shards.end(),
          "a shard is there twice");
  for (const std::string& shard : shards) {
    require(is_plain_file_name(shard), "a shard is no plain name");
    require(shard.find('/') == shard.npos && shard != "..", "a shard is a path");
  }
  std::size_t count = 0;
  std::size_t bytes = 0;
  std::string_view last;
  index->each([&](std::string_view name, std::size_t shard) {
    require(shard < shards.size(), "a shard is not there");
    require(index->shard_of(name) == shard, "a tensor is not found");
    require(count == 0 || last < name, "a tensor is there twice");
    last = name;
    ++count;
    bytes += name.size();
  });
  require(count == index->tensors(), "a tensor is missing");
  require(bytes <= text.size(), "names are longer than the text");
}

}  // namespace pith::fuzz
