// Weights of bitsandbytes.
//
// Four bits (NF4, FP4), for a weight P of n elements in blocks of B, which run through all
// rows:
//
//   P               ceil(n / 2) bytes of any type; element 2i in the high half of byte i
//   P.absmax        F32 [ceil(n / B)]; nested: U8
//   P.quant_map     F32 [16]: the value of each code
//   P.nested_absmax F32 [ceil(blocks / nested_blocksize)], P.nested_quant_map F32 [256]
//   P.quant_state.bitsandbytes__nf4 (or __fp4)  U8: JSON with quant_type, blocksize, dtype,
//                   shape, and nested_blocksize, nested_dtype, nested_offset
//
//   absmax = nested_quant_map[P.absmax[b]] * nested_absmax[b / nested_blocksize] +
//            nested_offset, if nested;  w = quant_map[code] * absmax
//
// Tables are always those of the file: other versions of the library made others.
//
// Eight bits (LLM.int8), for a module M: M.weight I8 [N, K], M.SCB F32 [N] (the largest
// magnitude of each row), M.weight_format U8, 0 for row-major. w = code * (SCB / 127).
#include <fmt/format.h>

#include <array>
#include <bit>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>

#include "src/base/checked.h"
#include "src/base/text.h"
#include "src/io/json.h"
#include "src/io/reader.h"
#include "src/kernels/convert.h"
#include "src/quantize/dense_tensor.h"
#include "src/quantize/json_keys.h"

namespace pith {
namespace {

using Json = nlohmann::json;

constexpr std::int64_t kMaxState = 64 << 10;
constexpr std::int64_t kBnbPiece = 64 << 10;  // elements decoded at a time

constexpr std::array<std::uint32_t, 16> kNf4 = {
    0xbf800000, 0xbf3239b1, 0xbf066b30, 0xbeca32a0, 0xbe91a24d, 0xbe3d353f,
    0xbdba7871, 0x00000000, 0x3da2faff, 0x3e24cae3, 0x3e7c04dd, 0x3ead033a,
    0x3ee1a4b8, 0x3f1007ab, 0x3f3913b3, 0x3f800000};
constexpr std::array<std::uint32_t, 16> kFp4 = {
    0x00000000, 0x3baaaaab, 0x3f2aaaab, 0x3f800000, 0x3eaaaaab, 0x3f000000,
    0x3e2aaaab, 0x3e800000, 0x00000000, 0xbbaaaaab, 0xbf2aaaab, 0xbf800000,
    0xbeaaaaab, 0xbf000000, 0xbe2aaaab, 0xbe800000};

struct Nested {
  StoredTensor absmax;
  std::array<float, 256> map;
  std::int64_t block = 0;
  float offset = 0;
};

struct FourBit {
  StoredTensor codes;
  StoredTensor absmax;
  std::array<float, 16> map = {};
  std::int64_t block = 0;
  Shape shape;
  std::optional<Nested> nested;
};

class FourBitWeight : public DenseTensor {
 public:
  FourBitWeight(std::string label, FourBit weight)
      : DenseTensor(std::move(label)), w_(std::move(weight)) {}

  Status read_rows(std::int64_t first, std::int64_t rows,
                   std::span<float> out) const override {
    const std::int64_t cols = w_.shape.cols();
    std::int64_t element = first * cols;
    const std::int64_t end = element + rows * cols;
    while (element < end) {
      // Pieces end with a block, so that its maximum is read once.
      const std::int64_t n =
          std::min(end, (element / kBnbPiece + 1) * kBnbPiece) - element;
      PITH_OK(read_some(element, out.first(static_cast<std::size_t>(n))));
      out = out.subspan(static_cast<std::size_t>(n));
      element += n;
    }
    return {};
  }

 private:
  Status read_some(std::int64_t first, std::span<float> out) const {
    const std::int64_t end = first + static_cast<std::int64_t>(out.size());
    std::vector<std::byte> codes(static_cast<std::size_t>((end - 1) / 2 - first / 2 + 1));
    PITH_OK(w_.codes.read(first / 2, codes));
    const std::int64_t block_first = first / w_.block;
    std::vector<float> absmax(
        static_cast<std::size_t>((end - 1) / w_.block - block_first + 1));
    PITH_OK(read_absmax(block_first, absmax));
    for (std::size_t i = 0; i < out.size(); ++i) {
      const std::int64_t element = first + static_cast<std::int64_t>(i);
      const std::byte byte = codes[static_cast<std::size_t>(element / 2 - first / 2)];
      const auto code =
          static_cast<std::size_t>(element % 2 == 0 ? byte >> 4 : byte) & 15;
      out[i] = w_.map[code] *
               absmax[static_cast<std::size_t>(element / w_.block - block_first)];
    }
    return {};
  }

  Status read_absmax(std::int64_t first, std::span<float> out) const {
    PITH_OK(w_.absmax.read_floats(first, out));
    if (w_.nested) {
      const Nested& nested = *w_.nested;
      const std::int64_t outer_first = first / nested.block;
      const std::int64_t last = first + static_cast<std::int64_t>(out.size()) - 1;
      std::vector<float> outer(
          static_cast<std::size_t>(last / nested.block - outer_first + 1));
      PITH_OK(nested.absmax.read_floats(outer_first, outer));
      for (std::size_t i = 0; i < out.size(); ++i) {
        const std::int64_t block = first + static_cast<std::int64_t>(i);
        // The codes are u8, so that their values are 0 to 255.
        out[i] = nested.map[static_cast<std::size_t>(out[i])] *
                     outer[static_cast<std::size_t>(block / nested.block - outer_first)] +
                 nested.offset;
      }
    }
    for (std::size_t i = 0; i < out.size(); ++i) {
      if (!std::isfinite(out[i])) {
        return w_.absmax.corrupt(
            fmt::format("the maximum of block {} is {}, expected a finite number",
                        first + static_cast<std::int64_t>(i), out[i]));
      }
    }
    return {};
  }

  FourBit w_;
};

class EightBitWeight : public DenseTensor {
 public:
  EightBitWeight(StoredTensor codes, StoredTensor row_max)
      : DenseTensor("int8 row (LLM.int8)"), codes_(codes), row_max_(row_max) {}

  Status read_rows(std::int64_t first, std::int64_t rows,
                   std::span<float> out) const override {
    const std::int64_t cols = codes_.info().shape.cols();
    const std::int64_t step = rows_at_a_time(cols);
    for (std::int64_t done = 0; done < rows; done += step) {
      const std::int64_t n = std::min(step, rows - done);
      PITH_OK(read_some(first + done, n,
                        out.subspan(static_cast<std::size_t>(done * cols),
                                    static_cast<std::size_t>(n * cols))));
    }
    return {};
  }

 private:
  Status read_some(std::int64_t first, std::int64_t rows, std::span<float> out) const {
    const std::int64_t cols = codes_.info().shape.cols();
    PITH_OK(codes_.read_floats(first * cols, out));
    std::vector<float> row_max(static_cast<std::size_t>(rows));
    PITH_OK(row_max_.read_floats(first, row_max));
    for (std::int64_t r = 0; r < rows; ++r) {
      const float scale = row_max[static_cast<std::size_t>(r)] / 127;
      if (!std::isfinite(scale)) {
        return row_max_.corrupt(fmt::format(
            "the maximum of row {} is {}, expected a finite number", first + r, scale));
      }
      for (float& value : out.subspan(static_cast<std::size_t>(r * cols),
                                      static_cast<std::size_t>(cols))) {
        value *= scale;
      }
    }
    return {};
  }

  StoredTensor codes_;
  StoredTensor row_max_;
};

// The JSON of a quant_state.
struct State {
  std::string type;  // "nf4"
  std::int64_t block = 0;
  Shape shape;
  bool nested = false;
  std::int64_t nested_block = 0;
  float nested_offset = 0;
};

Status check_keys(const Json& json) {
  if (!json.is_object()) return Status::corrupt("an object was expected");
  for (const auto& [key, value] : json.items()) {
    bool known = false;
    for (const char* name : {"quant_type", "blocksize", "dtype", "shape",
                             "nested_blocksize", "nested_dtype", "nested_offset"}) {
      known = known || key == name;
    }
    if (!known) {
      return Status::corrupt(fmt::format("unknown key '{}'", printable(key, 32)));
    }
  }
  return {};
}

Result<State> state_from(std::string_view text) {
  ByteReader in(std::as_bytes(std::span(text)));
  PITH_TRY(const Json json, parse_json_tree(in, 1000));
  PITH_OK(check_keys(json));
  State state;
  const auto type = json.find("quant_type");
  if (type == json.end() || (*type != "nf4" && *type != "fp4")) {
    return Status::corrupt("'quant_type' must be nf4 or fp4");
  }
  state.type = type->get<std::string>();
  PITH_TRY(state.block, positive_number(find_key(json, "blocksize"), "blocksize"));
  const auto shape = json.find("shape");
  if (shape == json.end() || !shape->is_array()) {
    return Status::corrupt("'shape' must be an array");
  }
  std::vector<std::int64_t> extents;
  for (const Json& extent : *shape) {
    if (!extent.is_number_unsigned() || extent.get<std::uint64_t>() > INT64_MAX) {
      return Status::corrupt("'shape' must be whole numbers");
    }
    extents.push_back(extent.get<std::int64_t>());
  }
  PITH_TRY(state.shape, Shape::make(extents));
  const bool any = json.contains("nested_blocksize") || json.contains("nested_dtype") ||
                   json.contains("nested_offset");
  if (!any) return state;
  state.nested = true;
  PITH_TRY(state.nested_block,
           positive_number(find_key(json, "nested_blocksize"), "nested_blocksize"));
  const auto offset = json.find("nested_offset");
  if (offset == json.end() || !offset->is_number() ||
      !std::isfinite(offset->get<float>())) {
    return Status::corrupt("'nested_offset' must be a finite number");
  }
  state.nested_offset = offset->get<float>();
  return state;
}

class BnbReader {
 public:
  explicit BnbReader(const Checkpoint& checkpoint) : checkpoint_(checkpoint) {}

  Result<DenseView> run() {
    constexpr std::string_view kState = ".quant_state.bitsandbytes__";
    constexpr std::string_view kRowMax = ".SCB";
    for (std::size_t i = 0; i < checkpoint_.tensors().size(); ++i) {
      const std::string_view name = checkpoint_.tensors()[i].name;
      if (const std::size_t at = name.find(kState); at != name.npos) {
        PITH_OK(read_four(std::string(name.substr(0, at)), StoredTensor(checkpoint_, i),
                          name.substr(at + kState.size())));
      } else if (name.ends_with(kRowMax)) {
        PITH_OK(read_eight(std::string(name.substr(0, name.size() - kRowMax.size())),
                           StoredTensor(checkpoint_, i)));
      }
    }
    return std::move(view_);
  }

 private:
  Result<StoredTensor> part(const StoredTensor& of, const std::string& name) const {
    const auto found = find_stored(checkpoint_, name);
    if (!found) return of.corrupt(fmt::format("'{}' is missing", printable(name)));
    return *found;
  }

  // The table of so many values in f32.
  template <std::size_t kSize>
  static Status read_table(const StoredTensor& tensor, std::array<float, kSize>& out) {
    if (!tensor.is(DType::kF32) || tensor.info().shape.elements() != kSize) {
      return tensor.corrupt(fmt::format("{} {} found, expected {} values of F32",
                                        tensor.info().encoding.name,
                                        tensor.info().shape.to_string(), kSize));
    }
    PITH_OK(tensor.read_floats(0, out));
    for (const float value : out) {
      if (!std::isfinite(value)) return tensor.corrupt("a value is not finite");
    }
    return {};
  }

  static Status check_count(const StoredTensor& tensor, DType dtype, std::int64_t count,
                            std::string_view what) {
    if (tensor.is(dtype) && tensor.info().shape.elements() == count) return {};
    return tensor.corrupt(
        fmt::format("{} {} found, expected {} {} of type {}", tensor.info().encoding.name,
                    tensor.info().shape.to_string(), count, what, to_string(dtype)));
  }

  Result<State> read_state(const StoredTensor& tensor, std::string_view suffix) const {
    const std::int64_t bytes = tensor.info().bytes;
    if (!tensor.is(DType::kU8) || bytes > kMaxState) {
      return tensor.corrupt(
          fmt::format("a JSON text of at most {} bytes (U8) was expected", kMaxState));
    }
    std::string text(static_cast<std::size_t>(bytes), '\0');
    PITH_OK(tensor.read(0, std::as_writable_bytes(std::span(text))));
    auto state = state_from(text);
    if (!state) return tensor.corrupt(state.error().message());
    if (state->type != suffix) {
      return tensor.corrupt(
          fmt::format("quant_type is {}, unlike its name", state->type));
    }
    return state;
  }

  Status read_four(const std::string& name, const StoredTensor& state_tensor,
                   std::string_view suffix) {
    PITH_TRY(const State state, read_state(state_tensor, suffix));
    PITH_TRY(const StoredTensor codes, part(state_tensor, name));
    PITH_TRY(const StoredTensor absmax, part(codes, name + ".absmax"));
    PITH_TRY(const StoredTensor map, part(codes, name + ".quant_map"));
    const std::int64_t elements = state.shape.elements();
    if (codes.info().bytes != divide_up(elements, 2)) {
      return codes.corrupt(fmt::format("{} bytes found, but shape {} needs {}",
                                       codes.info().bytes, state.shape.to_string(),
                                       divide_up(elements, 2)));
    }
    const std::int64_t blocks = divide_up(elements, state.block);
    PITH_OK(check_count(absmax, state.nested ? DType::kU8 : DType::kF32, blocks,
                        "maxima of blocks"));
    FourBit weight{.codes = codes,
                   .absmax = absmax,
                   .block = state.block,
                   .shape = state.shape,
                   .nested = std::nullopt};
    PITH_OK(read_table(map, weight.map));
    warn_about_table(map, weight.map, state.type);
    DecodedTensor tensor;
    tensor.name = name;
    tensor.shape = state.shape;
    tensor.parts = {codes.index(), absmax.index(), map.index(), state_tensor.index()};
    if (!seen_.insert(name).second) {
      return state_tensor.corrupt("the weight has two quant_states");
    }
    if (state.nested) {
      PITH_TRY(const StoredTensor outer, part(codes, name + ".nested_absmax"));
      PITH_TRY(const StoredTensor outer_map, part(codes, name + ".nested_quant_map"));
      PITH_OK(check_count(outer, DType::kF32, divide_up(blocks, state.nested_block),
                          "maxima of blocks"));
      Nested nested{outer, {}, state.nested_block, state.nested_offset};
      PITH_OK(read_table(outer_map, nested.map));
      tensor.parts.push_back(outer.index());
      tensor.parts.push_back(outer_map.index());
      weight.nested = nested;
    } else {
      for (const char* unexpected : {".nested_absmax", ".nested_quant_map"}) {
        if (const auto found = find_stored(checkpoint_, name + unexpected)) {
          return found->corrupt("quant_state does not tell that maxima are nested");
        }
      }
    }
    tensor.values = std::make_shared<FourBitWeight>(
        fmt::format("{} flat_block({}){}", state.type, state.block,
                    state.nested ? " nested" : ""),
        std::move(weight));
    view_.tensors.push_back(std::move(tensor));
    return {};
  }

  // The library's own decoder uses its built-in table and not that of the file.
  void warn_about_table(const StoredTensor& map, const std::array<float, 16>& found,
                        std::string_view type) {
    const auto& table = type == "nf4" ? kNf4 : kFp4;
    for (std::size_t i = 0; i < table.size(); ++i) {
      const float known = std::bit_cast<float>(table[i]);
      const float step = std::nextafter(std::abs(known), INFINITY) - std::abs(known);
      if (std::abs(found[i] - known) > step && view_.warnings.size() < 10) {
        view_.warnings.push_back(
            map.corrupt(
                   fmt::format("entry {} is {}, but {} has {} there: other readers may "
                               "give other values",
                               i, found[i], type, known))
                .message());
        return;
      }
    }
  }

  Status read_eight(const std::string& module, const StoredTensor& row_max) {
    const auto codes = find_stored(checkpoint_, module + ".weight");
    if (!codes || !codes->is(DType::kI8)) return {};  // another thing of that name
    const Shape& shape = codes->info().shape;
    if (shape.rank() != 2) return codes->corrupt("two extents were expected");
    PITH_OK(check_count(row_max, DType::kF32, shape[0], "maxima of rows"));
    DecodedTensor tensor;
    tensor.name = module + ".weight";
    tensor.shape = shape;
    tensor.parts = {codes->index(), row_max.index()};
    if (const auto format = find_stored(checkpoint_, module + ".weight_format")) {
      PITH_OK(check_count(*format, DType::kU8, 1, "number"));
      std::array<std::byte, 1> value = {};
      PITH_OK(format->read(0, value));
      if (value[0] != std::byte{0}) {
        return format->corrupt(
            fmt::format("layout {} is one of old GPUs: only 0, row-major, is read",
                        static_cast<int>(value[0])));
      }
      tensor.parts.push_back(format->index());
    }
    tensor.values = std::make_shared<EightBitWeight>(*codes, row_max);
    view_.tensors.push_back(std::move(tensor));
    return {};
  }

  const Checkpoint& checkpoint_;
  DenseView view_;
  std::set<std::string> seen_;  // weights of four bits
};

}  // namespace

Result<DenseView> view_bitsandbytes(const Checkpoint& checkpoint) {
  return BnbReader(checkpoint).run();
}

}  // namespace pith
