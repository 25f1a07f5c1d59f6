#include "pith/codec/blockwise.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "pith/tensor/half.h"
#include "src/base/checked.h"
#include "src/base/parallel.h"
#include "src/codec/wire.h"
#include "src/kernels/float_bits.h"
#include "src/kernels/quantize.h"
#include "src/tensor/finite.h"

namespace pith {
namespace {

constexpr std::int64_t kPiece = 1 << 16;  // elements per task, about
constexpr std::int64_t kBatch = 256;      // blocks whose scales lie on the stack
constexpr float kSmallestF16 = 0x1p-14f;  // normal: nothing is lost but rounding
constexpr float kInfiniteF16 = 65520.0f;  // rounds to infinity

Status check_block_size(std::int64_t block_size) {
  if (block_size >= 1 && block_size <= INT32_MAX) return {};
  return Status::invalid_argument(fmt::format(
      "blockwise: block size is {}, expected 1 to {}", block_size, INT32_MAX));
}

std::int64_t blocks_per_piece(std::int64_t block_size) {
  return std::max<std::int64_t>(1, kPiece / block_size);
}

// Values of the blocks [begin, end) of n values.
std::int64_t size_of_last(std::int64_t n, std::int64_t block_size, std::int64_t end) {
  return std::min(block_size, n - (end - 1) * block_size);
}

// Codes and f32 scales, 1 for a block of zeros.
Status encode(std::span<const float> values, std::int64_t block_size, std::uint8_t* codes,
              std::vector<float>& scales) {
  const auto n = static_cast<std::int64_t>(values.size());
  const std::int64_t blocks = piece_count(n, block_size);
  scales.resize(static_cast<std::size_t>(blocks));
  std::vector<std::uint8_t> bad(
      static_cast<std::size_t>(piece_count(blocks, blocks_per_piece(block_size))));
  const auto encode_batch = [&](std::int64_t begin, std::int64_t end) {
    const kernels::Groups in{values.data() + begin * block_size, end - begin, block_size,
                             size_of_last(n, block_size, end)};
    std::array<std::uint32_t, kBatch> magnitudes;
    std::array<float, kBatch> divisors;
    kernels::absmax_groups(in, magnitudes.data());
    bool coarse = false;
    for (std::int64_t b = 0; b < in.groups; ++b) {
      const std::uint32_t bits = magnitudes[static_cast<std::size_t>(b)];
      if (bits >= kernels::kInfinityBits) return false;
      const float scale = bits == 0 ? 1.0f : std::bit_cast<float>(bits) / 127.0f;
      scales[static_cast<std::size_t>(begin + b)] = scale;
      coarse = coarse || scale < std::numeric_limits<float>::min();
      // A scale below the smallest float: codes are 0.
      divisors[static_cast<std::size_t>(b)] =
          scale > 0 ? scale : std::numeric_limits<float>::infinity();
    }
    kernels::EncodeGroups args{};
    args.in = in;
    args.divisors = divisors.data();
    args.limit = coarse;
    args.low = -127;
    args.high = 127;
    args.rounding = Rounding::kHalfAway;
    args.packing = kernels::Packing::kInt8;
    args.codes = codes + begin * block_size;
    args.stride = block_size;
    kernels::encode_groups(args);
    return true;
  };
  parallel_pieces(blocks, blocks_per_piece(block_size),
                  [&](std::int64_t piece, std::int64_t begin, std::int64_t end) {
                    for (std::int64_t b = begin; b < end; b += kBatch) {
                      if (!encode_batch(b, std::min(b + kBatch, end))) {
                        bad[static_cast<std::size_t>(piece)] = 1;
                      }
                    }
                  });
  if (std::find(bad.begin(), bad.end(), 1) == bad.end()) return {};
  return require_finite(values, "blockwise");
}

bool fit_f16(std::span<const float> scales) {
  return std::all_of(scales.begin(), scales.end(),
                     [](float s) { return s >= kSmallestF16 && s < kInfiniteF16; });
}

// out = code * scale_of(block)
template <typename ScaleOf>
void decode(const std::uint8_t* codes, std::int64_t block_size, const ScaleOf& scale_of,
            std::span<float> out) {
  const auto n = static_cast<std::int64_t>(out.size());
  parallel_pieces(piece_count(n, block_size), blocks_per_piece(block_size),
                  [&](std::int64_t, std::int64_t begin, std::int64_t end) {
                    for (std::int64_t b = begin; b < end; b += kBatch) {
                      const std::int64_t stop = std::min(b + kBatch, end);
                      std::array<float, kBatch> scales;
                      for (std::int64_t i = b; i < stop; ++i) {
                        scales[static_cast<std::size_t>(i - b)] = scale_of(i);
                      }
                      kernels::DecodeGroups args{};
                      args.codes = codes + b * block_size;
                      args.stride = block_size;
                      args.packing = kernels::Packing::kInt8;
                      args.scales = scales.data();
                      args.out = out.data() + b * block_size;
                      args.groups = stop - b;
                      args.size = block_size;
                      args.last = size_of_last(n, block_size, stop);
                      kernels::decode_groups(args);
                    }
                  });
}

}  // namespace

std::int64_t BlockwiseCodes::size_bytes() const {
  return static_cast<std::int64_t>(codes.size() + 2 * scales_f16.size() +
                                   4 * scales_f32.size());
}

float BlockwiseCodes::compression_ratio() const {
  if (size_bytes() == 0) return 1;
  return static_cast<float>(4 * codes.size()) / static_cast<float>(size_bytes());
}

Result<BlockwiseCodes> blockwise_compress(std::span<const float> values,
                                          const BlockwiseOptions& options) {
  PITH_OK(check_block_size(options.block_size));
  BlockwiseCodes result;
  result.block_size = options.block_size;
  result.codes.resize(values.size());
  std::vector<float> scales;
  PITH_OK(encode(values, options.block_size,
                 reinterpret_cast<std::uint8_t*>(result.codes.data()), scales));
  if (options.scales == BlockScales::kF16 || fit_f16(scales)) {
    result.scales_f16.resize(scales.size());
    std::transform(scales.begin(), scales.end(), result.scales_f16.begin(), f32_to_f16);
  } else {
    result.scale_type = DType::kF32;
    result.scales_f32 = std::move(scales);
  }
  return result;
}

Status blockwise_decompress(const BlockwiseCodes& codes, std::span<float> out) {
  PITH_OK(check_block_size(codes.block_size));
  if (codes.scale_type != DType::kF16 && codes.scale_type != DType::kF32) {
    return Status::invalid_argument(fmt::format(
        "blockwise: scales are {}, expected f16 or f32", to_string(codes.scale_type)));
  }
  if (out.size() != codes.codes.size()) {
    return Status::invalid_argument(
        fmt::format("blockwise: {} codes and room for {} values, expected as many",
                    codes.codes.size(), out.size()));
  }
  const bool f16 = codes.scale_type == DType::kF16;
  const std::size_t scales = f16 ? codes.scales_f16.size() : codes.scales_f32.size();
  const std::int64_t blocks =
      piece_count(static_cast<std::int64_t>(out.size()), codes.block_size);
  if (scales < static_cast<std::size_t>(blocks)) {
    return Status::invalid_argument(fmt::format(
        "blockwise: {} scales, expected one for each of {} blocks", scales, blocks));
  }
  decode(
      reinterpret_cast<const std::uint8_t*>(codes.codes.data()), codes.block_size,
      [&](std::int64_t block) {
        const auto i = static_cast<std::size_t>(block);
        return f16 ? f16_to_f32(codes.scales_f16[i]) : codes.scales_f32[i];
      },
      out);
  return {};
}

Result<std::shared_ptr<const BlockwiseCodec>> BlockwiseCodec::make(
    std::int64_t block_size) {
  PITH_OK(check_block_size(block_size));
  return std::shared_ptr<const BlockwiseCodec>(new BlockwiseCodec(block_size));
}

std::string BlockwiseCodec::name() const {
  return fmt::format("blockwise({})", block_size_);
}

Result<std::int64_t> BlockwiseCodec::max_message_bytes(std::int64_t elements) const {
  const CheckedSize count = CheckedSize::from_signed(elements);
  const CheckedSize bytes =
      count +
      CheckedSize::from_signed(count.valid() ? piece_count(elements, block_size_) : 0) *
          4 +
      CheckedSize(wire::kHeaderBytes);
  if (bytes.fits_int64()) return static_cast<std::int64_t>(bytes.value());
  return Status::invalid_argument(fmt::format(
      "blockwise: {} elements, expected a size that fits in memory", elements));
}

Status BlockwiseCodec::compress(std::span<const float> values,
                                std::vector<std::byte>& message) const {
  // Codes first: where scales begin does not depend on their type.
  const std::size_t scales_at = wire::kHeaderBytes + values.size();
  message.resize(scales_at);
  std::vector<float> scales;
  PITH_OK(encode(values, block_size_,
                 reinterpret_cast<std::uint8_t*>(message.data() + wire::kHeaderBytes),
                 scales));
  const bool f16 = fit_f16(scales);
  const std::size_t scale_bytes = f16 ? 2 : 4;
  message.resize(scales_at + scale_bytes * scales.size());
  for (std::size_t b = 0; b < scales.size(); ++b) {
    std::byte* const at = message.data() + scales_at + scale_bytes * b;
    if (f16) {
      wire::store(at, f32_to_f16(scales[b]));
    } else {
      wire::store(at, scales[b]);
    }
  }
  wire::Header header;
  header.kind = MessageKind::kBlockwise;
  header.form = f16 ? wire::Form::kScalesF16 : wire::Form::kScalesF32;
  header.elements = static_cast<std::int64_t>(values.size());
  header.parameter = block_size_;
  header.payload_bytes = static_cast<std::int64_t>(message.size() - wire::kHeaderBytes);
  wire::seal(header, message);
  return {};
}

Status wire::decode_blockwise(const Header& header, std::span<const std::byte> payload,
                              std::span<float> out) {
  const bool f16 = header.form == Form::kScalesF16;
  const std::byte* const scales = payload.data() + out.size();
  const auto scale_of = [&](std::int64_t block) {
    return f16 ? f16_to_f32(load<std::uint16_t>(scales + 2 * block))
               : load<float>(scales + 4 * block);
  };
  const std::int64_t blocks = piece_count(header.elements, header.parameter);
  for (std::int64_t b = 0; b < blocks; ++b) {
    const float scale = scale_of(b);
    // Negative, -0, NaN and infinity are no scales.
    if (std::signbit(scale) || !std::isfinite(scale)) {
      return Status::corrupt(fmt::format(
          "message: scale {} is {}, expected a finite number of 0 or more", b, scale));
    }
  }
  const std::span<const std::byte> codes = payload.first(out.size());
  const void* const lowest = std::memchr(codes.data(), 0x80, codes.size());
  if (lowest != nullptr) {
    return Status::corrupt(
        fmt::format("message: code {} is -128, expected -127 to 127",
                    static_cast<const std::byte*>(lowest) - codes.data()));
  }
  decode(reinterpret_cast<const std::uint8_t*>(codes.data()), header.parameter, scale_of,
         out);
  return {};
}

}  // namespace pith
