#include "pith/codec/top_k.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cassert>
#include <cmath>

#include "src/base/bits.h"
#include "src/base/checked.h"
#include "src/codec/wire.h"
#include "src/kernels/float_bits.h"
#include "src/kernels/select.h"
#include "src/tensor/finite.h"

namespace pith {
namespace {

std::uint32_t magnitude(float value) {
  return std::bit_cast<std::uint32_t>(value) & kernels::kMagnitudeMask;
}

// Indices of the k values of largest magnitude, in rising order.
std::vector<std::int64_t> kept_indices(std::span<const float> values, std::int64_t k,
                                       const kernels::MagnitudeRank& rank) {
  const auto n = static_cast<std::int64_t>(values.size());
  std::int64_t ties = k - (n - rank.below - rank.equal);  // of those at the threshold
  // Every index is written, and counts if it is kept: which are is hard to predict.
  std::vector<std::int64_t> indices(static_cast<std::size_t>(k) + 1);
  std::size_t found = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    const std::uint32_t bits = magnitude(values[static_cast<std::size_t>(i)]);
    const bool tie = bits == rank.bits;
    indices[found] = i;
    found += static_cast<std::size_t>((bits > rank.bits) | (tie & (ties > 0)));
    ties -= tie;
  }
  assert(found == static_cast<std::size_t>(k));
  indices.pop_back();
  return indices;
}

// Bytes of an index distance: seven bits each, the lowest first.
std::int64_t varint_bytes(std::uint64_t value) {
  return value == 0 ? 1 : (std::bit_width(value) + 6) / 7;
}

// Reads one; -1 if the bytes end, it is longer than needed or exceeds 63 bits.
std::int64_t read_varint(const std::byte*& at, const std::byte* end) {
  std::uint64_t value = 0;
  for (int shift = 0; shift < 63 && at != end; shift += 7) {
    const auto byte = std::to_integer<std::uint64_t>(*at++);
    value |= (byte & 0x7f) << shift;
    if (byte < 0x80) {
      return byte == 0 && shift > 0 ? -1 : static_cast<std::int64_t>(value);
    }
  }
  return -1;
}

Status corrupt(std::string text) {
  return Status::corrupt("message: " + std::move(text));
}

}  // namespace

std::int64_t TopKValues::size_bytes() const {
  return static_cast<std::int64_t>(4 * indices.size() + 4 * values.size());
}

float TopKValues::compression_ratio() const {
  if (size_bytes() == 0) return 1;
  return static_cast<float>(4 * elements) / static_cast<float>(size_bytes());
}

Result<std::int64_t> top_k_count(std::int64_t n, double fraction) {
  if (!(fraction >= 0)) {
    return Status::invalid_argument(
        fmt::format("top-k: fraction is {}, expected a value in [0, 1]", fraction));
  }
  if (fraction == 0 || n == 0) return std::int64_t{0};
  if (fraction >= 1) return n;
  const std::int64_t share = kernels::share_floor(static_cast<float>(fraction), n);
  return std::clamp(share, std::int64_t{1}, n);
}

Result<TopKValues> top_k_compress(std::span<const float> values, double fraction) {
  const auto n = static_cast<std::int64_t>(values.size());
  PITH_TRY(const std::int64_t k, top_k_count(n, fraction));
  TopKValues kept;
  kept.elements = n;
  if (k == 0) return kept;
  const kernels::MagnitudeRank rank = kernels::select_magnitude(values.data(), n, n - k);
  if (rank.has_nan && k < n) {
    return Status::not_finite(
        fmt::format("top-k: value {} is nan, which has no place among the magnitudes",
                    kernels::first_nan(values.data(), n)));
  }
  kept.indices = kept_indices(values, k, rank);
  std::stable_sort(kept.indices.begin(), kept.indices.end(),
                   [&](std::int64_t a, std::int64_t b) {
                     return magnitude(values[static_cast<std::size_t>(a)]) >
                            magnitude(values[static_cast<std::size_t>(b)]);
                   });
  for (std::int64_t i : kept.indices) {
    kept.values.push_back(values[static_cast<std::size_t>(i)]);
  }
  return kept;
}

Status top_k_decompress(const TopKValues& kept, std::span<float> out) {
  if (static_cast<std::uint64_t>(kept.elements) != out.size()) {
    return Status::invalid_argument(fmt::format(
        "top-k: {} elements, but there is room for {}", kept.elements, out.size()));
  }
  if (kept.indices.size() != kept.values.size()) {
    return Status::invalid_argument(fmt::format("top-k: {} indices and {} values",
                                                kept.indices.size(), kept.values.size()));
  }
  std::vector<std::int64_t> sorted = kept.indices;
  std::sort(sorted.begin(), sorted.end());
  const auto twice = std::adjacent_find(sorted.begin(), sorted.end());
  if (twice != sorted.end()) {
    return Status::invalid_argument(fmt::format("top-k: index {} occurs twice", *twice));
  }
  if (!sorted.empty() && (sorted.front() < 0 || sorted.back() >= kept.elements)) {
    return Status::invalid_argument(
        fmt::format("top-k: index {} is out of range, there are {} elements",
                    sorted.front() < 0 ? sorted.front() : sorted.back(), kept.elements));
  }
  std::fill(out.begin(), out.end(), 0.0f);
  for (std::size_t i = 0; i < kept.indices.size(); ++i) {
    out[static_cast<std::size_t>(kept.indices[i])] = kept.values[i];
  }
  return {};
}

Result<std::shared_ptr<const TopKCodec>> TopKCodec::make(double fraction) {
  if (!(fraction >= 0 && fraction <= 1)) {
    return Status::invalid_argument(
        fmt::format("top-k: fraction is {}, expected a value in [0, 1]", fraction));
  }
  return std::shared_ptr<const TopKCodec>(new TopKCodec(fraction));
}

std::string TopKCodec::name() const { return fmt::format("top_k({})", fraction_); }

Result<std::int64_t> TopKCodec::max_message_bytes(std::int64_t elements) const {
  const CheckedSize bytes =
      CheckedSize::from_signed(elements) * 4 + CheckedSize(wire::kHeaderBytes);
  if (bytes.fits_int64()) return static_cast<std::int64_t>(bytes.value());
  return Status::invalid_argument(
      fmt::format("top-k: {} elements, expected a size that fits in memory", elements));
}

Status TopKCodec::compress(std::span<const float> values,
                           std::vector<std::byte>& message) const {
  PITH_OK(require_finite(values, "top-k"));
  const auto n = static_cast<std::int64_t>(values.size());
  PITH_TRY(const std::int64_t k, top_k_count(n, fraction_));
  std::vector<std::int64_t> indices;
  if (k > 0) {
    indices = kept_indices(values, k, kernels::select_magnitude(values.data(), n, n - k));
  }
  std::int64_t distances = 0;  // bytes
  std::int64_t last = -1;
  for (std::int64_t i : indices) {
    distances += varint_bytes(static_cast<std::uint64_t>(i - last - 1));
    last = i;
  }
  const std::int64_t mask = n / 8 + (n % 8 != 0 ? 1 : 0);
  const std::int64_t kept_bytes = 4 * k;

  wire::Header header;
  header.kind = MessageKind::kTopK;
  header.form = wire::Form::kDistances;
  header.elements = n;
  header.parameter = k;
  header.payload_bytes = distances + kept_bytes;
  if (mask + kept_bytes < header.payload_bytes) {
    header.form = wire::Form::kMask;
    header.payload_bytes = mask + kept_bytes;
  }
  if (4 * n < header.payload_bytes) {
    header.form = wire::Form::kDense;
    header.payload_bytes = 4 * n;
  }
  message.assign(wire::kHeaderBytes + static_cast<std::size_t>(header.payload_bytes),
                 std::byte{0});
  std::byte* const payload = message.data() + wire::kHeaderBytes;
  std::byte* index = payload;
  std::byte* value = payload + (header.payload_bytes - kept_bytes);
  last = -1;
  for (std::int64_t i : indices) {
    const float kept = values[static_cast<std::size_t>(i)];
    if (header.form == wire::Form::kDense) {
      wire::store(payload + 4 * i, kept);
      continue;
    }
    if (header.form == wire::Form::kMask) {
      payload[i / 8] |= std::byte{1} << (i % 8);
    } else {
      auto distance = static_cast<std::uint64_t>(i - last - 1);
      for (; distance >= 0x80; distance >>= 7) {
        *index++ = static_cast<std::byte>(distance | 0x80);
      }
      *index++ = static_cast<std::byte>(distance);
      last = i;
    }
    wire::store(value, kept);
    value += sizeof(float);
  }
  wire::seal(header, message);
  return {};
}

Status wire::decode_top_k(const Header& header, std::span<const std::byte> payload,
                          std::span<float> out) {
  const std::int64_t k = header.parameter;
  const bool dense = header.form == Form::kDense;
  const std::int64_t values = dense ? header.elements : k;
  const std::byte* const first_value = payload.data() + payload.size() - 4 * values;
  std::int64_t not_zero = 0;
  for (std::int64_t i = 0; i < values; ++i) {
    const float value = load<float>(first_value + 4 * i);
    if (!std::isfinite(value)) {
      return corrupt(fmt::format("value {} is {}, expected a finite number", i, value));
    }
    not_zero += value != 0 ? 1 : 0;
  }
  if (dense) {
    if (not_zero > k) {
      return corrupt(fmt::format("{} values are not 0, but {} were kept", not_zero, k));
    }
    if (!out.empty()) std::memcpy(out.data(), first_value, out.size_bytes());
    return {};
  }
  std::fill(out.begin(), out.end(), 0.0f);
  const std::byte* value = first_value;
  if (header.form == Form::kMask) {
    const std::int64_t set = count_bits({payload.data(), first_value});
    const std::int64_t tail = header.elements % 8;
    if (set != k || (tail != 0 && std::to_integer<int>(first_value[-1]) >> tail != 0)) {
      return corrupt(
          fmt::format("the mask has {} bits set, or some beyond the last of {} "
                      "elements; expected {}",
                      set, header.elements, k));
    }
    for (std::int64_t i = 0; i < header.elements; ++i) {
      if ((payload[static_cast<std::size_t>(i / 8)] >> (i % 8) & std::byte{1}) ==
          std::byte{0}) {
        continue;
      }
      out[static_cast<std::size_t>(i)] = load<float>(value);
      value += sizeof(float);
    }
    return {};
  }
  std::int64_t next = 0;  // the lowest index that may follow
  const std::byte* at = payload.data();
  for (std::int64_t j = 0; j < k; ++j) {
    const std::int64_t distance = read_varint(at, first_value);
    if (distance < 0 || distance >= header.elements - next) {
      return corrupt(fmt::format("index {} of {} is malformed or beyond the {} elements",
                                 j, k, header.elements));
    }
    next += distance + 1;
    out[static_cast<std::size_t>(next - 1)] = load<float>(value);
    value += sizeof(float);
  }
  if (at != first_value) return corrupt("bytes are left over between indices and values");
  return {};
}

}  // namespace pith
