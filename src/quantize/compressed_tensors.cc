// Weights of compressed-tensors. For a module M with a weight of [N, K]:
//
//   M.weight            I8 or F8 [N, K], or M.weight_packed I32 [N, ceil(K * bits / 32)]:
//                       code + 2^(bits-1) of column c in bits c * bits ... of the row
//   M.weight_scale      [1], [N, 1], [N, K / g] or [ceil(N / r), ceil(K / c)]
//   M.weight_zero_point like the scales: I8, or packed along the rows: I32
//                       [ceil(N * bits / 32), groups]
//   M.weight_shape      I64 [2] = N, K, if packed
//   M.weight_g_idx      I32 [K]: the group of each column
//
// w = (code - zero point) * scale.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <set>
#include <utility>

#include "src/base/checked.h"
#include "src/base/text.h"
#include "src/kernels/convert.h"
#include "src/kernels/quantize.h"
#include "src/quantize/dense_tensor.h"
#include "src/quantize/quantization_config.h"

namespace pith {
namespace {

// The tensors of one module.
struct Module {
  std::string name;
  StoredTensor codes;
  StoredTensor scale;
  std::optional<StoredTensor> zero_point;
  CtFormat format = CtFormat::kPlain;
  CtWeights weights;
  Shape shape;                      // [N, K]
  std::int64_t groups = 1;          // scales of a row of them
  std::vector<std::int32_t> g_idx;  // empty if columns are in order
};

class CompressedWeight : public DenseTensor {
 public:
  CompressedWeight(std::string label, Module module)
      : DenseTensor(std::move(label)), m_(std::move(module)) {}

  Status read_rows(std::int64_t first, std::int64_t rows,
                   std::span<float> out) const override {
    const std::int64_t cols = m_.shape.cols();
    const std::int64_t step = rows_at_a_time(cols);
    for (std::int64_t done = 0; done < rows; done += step) {
      const std::int64_t n = std::min(step, rows - done);
      PITH_OK(read_some(first + done, n,
                        out.subspan(static_cast<std::size_t>(done * cols),
                                    static_cast<std::size_t>(n * cols))));
    }
    return {};
  }

  Result<std::optional<StoredCodes>> read_codes() const override {
    std::optional<StoredCodes> none;
    const CtWeights& w = m_.weights;
    if (w.is_float || !m_.g_idx.empty() || w.strategy == CtStrategy::kBlock ||
        m_.shape.elements() == 0) {
      return none;
    }
    const std::int64_t rows = m_.shape.rows();
    const std::int64_t cols = m_.shape.cols();
    StoredCodes stored;
    QuantizedTensor& tensor = stored.tensor;
    tensor.shape = m_.shape;
    tensor.scheme = w.bits == 8 ? Scheme::w8a8() : Scheme::w4a16(w.group_size);
    Scheme& scheme = tensor.scheme;
    scheme.symmetric = !m_.zero_point;
    scheme.scale_type = DType::kF32;
    scheme.group = w.strategy == CtStrategy::kTensor    ? Group::kTensor
                   : w.strategy == CtStrategy::kChannel ? Group::kRow
                                                        : Group::kBlock;
    scheme.block_size = scheme.group == Group::kBlock ? w.group_size : 0;
    if (!scheme.validate(m_.shape).ok()) return none;  // groups of an odd size
    const std::int64_t scale_rows = scale_row(rows - 1) + 1;
    std::vector<float> scales;
    std::vector<float> zeros;
    PITH_OK(read_scales(0, scale_rows, scales));
    PITH_OK(read_zero_points(0, scale_rows, zeros));
    tensor.scales = Buffer(scheme.scale_bytes(m_.shape));
    std::copy(scales.begin(), scales.end(), tensor.scales.as<float>().begin());
    tensor.zero_points = Buffer(scheme.zero_point_bytes(m_.shape));
    std::transform(zeros.begin(), zeros.end(),
                   tensor.zero_points.as<std::int8_t>().begin(),
                   [](float zero) { return static_cast<std::int8_t>(zero); });
    // Rows are filled up to whole words of the file.
    const std::int64_t from_bytes = m_.codes.info().bytes / rows;
    const std::int64_t to_bytes = w.bits == 8 ? cols : cols / 2 + cols % 2;
    tensor.codes = Buffer(scheme.code_bytes(m_.shape));
    const std::int64_t step = rows_at_a_time(cols);
    std::vector<std::byte> some;
    for (std::int64_t first = 0; first < rows; first += step) {
      const std::int64_t n = std::min(step, rows - first);
      some.resize(static_cast<std::size_t>(n * from_bytes));
      PITH_OK(read_code_bytes(first, some));
      for (std::int64_t r = 0; r < n; ++r) {
        std::memcpy(tensor.codes.data() + (first + r) * to_bytes,
                    some.data() + r * from_bytes, static_cast<std::size_t>(to_bytes));
      }
    }
    return std::optional(std::move(stored));
  }

 private:
  Status read_scales(std::int64_t first, std::int64_t rows,
                     std::vector<float>& scales) const {
    scales.resize(static_cast<std::size_t>(rows * m_.groups));
    PITH_OK(m_.scale.read_floats(first * m_.groups, scales));
    for (std::size_t i = 0; i < scales.size(); ++i) {
      if (!(scales[i] > 0) || !std::isfinite(scales[i])) {
        return m_.scale.corrupt(
            fmt::format("scale {} is {}, expected a finite number above 0",
                        static_cast<std::size_t>(first * m_.groups) + i, scales[i]));
      }
    }
    return {};
  }

  // Rows of codes in two's complement.
  Status read_code_bytes(std::int64_t first, std::span<std::byte> codes) const {
    PITH_OK(m_.codes.read(first * (m_.codes.info().bytes / m_.shape.rows()), codes));
    if (m_.format != CtFormat::kPacked) return {};
    // From code + 2^(bits-1).
    const std::byte flip{m_.weights.bits == 4 ? std::uint8_t{0x88} : std::uint8_t{0x80}};
    for (std::byte& byte : codes) byte ^= flip;
    return {};
  }

  // Rows of scales, which may be shared by rows of weights.
  [[nodiscard]] std::int64_t scale_row(std::int64_t row) const {
    switch (m_.weights.strategy) {
      case CtStrategy::kTensor:
        return 0;
      case CtStrategy::kBlock:
        return row / m_.weights.block_rows;
      default:
        return row;
    }
  }

  Status read_some(std::int64_t first, std::int64_t rows, std::span<float> out) const {
    const std::int64_t cols = m_.shape.cols();
    if (out.empty()) return {};
    const std::int64_t scale_first = scale_row(first);
    const std::int64_t scale_rows = scale_row(first + rows - 1) - scale_first + 1;
    std::vector<float> scales;
    PITH_OK(read_scales(scale_first, scale_rows, scales));
    std::vector<float> zeros;
    PITH_OK(read_zero_points(scale_first, scale_rows, zeros));
    const std::int64_t row_bytes = m_.codes.info().bytes / m_.shape.rows();
    std::vector<std::byte> codes(static_cast<std::size_t>(rows * row_bytes));
    PITH_OK(read_code_bytes(first, codes));
    for (std::int64_t r = 0; r < rows; ++r) {
      const auto at =
          static_cast<std::size_t>((scale_row(first + r) - scale_first) * m_.groups);
      decode_row(codes.data() + r * row_bytes, scales.data() + at,
                 zeros.empty() ? nullptr : zeros.data() + at, out.data() + r * cols);
    }
    return {};
  }

  Status read_zero_points(std::int64_t first, std::int64_t rows,
                          std::vector<float>& out) const {
    if (!m_.zero_point) return {};
    out.resize(static_cast<std::size_t>(rows * m_.groups));
    if (m_.format != CtFormat::kPacked) {
      return m_.zero_point->read_floats(first * m_.groups, out);
    }
    const std::int64_t per_word = 32 / m_.weights.bits;
    const std::int64_t word_first = first / per_word;
    const std::int64_t words = (first + rows - 1) / per_word - word_first + 1;
    std::vector<std::uint32_t> packed(static_cast<std::size_t>(words * m_.groups));
    PITH_OK(m_.zero_point->read(4 * word_first * m_.groups,
                                std::as_writable_bytes(std::span(packed))));
    const std::uint32_t mask = (1u << m_.weights.bits) - 1;
    const int half = 1 << (m_.weights.bits - 1);
    for (std::int64_t r = 0; r < rows; ++r) {
      const std::int64_t row = first + r;
      const auto shift = static_cast<int>(row % per_word) * m_.weights.bits;
      for (std::int64_t g = 0; g < m_.groups; ++g) {
        const std::uint32_t word = packed[static_cast<std::size_t>(
            (row / per_word - word_first) * m_.groups + g)];
        out[static_cast<std::size_t>(r * m_.groups + g)] =
            static_cast<float>(static_cast<int>((word >> shift) & mask) - half);
      }
    }
    return {};
  }

  void decode_row(const std::byte* codes, const float* scales, const float* zeros,
                  float* out) const {
    const std::int64_t cols = m_.shape.cols();
    const std::int64_t size = m_.groups == 1 ? cols : m_.weights.group_size;
    if (!m_.weights.is_float && m_.g_idx.empty()) {
      const bool four = m_.format == CtFormat::kPacked && m_.weights.bits == 4;
      if (!four || size % 2 == 0 || m_.groups == 1) {
        kernels::decode_groups(
            {.codes = reinterpret_cast<const std::uint8_t*>(codes),
             .stride = four ? size / 2 : size,
             .packing = four ? kernels::Packing::kInt4 : kernels::Packing::kInt8,
             .scales = scales,
             .zero_points = zeros,
             .one_scale = false,
             .out = out,
             .groups = m_.groups,
             .size = size,
             .last = cols - (m_.groups - 1) * size});
        return;
      }
    }
    // Floating-point codes, columns out of order, and groups that begin inside a byte.
    to_numbers(codes, out);
    for (std::int64_t c = 0; c < cols; ++c) {
      const auto g =
          m_.g_idx.empty()
              ? static_cast<std::size_t>(c / size)
              : static_cast<std::size_t>(m_.g_idx[static_cast<std::size_t>(c)]);
      const float code = zeros == nullptr ? out[c] : out[c] - zeros[g];
      out[c] = code * scales[g];
    }
  }

  void to_numbers(const std::byte* codes, float* out) const {
    const std::int64_t cols = m_.shape.cols();
    if (m_.format == CtFormat::kPacked && m_.weights.bits == 4) {
      for (std::int64_t c = 0; c < cols; ++c) {
        const int code = static_cast<int>(codes[c / 2] >> (c % 2 == 0 ? 0 : 4)) & 15;
        out[c] = static_cast<float>(code < 8 ? code : code - 16);
      }
      return;
    }
    const DType dtype =
        m_.format == CtFormat::kPacked ? DType::kI8 : *m_.codes.info().encoding.dtype;
    kernels::to_f32({.from = dtype, .in = codes, .out = out, .count = cols});
  }

  Module m_;
};

bool has_shape(const StoredTensor& tensor, std::initializer_list<std::int64_t> extents) {
  const auto found = tensor.info().shape.extents();
  return std::equal(found.begin(), found.end(), extents.begin(), extents.end());
}

class CtReader {
 public:
  CtReader(const Checkpoint& checkpoint, const CtConfig& config,
           std::string_view config_name)
      : checkpoint_(checkpoint), config_(config), config_name_(config_name) {}

  Result<DenseView> run() {
    std::set<std::string_view> modules;
    for (const TensorInfo& info : checkpoint_.tensors()) {
      const std::string_view name = info.name;
      for (const std::string_view suffix : {".weight_packed", ".weight_scale"}) {
        if (name.ends_with(suffix))
          modules.insert(name.substr(0, name.size() - suffix.size()));
      }
      if (name.ends_with(".weight")) {
        const std::string_view module = name.substr(0, name.size() - 7);
        if (is_code(info)) modules.insert(module);
        if (!is_code(info)) PITH_OK(check_plain(info, module));
      }
    }
    for (const std::string_view module : modules) {
      PITH_OK(read_module(std::string(module)));
    }
    if (activation_scales_ > 0) {
      view_.warnings.push_back(fmt::format(
          "{}: {} tensors for activations (input_scale and the like) are no part "
          "of the dense model",
          config_name_, activation_scales_));
    }
    return std::move(view_);
  }

 private:
  static bool is_code(const TensorInfo& info) {
    return info.encoding.dtype == DType::kI8 || info.encoding.dtype == DType::kF8E4M3;
  }

  // A weight that is stored as it is must not be one that the configuration names.
  Status check_plain(const TensorInfo& info, std::string_view module) {
    if (info.shape.rank() != 2 ||
        config_.ignore.match(module) > ModuleNames::Match::kClass) {
      return {};
    }
    const std::string scale = std::string(module) + ".weight_scale";
    for (const CtGroup& group : config_.groups) {
      if (group.weights && group.format != CtFormat::kDense &&
          group.targets.match(module) > ModuleNames::Match::kClass &&
          !checkpoint_.find(scale)) {
        return stored(info.name)->corrupt(fmt::format(
            "'{}' of the configuration targets its module, but it has no weight_scale",
            printable(group.name, 32)));
      }
    }
    return {};
  }

  std::optional<StoredTensor> stored(std::string_view name) const {
    return find_stored(checkpoint_, name);
  }

  Status read_module(const std::string& name) {
    const auto packed = stored(name + ".weight_packed");
    const auto plain = stored(name + ".weight");
    const auto scale = stored(name + ".weight_scale");
    const StoredTensor& any = packed ? *packed : plain ? *plain : *scale;
    if (config_.ignore.match(name) > ModuleNames::Match::kClass) {
      return any.corrupt("its module is quantized, but in 'ignore' of the configuration");
    }
    const auto group = config_.group_of(name);
    if (!group) return group.error().with_context(config_name_);
    const CtGroup& found = **group;
    if (!found.weights || found.format == CtFormat::kDense) {
      return any.corrupt(
          fmt::format("its module is quantized, but not by '{}' of the configuration",
                      printable(found.name, 32)));
    }
    const bool is_packed = found.format == CtFormat::kPacked;
    const auto& codes = is_packed ? packed : plain;
    if (!codes || (is_packed ? plain : packed)) {
      return any.corrupt(fmt::format("its module must have {}, and not {}",
                                     is_packed ? "weight_packed" : "weight",
                                     is_packed ? "weight" : "weight_packed"));
    }
    if (!scale) return codes->corrupt("its module has no weight_scale");

    Module module{.name = name,
                  .codes = *codes,
                  .scale = *scale,
                  .zero_point = stored(name + ".weight_zero_point"),
                  .format = found.format,
                  .weights = *found.weights,
                  .shape = {},
                  .g_idx = {}};
    DecodedTensor tensor;
    tensor.name = name + ".weight";
    tensor.parts = {codes->index(), scale->index()};
    PITH_OK(is_packed ? check_packed(module, tensor) : check_codes(module));
    PITH_OK(check_scale(module));
    PITH_OK(check_zero_point(module));
    if (module.zero_point) tensor.parts.push_back(module.zero_point->index());
    PITH_OK(read_g_idx(module, tensor));
    hide_activation_scales(name);
    tensor.shape = module.shape;
    std::string label = label_of(module);
    tensor.values =
        std::make_shared<CompressedWeight>(std::move(label), std::move(module));
    view_.tensors.push_back(std::move(tensor));
    return {};
  }

  static std::string label_of(const Module& module) {
    const CtWeights& w = module.weights;
    std::string group = "tensor";
    if (w.strategy == CtStrategy::kChannel) group = "channel";
    if (w.strategy == CtStrategy::kGroup) group = fmt::format("group({})", w.group_size);
    if (w.strategy == CtStrategy::kBlock) {
      group = fmt::format("block({}x{})", w.block_rows, w.group_size);
    }
    return fmt::format("{}{} {}{}", w.is_float ? "fp" : "int", w.bits, group,
                       w.symmetric ? "" : " asymmetric");
  }

  Status check_codes(Module& module) {
    module.shape = module.codes.info().shape;
    const DType expected = module.weights.is_float ? DType::kF8E4M3 : DType::kI8;
    if (module.shape.rank() != 2 || !module.codes.is(expected)) {
      return module.codes.corrupt(fmt::format(
          "{} {} found, expected {} with two extents", module.codes.info().encoding.name,
          module.shape.to_string(), to_string(expected)));
    }
    return {};
  }

  Status check_packed(Module& module, DecodedTensor& tensor) {
    const auto shape = stored(module.name + ".weight_shape");
    if (!shape) return module.codes.corrupt("its module has no weight_shape");
    if (!shape->is(DType::kI64) || !has_shape(*shape, {2})) {
      return shape->corrupt("two numbers of type I64 were expected");
    }
    tensor.parts.push_back(shape->index());
    std::int64_t extents[2] = {};
    PITH_OK(shape->read(0, std::as_writable_bytes(std::span(extents))));
    const auto made = Shape::make(extents);
    if (!made) return shape->corrupt(made.error().message());
    module.shape = *made;
    // ceil(K * bits / 32), where K * bits could overflow.
    const std::int64_t width = divide_up(extents[1], 32 / module.weights.bits);
    if (!module.codes.is(DType::kI32) || !has_shape(module.codes, {extents[0], width})) {
      return module.codes.corrupt(fmt::format(
          "{} {} found, but {} bits of weight_shape {} need I32 [{}, {}]",
          module.codes.info().encoding.name, module.codes.info().shape.to_string(),
          module.weights.bits, made->to_string(), extents[0], width));
    }
    return {};
  }

  // The shape of scales by the strategy; also how many a row has.
  Status check_scale(Module& module) {
    const std::int64_t rows = module.shape[0];
    const std::int64_t cols = module.shape[1];
    const CtWeights& w = module.weights;
    std::int64_t scale_rows = rows;
    switch (w.strategy) {
      case CtStrategy::kTensor:
        scale_rows = 1;
        break;
      case CtStrategy::kChannel:
        break;
      case CtStrategy::kGroup:
        if (cols % w.group_size != 0) {
          return module.codes.corrupt(fmt::format(
              "rows of {} values cannot be cut into groups of {}", cols, w.group_size));
        }
        module.groups = cols / w.group_size;
        break;
      case CtStrategy::kBlock:
        scale_rows = divide_up(rows, w.block_rows);
        module.groups = divide_up(cols, w.group_size);
        break;
    }
    const StoredTensor& scale = module.scale;
    const std::size_t rank = scale.info().shape.rank();
    const bool one_per_row =
        w.strategy == CtStrategy::kTensor || w.strategy == CtStrategy::kChannel;
    const bool fits = has_shape(scale, {scale_rows, module.groups}) ||
                      (one_per_row && has_shape(scale, {scale_rows})) ||
                      (w.strategy == CtStrategy::kTensor && rank == 0);
    const bool floating =
        scale.is(DType::kF32) || scale.is(DType::kF16) || scale.is(DType::kBF16);
    if (!fits || !floating) {
      return scale.corrupt(fmt::format(
          "{} {} found, expected F32, F16 or BF16 [{}, {}]: {} scales of a weight {}",
          scale.info().encoding.name, scale.info().shape.to_string(), scale_rows,
          module.groups, label_of(module), module.shape.to_string()));
    }
    return {};
  }

  Status check_zero_point(Module& module) {
    const auto& zero = module.zero_point;
    if (module.weights.symmetric && zero) {
      return zero->corrupt("a symmetric scheme has no zero points");
    }
    if (module.weights.symmetric) return {};
    if (!zero) return module.codes.corrupt("its module has no weight_zero_point");
    if (module.weights.is_float) {
      return zero->corrupt("floating-point codes have no zero points");
    }
    std::vector<std::int64_t> extents(module.scale.info().shape.extents().begin(),
                                      module.scale.info().shape.extents().end());
    DType expected = DType::kI8;
    if (module.format == CtFormat::kPacked) {
      expected = DType::kI32;
      if (extents.size() != 2) extents = {module.scale.info().shape.elements(), 1};
      extents[0] = divide_up(extents[0], 32 / module.weights.bits);
    }
    const auto found = zero->info().shape.extents();
    if (!zero->is(expected) ||
        !std::equal(found.begin(), found.end(), extents.begin(), extents.end())) {
      return zero->corrupt(
          fmt::format("{} {} found, expected {} {}", zero->info().encoding.name,
                      zero->info().shape.to_string(), to_string(expected),
                      Shape::make(extents).value().to_string()));
    }
    return {};
  }

  Status read_g_idx(Module& module, DecodedTensor& tensor) {
    const auto g_idx = stored(module.name + ".weight_g_idx");
    if (!g_idx) return {};
    tensor.parts.push_back(g_idx->index());
    if (!g_idx->is(DType::kI32) || !has_shape(*g_idx, {module.shape[1]}) ||
        module.weights.strategy != CtStrategy::kGroup) {
      return g_idx->corrupt(fmt::format(
          "{} {} found, expected I32 [{}] in a scheme of groups",
          g_idx->info().encoding.name, g_idx->info().shape.to_string(), module.shape[1]));
    }
    module.g_idx.resize(static_cast<std::size_t>(module.shape[1]));
    PITH_OK(g_idx->read(0, std::as_writable_bytes(std::span(module.g_idx))));
    for (std::size_t c = 0; c < module.g_idx.size(); ++c) {
      const std::int32_t group = module.g_idx[c];
      if (group == -1) {  // never filled in: columns are in order
        module.g_idx.clear();
        return {};
      }
      if (group < 0 || group >= module.groups) {
        return g_idx->corrupt(fmt::format("column {} is of group {}, but there are {}", c,
                                          group, module.groups));
      }
    }
    return {};
  }

  void hide_activation_scales(const std::string& module) {
    for (const char* suffix :
         {".input_scale", ".input_zero_point", ".output_scale", ".output_zero_point"}) {
      if (const auto tensor = stored(module + suffix)) {
        view_.hidden.push_back(tensor->index());
        ++activation_scales_;
      }
    }
  }

  const Checkpoint& checkpoint_;
  const CtConfig& config_;
  std::string_view config_name_;
  DenseView view_;
  std::size_t activation_scales_ = 0;
};

}  // namespace

Result<DenseView> view_compressed_tensors(const Checkpoint& checkpoint,
                                          std::string_view config,
                                          std::string_view config_name) {
  const auto parsed = parse_compressed_tensors(config);
  if (!parsed) return parsed.error().with_context(config_name);
  return CtReader(checkpoint, *parsed, config_name).run();
}

}  // namespace pith
