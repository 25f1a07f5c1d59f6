// Tensors on the wire of hivemind (training over the internet), saved as files (.pb): one
// protobuf message `Tensor`. docs/formats/hivemind.md has the layout.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "pith/base/result.h"
#include "pith/io/checkpoint.h"
#include "src/io/reader.h"

namespace pith {

/// Elements that share a maximum, by the format's own constant.
inline constexpr std::int64_t kHivemindBlock = 4096;

/// One message. `tensor` says where its numbers or 8-bit codes are.
struct HivemindTensor {
  TensorInfo tensor;
  std::vector<float> code;    ///< 256 values of the codes; empty for plain numbers
  std::vector<float> absmax;  ///< one per block of the flat tensor, or none
  std::vector<std::string> warnings;
};

/// Parses a message from two readers of the same bytes, both at the start: what the
/// buffer means is known only behind it. kCorrupt or kUnsupported.
Result<HivemindTensor> parse_hivemind(ByteReader in, ByteReader again);

}  // namespace pith
