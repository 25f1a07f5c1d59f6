// What the memory of this machine can do, measured: the limits that operations are
// compared with.
//
//   for (const Variant& variant : variants()) move(variant, in, out, count);
//
// A limit is the best of many ways to move the same bytes with next to no work: one, four
// or eight streams per thread, with and without prefetch, stores through the caches and
// past them. One stream alone reads at about 80 % of what a core can.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace pith::bench {

/// Bytes that are read and written per f32 value.
enum class Traffic : std::uint8_t {
  kRead,            ///< 4, 0
  kCopy,            ///< 4, 4
  kUpdate,          ///< 4, 4, in place
  kRead4Write2,     ///< f32 to f16
  kRead4Write1,     ///< f32 to int8
  kRead4WriteHalf,  ///< f32 to int4
  kRead2Write4,     ///< f16 to f32
  kRead1Write4,     ///< int8 to f32
  kReadHalfWrite4,  ///< int4 to f32
};
inline constexpr int kTrafficCount = static_cast<int>(Traffic::kReadHalfWrite4) + 1;

/// "read 4 write 1", ...
[[nodiscard]] std::string_view to_string(Traffic traffic);

/// One way to move the bytes.
struct Variant {
  Traffic traffic;
  int streams;        ///< 1, 4 or 8 per thread, a little over 16 KiB apart
  bool prefetch;      ///< 512 bytes ahead
  bool stream_store;  ///< past the caches

  /// "read 4 write 1, 8 streams, prefetch, streaming stores"
  [[nodiscard]] std::string name() const;
};

[[nodiscard]] std::vector<Variant> variants();

/// Moves the bytes of `count` f32 values, a multiple of 128, with all threads. `in` and
/// `out` are aligned to 64; kRead has no `out`, kUpdate no `in`.
void move(const Variant& variant, const std::byte* in, std::byte* out,
          std::int64_t count);

}  // namespace pith::bench
