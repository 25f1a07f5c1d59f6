// fp16.jsonl, and the encodings of fp8_smooth.jsonl: pith/tensor/half.h.
#include <vector>

#include "pith/tensor/half.h"
#include "tests/golden/adapters.h"

namespace pith::golden {
namespace {

Result<Json> f32_to_f16_bits(const Json& inputs) {
  std::vector<std::uint16_t> halves;
  std::vector<float> back;
  for (float value : to_f32s(inputs.at("values"))) {
    halves.push_back(f32_to_f16(value));
    back.push_back(f16_to_f32(halves.back()));
  }
  return Json{{"hex16", hex16(halves)}, {"back", f32s(back)}};
}

Result<Json> f16_bits_to_f32(const Json& inputs) {
  std::vector<float> values;
  for (std::uint16_t bits : to_f16s(inputs)) values.push_back(f16_to_f32(bits));
  return Json{{"values", f32s(values)}};
}

template <typename Encode>
Json encode_all(const Json& inputs, const Encode& encode) {
  std::vector<std::uint8_t> codes;
  for (float value : to_f32s(inputs.at("values"))) codes.push_back(encode(value));
  return Json{{"codes", bytes_hex(codes)}};
}

template <typename Decode>
Json decode_all(const Json& inputs, const Decode& decode) {
  std::vector<float> values;
  for (std::uint8_t code : to_bytes(inputs.at("codes"))) values.push_back(decode(code));
  return Json{{"values", f32s(values)}};
}

Result<Json> f8e4m3_encode(const Json& inputs) {
  return encode_all(inputs, [](float value) { return f32_to_f8e4m3(value); });
}

Result<Json> f8e4m3_decode(const Json& inputs) {
  return decode_all(inputs, f8e4m3_to_f32);
}

Result<Json> f8e5m2_encode(const Json& inputs) {
  return encode_all(
      inputs, [](float value) { return f32_to_f8e5m2(value, Overflow::kInfinity); });
}

Result<Json> f8e5m2_decode(const Json& inputs) {
  return decode_all(inputs, f8e5m2_to_f32);
}

constexpr AdapterEntry kTensorAdapters[] = {
    {"fp32_to_fp16_bits", f32_to_f16_bits}, {"fp16_bits_to_fp32", f16_bits_to_f32},
    {"fp8_e4m3_encode", f8e4m3_encode},     {"fp8_e4m3_decode", f8e4m3_decode},
    {"fp8_e5m2_encode", f8e5m2_encode},     {"fp8_e5m2_decode", f8e5m2_decode},
};

}  // namespace

std::span<const AdapterEntry> tensor_adapters() { return kTensorAdapters; }

}  // namespace pith::golden
