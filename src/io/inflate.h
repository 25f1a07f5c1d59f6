// Random access to deflated data in bounded memory.
//
//   InflateStream stream(file, data_begin, compressed, uncompressed, crc);
//   PITH_OK(stream.read(offset, out));
//
// Deflate can only be read forward. The stream keeps copies of its state at up to 32
// places, about 40 KiB each, and goes on from the last one before the offset asked for:
// reading forward inflates every byte once, and a step back costs at most 1/32 of the
// entry.
#pragma once

#include <zlib.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "pith/base/status.h"
#include "src/io/source.h"

namespace pith {

/// Not thread-safe.
class InflateStream {
 public:
  /// Raw deflate data, `compressed` bytes from `begin` on in `file`, said to inflate to
  /// `uncompressed` bytes of that CRC-32.
  InflateStream(const ByteSource& file, std::uint64_t begin, std::uint64_t compressed,
                std::uint64_t uncompressed, std::uint32_t crc);

  /// Fills `out` with the content from `offset` on, which must be inside. kCorrupt if the
  /// data breaks the format; when the last byte is reached, also if there are more or
  /// fewer bytes than was said, or the checksum differs.
  Status read(std::uint64_t offset, std::span<std::byte> out);

 private:
  // A zlib state and what goes with it; copied for the places to go on from.
  struct State {
    struct End {
      void operator()(z_stream* stream) const;
    };
    std::unique_ptr<z_stream, End> z;
    std::uint64_t in = 0;   // bytes of the compressed data used
    std::uint64_t out = 0;  // bytes of the content made
    std::uint32_t crc = 0;
  };

  static void start(State& state);
  static void copy(const State& from, State& to);
  Status seek(std::uint64_t offset);
  // Makes the next bytes of the content: all of `out`.
  Status inflate_next(std::span<std::byte> out);
  Status finish();
  Status refill();

  const ByteSource& file_;
  const std::uint64_t begin_;
  const std::uint64_t compressed_;
  const std::uint64_t uncompressed_;
  const std::uint32_t crc_;
  const std::uint64_t spacing_;  // between places
  State state_;
  std::vector<State> places_;  // ascending
  std::vector<std::byte> input_;
  std::uint64_t input_begin_ = 0;  // of input_ in the compressed data
  Status failed_;
};

}  // namespace pith
