#include "src/io/written_ranges.h"

#include <zlib.h>

namespace pith {

bool WrittenRanges::add(std::uint64_t begin, std::uint64_t length, std::uint32_t crc) {
  if (length == 0) return true;
  Range range{begin + length, crc};
  auto next = ranges_.lower_bound(begin);
  if (next != ranges_.end() && next->first < range.end) return false;
  auto previous = next;
  const bool has_previous = next != ranges_.begin();
  if (has_previous && (--previous)->second.end > begin) return false;

  const auto join = [](Range left, Range right, std::uint64_t right_begin) {
    const auto length_right = static_cast<z_off64_t>(right.end - right_begin);
    return Range{right.end, static_cast<std::uint32_t>(
                                crc32_combine64(left.crc, right.crc, length_right))};
  };
  if (next != ranges_.end() && next->first == range.end) {
    range = join(range, next->second, next->first);
    next = ranges_.erase(next);
  }
  if (has_previous && previous->second.end == begin) {
    previous->second = join(previous->second, range, begin);
  } else {
    ranges_.emplace_hint(next, begin, range);
  }
  return true;
}

bool WrittenRanges::covers(std::uint64_t size) const {
  return size == 0 ? ranges_.empty() : ranges_.size() == 1 && first_gap() == size;
}

std::uint64_t WrittenRanges::first_gap() const {
  const auto first = ranges_.find(0);
  return first == ranges_.end() ? 0 : first->second.end;
}

std::uint32_t WrittenRanges::crc() const {
  const auto first = ranges_.find(0);
  return first == ranges_.end() ? 0 : first->second.crc;
}

}  // namespace pith
