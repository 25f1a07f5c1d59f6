#include "pith/codec/codec.h"

#include <fmt/format.h>

#include "src/codec/wire.h"

namespace pith {

double MessageInfo::ratio() const {
  return 4 * static_cast<double>(elements) / static_cast<double>(message_bytes);
}

Result<MessageInfo> message_info(std::span<const std::byte> message) {
  PITH_TRY(const wire::Header header, wire::parse(message));
  MessageInfo info;
  info.kind = header.kind;
  info.elements = header.elements;
  info.stored = header.kind == MessageKind::kTopK ? header.parameter : header.elements;
  info.message_bytes = static_cast<std::int64_t>(message.size());
  return info;
}

namespace {

Status decode(const wire::Header& header, std::span<const std::byte> message,
              std::span<float> out) {
  const std::span<const std::byte> payload = message.subspan(wire::kHeaderBytes);
  return header.kind == MessageKind::kBlockwise
             ? wire::decode_blockwise(header, payload, out)
             : wire::decode_top_k(header, payload, out);
}

}  // namespace

Status decompress(std::span<const std::byte> message, std::span<float> out) {
  PITH_TRY(const wire::Header header, wire::parse(message));
  if (static_cast<std::uint64_t>(header.elements) != out.size()) {
    return Status::invalid_argument(fmt::format(
        "message: {} elements, but there is room for {}", header.elements, out.size()));
  }
  PITH_OK(wire::check_sum(message));
  return decode(header, message, out);
}

Result<std::vector<float>> decompress(std::span<const std::byte> message,
                                      std::int64_t max_elements) {
  PITH_TRY(const wire::Header header, wire::parse(message));
  if (header.elements > max_elements) {
    return Status::invalid_argument(fmt::format(
        "message: {} elements, expected at most {}", header.elements, max_elements));
  }
  PITH_OK(wire::check_sum(message));  // before memory is taken
  std::vector<float> out(static_cast<std::size_t>(header.elements));
  PITH_OK(decode(header, message, out));
  return out;
}

Status ErrorFeedback::compress(std::span<const float> values,
                               std::vector<std::byte>& message) {
  if (!residual_.empty() && residual_.size() != values.size()) {
    return Status::invalid_argument(
        fmt::format("error feedback: {} values, expected {} as before", values.size(),
                    residual_.size()));
  }
  target_.assign(values.begin(), values.end());
  for (std::size_t i = 0; i < residual_.size(); ++i) target_[i] += residual_[i];
  PITH_OK(codec_->compress(target_, message));
  decoded_.resize(values.size());
  PITH_OK(decompress(message, decoded_));
  residual_.resize(values.size());
  for (std::size_t i = 0; i < residual_.size(); ++i) {
    residual_[i] = target_[i] - decoded_[i];
  }
  return {};
}

}  // namespace pith
