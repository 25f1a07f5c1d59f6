#include "src/codec/wire.h"

#include <fmt/format.h>
#include <xxhash.h>

#include "src/base/checked.h"

namespace pith::wire {
namespace {

constexpr std::uint32_t kMagic = 0x57485450;  // "PTHW"
constexpr std::uint8_t kVersion = 1;
constexpr std::size_t kChecksumAt = 32;
constexpr std::int64_t kLargestBlock = INT32_MAX;

std::uint64_t checksum(std::span<const std::byte> message) {
  const std::uint64_t seed = XXH3_64bits(message.data(), kChecksumAt);
  const std::span<const std::byte> payload = message.subspan(kHeaderBytes);
  return XXH3_64bits_withSeed(payload.data(), payload.size(), seed);
}

Status corrupt(std::string text) {
  return Status::corrupt("message: " + std::move(text));
}

Status check_blockwise(const Header& header) {
  if (header.form != Form::kScalesF16 && header.form != Form::kScalesF32) {
    return corrupt(fmt::format("form {} of blockwise codes is unknown, expected 0 or 1",
                               static_cast<int>(header.form)));
  }
  if (header.parameter < 1 || header.parameter > kLargestBlock) {
    return corrupt(fmt::format("block size is {}, expected 1 to {}", header.parameter,
                               kLargestBlock));
  }
  const std::int64_t blocks = header.elements / header.parameter +
                              (header.elements % header.parameter != 0 ? 1 : 0);
  const CheckedSize bytes = CheckedSize::from_signed(header.elements) +
                            CheckedSize::from_signed(blocks) *
                                CheckedSize(header.form == Form::kScalesF16 ? 2 : 4);
  if (!bytes.at_most(static_cast<std::uint64_t>(header.payload_bytes)) ||
      bytes.value() != static_cast<std::uint64_t>(header.payload_bytes)) {
    return corrupt(fmt::format("{} payload bytes do not hold {} codes in blocks of {}",
                               header.payload_bytes, header.elements, header.parameter));
  }
  return {};
}

Status check_top_k(const Header& header) {
  if (header.parameter < 0 || header.parameter > header.elements) {
    return corrupt(
        fmt::format("{} values are kept of {}", header.parameter, header.elements));
  }
  const CheckedSize values = CheckedSize::from_signed(header.parameter) * 4;
  const auto payload = static_cast<std::uint64_t>(header.payload_bytes);
  bool fits = false;
  switch (header.form) {
    case Form::kDistances: {  // one to nine bytes each
      const CheckedSize least = values + CheckedSize::from_signed(header.parameter);
      const CheckedSize most = values + CheckedSize::from_signed(header.parameter) * 9;
      fits = least.at_most(payload) && (!most.valid() || payload <= most.value());
      break;
    }
    case Form::kMask: {
      const std::int64_t mask = header.elements / 8 + (header.elements % 8 != 0 ? 1 : 0);
      const CheckedSize bytes = values + CheckedSize::from_signed(mask);
      fits = bytes.valid() && bytes.value() == payload;
      break;
    }
    case Form::kDense: {
      const CheckedSize bytes = CheckedSize::from_signed(header.elements) * 4;
      fits = bytes.valid() && bytes.value() == payload;
      break;
    }
    default:
      return corrupt(fmt::format("form {} of top-k values is unknown, expected 0 to 2",
                                 static_cast<int>(header.form)));
  }
  if (fits) return {};
  return corrupt(fmt::format("{} payload bytes do not hold {} of {} values in form {}",
                             header.payload_bytes, header.parameter, header.elements,
                             static_cast<int>(header.form)));
}

}  // namespace

void seal(const Header& header, std::span<std::byte> message) {
  std::byte* const at = message.data();
  store(at, kMagic);
  store(at + 4, kVersion);
  store(at + 5, static_cast<std::uint8_t>(header.kind));
  store(at + 6, static_cast<std::uint8_t>(header.form));
  store(at + 7, std::uint8_t{0});
  store(at + 8, header.elements);
  store(at + 16, header.parameter);
  store(at + 24, header.payload_bytes);
  store(at + kChecksumAt, checksum(message));
}

Result<Header> parse(std::span<const std::byte> message) {
  if (message.size() < kHeaderBytes) {
    return corrupt(fmt::format("{} bytes, expected at least the {} of a header",
                               message.size(), kHeaderBytes));
  }
  const std::byte* const at = message.data();
  if (load<std::uint32_t>(at) != kMagic) {
    return corrupt("does not begin with 'PTHW': these bytes are no message");
  }
  if (const auto version = load<std::uint8_t>(at + 4); version != kVersion) {
    return Status::unsupported(fmt::format(
        "message: version {}, this library reads version {}", version, kVersion));
  }
  Header header;
  header.kind = static_cast<MessageKind>(load<std::uint8_t>(at + 5));
  header.form = static_cast<Form>(load<std::uint8_t>(at + 6));
  header.elements = load<std::int64_t>(at + 8);
  header.parameter = load<std::int64_t>(at + 16);
  header.payload_bytes = load<std::int64_t>(at + 24);
  if (load<std::uint8_t>(at + 7) != 0) return corrupt("byte 7 is not 0");
  if (header.elements < 0) return corrupt("the number of elements exceeds an int64");
  if (header.payload_bytes < 0 ||
      static_cast<std::uint64_t>(header.payload_bytes) != message.size() - kHeaderBytes) {
    return corrupt(fmt::format(
        "{} bytes follow the header, expected {}: it is truncated "
        "or continued",
        message.size() - kHeaderBytes, static_cast<std::uint64_t>(header.payload_bytes)));
  }
  switch (header.kind) {
    case MessageKind::kBlockwise:
      PITH_OK(check_blockwise(header));
      return header;
    case MessageKind::kTopK:
      PITH_OK(check_top_k(header));
      return header;
  }
  return corrupt(
      fmt::format("kind {} is unknown, expected 1 or 2", static_cast<int>(header.kind)));
}

Status check_sum(std::span<const std::byte> message) {
  const auto stored = load<std::uint64_t>(message.data() + kChecksumAt);
  const std::uint64_t computed = checksum(message);
  if (stored == computed) return {};
  return corrupt(fmt::format("checksum is {:016x}, expected {:016x}: bytes were changed",
                             computed, stored));
}

}  // namespace pith::wire
