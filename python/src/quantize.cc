#include "pith/quantize/quantize.h"

#include <nanobind/operators.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <string>

#include "arrays.h"
#include "module.h"
#include "pith/pipeline/recipe.h"

namespace pith::python {

using nb::arg;

namespace {

constexpr Word<Group> kGroups[] = {{"tensor", Group::kTensor},
                                   {"row", Group::kRow},
                                   {"block", Group::kBlock},
                                   {"flat_block", Group::kFlatBlock}};
constexpr Word<ScaleRule> kRules[] = {{"absmax", ScaleRule::kAbsmax},
                                      {"percentile", ScaleRule::kPercentile},
                                      {"given", ScaleRule::kGiven},
                                      {"half_range", ScaleRule::kHalfRange},
                                      {"signed_max", ScaleRule::kSignedMax}};
constexpr Word<Range> kRanges[] = {{"symmetric", Range::kSymmetric},
                                   {"full", Range::kFull}};
constexpr Word<Rounding> kRoundings[] = {{"half_away", Rounding::kHalfAway},
                                         {"half_even", Rounding::kHalfEven},
                                         {"half_up", Rounding::kHalfUp}};
constexpr Word<Coding> kCodings[] = {{"stored", Coding::kStored},
                                     {"exact", Coding::kExact},
                                     {"inverse", Coding::kInverse}};
constexpr Word<ZeroGroup> kZeroGroups[] = {{"zero", ZeroGroup::kZero},
                                           {"one", ZeroGroup::kOne},
                                           {"epsilon", ZeroGroup::kEpsilon}};
constexpr Word<Layout> kLayouts[] = {{"split", Layout::kSplit},
                                     {"blocks", Layout::kBlocks}};

void set_field(Scheme& scheme, const std::string& key, nb::handle v) {
  const auto word = [&] { return nb::cast<std::string>(v); };
  if (key == "bits") {
    scheme.bits = nb::cast<int>(v);
  } else if (key == "symmetric") {
    scheme.symmetric = nb::cast<bool>(v);
  } else if (key == "group") {
    scheme.group = from_word(kGroups, "group", word());
  } else if (key == "block_size") {
    scheme.block_size = nb::cast<std::int64_t>(v);
  } else if (key == "scale_type") {
    scheme.scale_type = to_dtype(v);
  } else if (key == "rule") {
    scheme.rule = from_word(kRules, "rule", word());
  } else if (key == "percentile") {
    scheme.percentile = nb::cast<double>(v);
  } else if (key == "given_scale") {
    scheme.given_scale = nb::cast<float>(v);
  } else if (key == "range") {
    scheme.range = from_word(kRanges, "range", word());
  } else if (key == "rounding") {
    scheme.rounding = from_word(kRoundings, "rounding", word());
  } else if (key == "coding") {
    scheme.coding = from_word(kCodings, "coding", word());
  } else if (key == "zero_group") {
    scheme.zero_group = from_word(kZeroGroups, "zero_group", word());
  } else if (key == "layout") {
    scheme.layout = from_word(kLayouts, "layout", word());
  } else {
    raise_unknown("Scheme", key,
                  "bits, symmetric, group, block_size, scale_type, rule, percentile, "
                  "given_scale, range, rounding, coding, zero_group, layout");
  }
}

Scheme with_fields(Scheme scheme, const nb::kwargs& fields) {
  for (const auto& [key, v] : fields) set_field(scheme, nb::cast<std::string>(key), v);
  check(scheme.validate());
  return scheme;
}

// Only what differs from the default, so that it reads like what one would write.
std::string repr(const Scheme& s) {
  const Scheme d;
  std::string out = "Scheme(bits=" + std::to_string(s.bits);
  const auto add = [&](bool differs, const char* name, const std::string& v) {
    if (differs) out += std::string(", ") + name + "=" + v;
  };
  const auto quoted = [](std::string_view word) { return "'" + std::string(word) + "'"; };
  const auto number = [](double v) {
    return nb::cast<std::string>(nb::object(nb::cast(v).attr("__repr__")()));
  };
  add(s.symmetric != d.symmetric, "symmetric", s.symmetric ? "True" : "False");
  add(s.group != d.group, "group", quoted(to_word(kGroups, s.group)));
  add(s.block_size != d.block_size, "block_size", std::to_string(s.block_size));
  add(s.scale_type != d.scale_type, "scale_type", quoted(to_string(s.scale_type)));
  add(s.rule != d.rule, "rule", quoted(to_word(kRules, s.rule)));
  add(s.percentile != d.percentile, "percentile", number(s.percentile));
  add(s.given_scale != d.given_scale, "given_scale", number(s.given_scale));
  add(s.range != d.range, "range", quoted(to_word(kRanges, s.range)));
  add(s.rounding != d.rounding, "rounding", quoted(to_word(kRoundings, s.rounding)));
  add(s.coding != d.coding, "coding", quoted(to_word(kCodings, s.coding)));
  add(s.zero_group != d.zero_group, "zero_group",
      quoted(to_word(kZeroGroups, s.zero_group)));
  add(s.layout != d.layout, "layout", quoted(to_word(kLayouts, s.layout)));
  return out + ")";
}

void add_scheme(nb::module_& m) {
  nb::class_<Scheme>(
      m, "Scheme",
      "How weights become codes: bits, which weights share a scale, and how.\n\n"
      ">>> pith.Scheme(bits=4, group='block', block_size=32, scale_type='f16')\n"
      "Scheme(bits=4, group='block', block_size=32, scale_type='f16')\n"
      ">>> pith.Scheme.from_name('int8-row') == pith.Scheme.int8_rows()\n"
      "True\n"
      ">>> str(pith.Scheme.q4_0())\n"
      "'q4_0'\n\n"
      "A scheme does not change; `replace` makes another one.")
      .def(
          "__init__",
          [](Scheme* self, const nb::kwargs& fields) {
            new (self) Scheme(with_fields({}, fields));
          },
          arg("fields"),
          "Fields by keyword: bits (8 or 4), symmetric, group ('tensor', 'row', 'block', "
          "'flat_block'), block_size, scale_type ('f32', 'f16', 'bf16'), rule ('absmax', "
          "'percentile', 'given', 'half_range', 'signed_max'), percentile, given_scale, "
          "range "
          "('symmetric', 'full'), rounding ('half_away', 'half_even', 'half_up'), coding "
          "('stored', 'exact', 'inverse'), zero_group ('zero', 'one', 'epsilon'), layout "
          "('split', 'blocks').")
      .def_static(
          "from_name",
          [](const std::string& name) { return value(scheme_from_name(name)); },
          arg("name"),
          "The scheme of a name: int8, int8-row, int8-block64, int4-g32, w8a8, q4_0 ...")
      .def_static("int8_tensor", &Scheme::int8_tensor)
      .def_static("int8_rows", &Scheme::int8_rows)
      .def_static("int8_blocks", &Scheme::int8_blocks, arg("block_size"))
      .def_static("int8_flat_blocks", &Scheme::int8_flat_blocks, arg("block_size"))
      .def_static("int4_tensor", &Scheme::int4_tensor)
      .def_static("int4_rows", &Scheme::int4_rows)
      .def_static("int4_blocks", &Scheme::int4_blocks, arg("block_size"))
      .def_static("q8_0", &Scheme::q8_0, "GGUF")
      .def_static("q4_0", &Scheme::q4_0, "GGUF")
      .def_static("w8a8", &Scheme::w8a8, "compressed-tensors, per row")
      .def_static("w4a16", &Scheme::w4a16, arg("block_size") = 128, "compressed-tensors")
      .def_static("w4a16_asymmetric", &Scheme::w4a16_asymmetric, arg("block_size") = 128)
      .def(
          "replace",
          [](const Scheme& self, const nb::kwargs& fields) {
            return with_fields(self, fields);
          },
          arg("fields"), "The same scheme with other fields.")
      .def_ro("bits", &Scheme::bits)
      .def_ro("symmetric", &Scheme::symmetric)
      .def_prop_ro("group", [](const Scheme& s) { return to_word(kGroups, s.group); })
      .def_ro("block_size", &Scheme::block_size)
      .def_prop_ro("scale_type",
                   [](const Scheme& s) { return std::string(to_string(s.scale_type)); })
      .def_prop_ro("rule", [](const Scheme& s) { return to_word(kRules, s.rule); })
      .def_ro("percentile", &Scheme::percentile)
      .def_ro("given_scale", &Scheme::given_scale)
      .def_prop_ro("range", [](const Scheme& s) { return to_word(kRanges, s.range); })
      .def_prop_ro("rounding",
                   [](const Scheme& s) { return to_word(kRoundings, s.rounding); })
      .def_prop_ro("coding", [](const Scheme& s) { return to_word(kCodings, s.coding); })
      .def_prop_ro("zero_group",
                   [](const Scheme& s) { return to_word(kZeroGroups, s.zero_group); })
      .def_prop_ro("layout", [](const Scheme& s) { return to_word(kLayouts, s.layout); })
      .def_prop_ro("max_code", &Scheme::max_code)
      .def_prop_ro("min_code", &Scheme::min_code)
      .def(
          "groups",
          [](const Scheme& s, nb::handle shape) {
            const Shape extents = to_shape(shape);
            check(s.validate(extents));
            return s.groups(extents);
          },
          arg("shape"), "Groups, and so scales, of a tensor of that shape.")
      .def(
          "stored_bytes",
          [](const Scheme& s, nb::handle shape) {
            const Shape extents = to_shape(shape);
            check(s.validate(extents));
            return s.code_bytes(extents) + s.scale_bytes(extents) +
                   s.zero_point_bytes(extents);
          },
          arg("shape"),
          "Bytes of codes, scales and zero points of a tensor of that shape.")
      .def(
          "__eq__",
          [](const Scheme& a, nb::handle b) {
            Scheme* other = nullptr;
            return nb::try_cast(b, other) && other != nullptr && a == *other;
          },
          arg("other").none())
      .def("__hash__", [](const Scheme& s) { return nb::hash(nb::cast(repr(s))); })
      .def("__str__", &Scheme::to_string)
      .def("__repr__", &repr);
  m.def(
      "scheme_names",
      [] {
        std::vector<std::string> names;
        for (std::string_view name : scheme_names()) names.emplace_back(name);
        return names;
      },
      "Names that Scheme.from_name takes; numbers in names may be others.");
}

void add_figures(nb::module_& m) {
  nb::class_<ErrorFigures>(m, "ErrorFigures",
                           "What a change did to the values of a tensor, in numbers.\n\n"
                           ">>> pith.measure_error([1.0, 2.0], [1.0, 2.5]).max_error\n"
                           "0.5")
      .def_ro("count", &ErrorFigures::count, "elements compared: all that are finite")
      .def_ro("non_finite", &ErrorFigures::non_finite)
      .def_ro("zeros_before", &ErrorFigures::zeros_before)
      .def_ro("zeros_after", &ErrorFigures::zeros_after)
      .def_ro("saturated", &ErrorFigures::saturated)
      .def_ro("max_error", &ErrorFigures::max_error)
      .def_ro("max_index", &ErrorFigures::max_index)
      .def_prop_ro("mae", &ErrorFigures::mae, "mean of |before - after|")
      .def_prop_ro("mse", &ErrorFigures::mse, "mean of (before - after)^2")
      .def_prop_ro("rmse", &ErrorFigures::rmse)
      .def_prop_ro("sqnr_db", &ErrorFigures::sqnr_db, "infinite if there is no error")
      .def_prop_ro("cosine", &ErrorFigures::cosine)
      .def("__repr__", [](const ErrorFigures& e) {
        const auto number = [](double v) {
          return nb::cast<std::string>(nb::cast(v).attr("__format__")(".6g"));
        };
        return "ErrorFigures(count=" + std::to_string(e.count) +
               ", rmse=" + number(e.rmse()) + ", sqnr_db=" + number(e.sqnr_db()) +
               ", max_error=" + number(e.max_error) + ")";
      });
  m.def(
      "measure_error",
      [](nb::handle before, nb::handle after, const std::string& non_finite) {
        const NonFinite policy = from_word(kNonFinite, "non_finite", non_finite);
        const Floats a(before, "before");
        const Floats b(after, "after");
        return unlocked([&] { return measure_error(a.span(), b.span(), policy); });
      },
      arg("before"), arg("after"), arg("non_finite") = "error",
      "Figures of two arrays of the same number of values.\n\n"
      "InvalidArgument if the numbers differ, NotFinite (with the index) unless "
      "non_finite='count'.");
}

// What Python holds: the tensor and the figures of its making.
struct Quantized {
  QuantizedTensor tensor;
  std::optional<ErrorFigures> figures;
};

// All extents but the last, then `last` if it is not negative.
Shape rows_shape(const Shape& shape, std::int64_t last) {
  std::vector<std::int64_t> extents;
  if (shape.rank() > 0)
    extents.assign(shape.extents().begin(), shape.extents().end() - 1);
  if (last >= 0) extents.push_back(last);
  if (extents.empty()) extents.push_back(1);
  return value(Shape::make(extents));
}

Shape flat(std::int64_t n) { return value(Shape::make({n})); }

Shape codes_shape(const QuantizedTensor& t) {
  if (t.scheme.bits == 8 && t.scheme.layout == Layout::kSplit) return t.shape;
  const bool whole_rows = t.scheme.group != Group::kFlatBlock && t.shape.rows() > 0;
  return whole_rows ? rows_shape(t.shape, t.codes.size() / t.shape.rows())
                    : flat(t.codes.size());
}

Shape scales_shape(const QuantizedTensor& t, std::int64_t groups) {
  if (t.scheme.group == Group::kRow) return rows_shape(t.shape, -1);
  if (t.scheme.group == Group::kBlock && t.shape.rows() > 0) {
    return rows_shape(t.shape, groups / t.shape.rows());
  }
  return flat(groups);
}

Array codes(nb::handle self) {
  const QuantizedTensor& t = nb::cast<Quantized&>(self).tensor;
  const bool plain = t.scheme.bits == 8 && t.scheme.layout == Layout::kSplit;
  return view_of(plain ? DType::kI8 : DType::kU8, codes_shape(t), t.codes.bytes(), self);
}

Array scales(nb::handle self) {
  const QuantizedTensor& t = nb::cast<Quantized&>(self).tensor;
  const std::int64_t groups = t.scales.size() * 8 / bits_of(t.scheme.scale_type);
  return view_of(t.scheme.scale_type, groups == 0 ? flat(0) : scales_shape(t, groups),
                 t.scales.bytes(), self);
}

nb::object zero_points(nb::handle self) {
  const QuantizedTensor& t = nb::cast<Quantized&>(self).tensor;
  if (t.scheme.symmetric) return nb::none();
  return view_of(DType::kI8, scales_shape(t, t.zero_points.size()), t.zero_points.bytes(),
                 self);
}

Buffer copy_of(nb::handle array, const char* argument, std::int64_t bytes) {
  const Input input(array, argument);
  if (static_cast<std::int64_t>(input.bytes().size()) != bytes) {
    raise(Status::invalid_argument(
        std::string(argument) + ": " + std::to_string(input.bytes().size()) +
        " bytes were given, the scheme and the shape need " + std::to_string(bytes)));
  }
  Buffer buffer(bytes);
  std::copy(input.bytes().begin(), input.bytes().end(), buffer.bytes().begin());
  return buffer;
}

void construct_tensor(Quantized* self, nb::handle scheme, nb::handle shape,
                      nb::handle codes_array, nb::handle scales_array,
                      nb::handle zero_points_array) {
  QuantizedTensor t;
  t.scheme = to_scheme(scheme);
  t.shape = to_shape(shape);
  check(t.scheme.validate(t.shape));
  t.codes = copy_of(codes_array, "codes", t.scheme.code_bytes(t.shape));
  if (!scales_array.is_none() || t.scheme.scale_bytes(t.shape) != 0) {
    t.scales = copy_of(scales_array, "scales", t.scheme.scale_bytes(t.shape));
  }
  if (!zero_points_array.is_none() || t.scheme.zero_point_bytes(t.shape) != 0) {
    t.zero_points =
        copy_of(zero_points_array, "zero_points", t.scheme.zero_point_bytes(t.shape));
  }
  new (self) Quantized{std::move(t), {}};
}

Array decoded(const QuantizedTensor& t) {
  const Output<float> out(t.shape);
  unlocked([&] { return dequantize(t, out.span()); });
  return out.array();
}

Array unpacked(const QuantizedTensor& t) {
  const Output<std::int8_t> out(t.shape);
  const nb::gil_scoped_release release;
  for (std::int64_t i = 0; i < t.elements(); ++i) {
    out.span()[static_cast<std::size_t>(i)] = static_cast<std::int8_t>(t.code(i));
  }
  return out.array();
}

Quantized quantize_array(nb::handle weight, nb::handle scheme,
                         const std::string& non_finite, bool figures,
                         const std::string& name, const std::string& dtype) {
  const Scheme s = to_scheme(scheme);
  QuantizeOptions options{.non_finite = from_word(kNonFinite, "non_finite", non_finite)};
  ErrorFigures found;
  if (figures) options.figures = &found;
  const Input input(weight, "weight", dtype);
  QuantizedTensor made;
  if (input.dtype() == DType::kF32 || input.dtype() == DType::kF16 ||
      input.dtype() == DType::kBF16) {
    const TensorView view = input.tensor(name);
    made = unlocked([&] { return quantize(view, s, options); });
  } else {
    const Floats values(weight, "weight");
    const TensorView view = value(TensorView::of(values.span(), values.shape(), name));
    made = unlocked([&] { return quantize(view, s, options); });
  }
  return {std::move(made), figures ? std::optional(found) : std::nullopt};
}

void add_quantized(nb::module_& m) {
  nb::class_<Quantized>(
      m, "QuantizedTensor",
      "Codes and the scales that give them meaning, laid out as in a file.\n\n"
      ">>> import numpy as np\n"
      ">>> q = pith.quantize(np.eye(4, dtype=np.float32), 'int8-row')\n"
      ">>> q.codes[0], q.scales.shape, q.stored_bytes\n"
      "(array([127,   0,   0,   0], dtype=int8), (4,), 32)\n\n"
      "`codes`, `scales` and `zero_points` show the memory of the tensor: no "
      "copy is made, and they cannot be written.")
      .def("__init__", &construct_tensor, arg("scheme"), arg("shape"), arg("codes"),
           arg("scales").none() = nb::none(), arg("zero_points").none() = nb::none(),
           "From arrays, which are copied.")
      .def_prop_ro(
          "codes", &codes, nb::sig("def codes(self) -> numpy.ndarray"),
          "int8 of the tensor's shape; bytes with two codes for 4 bits; bytes of blocks")
      .def_prop_ro("scales", &scales, nb::sig("def scales(self) -> numpy.ndarray"),
                   "one per group")
      .def_prop_ro("zero_points", &zero_points,
                   nb::sig("def zero_points(self) -> numpy.ndarray | None"),
                   "one per group of an asymmetric scheme, else None")
      .def_prop_ro("scheme", [](const Quantized& q) { return q.tensor.scheme; })
      .def_prop_ro("shape", [](const Quantized& q) { return to_tuple(q.tensor.shape); })
      .def_prop_ro("elements", [](const Quantized& q) { return q.tensor.elements(); })
      .def_prop_ro(
          "stored_bytes", [](const Quantized& q) { return q.tensor.stored_bytes(); },
          "bytes of codes, scales and zero points in a file")
      .def_ro("figures", &Quantized::figures,
              "ErrorFigures if they were asked for, else None")
      .def(
          "dequantize", [](const Quantized& q) { return decoded(q.tensor); },
          nb::sig("def dequantize(self) -> numpy.ndarray"),
          "The values the codes stand for.")
      .def(
          "unpack", [](const Quantized& q) { return unpacked(q.tensor); },
          nb::sig("def unpack(self) -> numpy.ndarray"), "One int8 code per element.")
      .def("__repr__", [](const Quantized& q) {
        return "QuantizedTensor(" + q.tensor.scheme.to_string() +
               ", shape=" + q.tensor.shape.to_string() + ", " +
               std::to_string(q.tensor.stored_bytes()) + " bytes)";
      });
  m.def("quantize", &quantize_array, arg("weight"), arg("scheme"), nb::kw_only(),
        arg("non_finite") = "error", arg("figures") = false, arg("name") = "",
        arg("dtype") = "",
        "Quantizes an array of float32, float16 or bfloat16 by a Scheme or the name of "
        "one.\n\n"
        ">>> import numpy as np\n"
        ">>> w = np.array([[0.5, -1.0], [2.0, 4.0]], dtype=np.float32)\n"
        ">>> q = pith.quantize(w, 'int8-row', figures=True)\n"
        ">>> q.codes.tolist(), round(q.figures.max_error, 4)\n"
        "([[64, -127], [64, 127]], 0.0157)\n\n"
        "dtype says what uint16 means: 'f16' or 'bf16'. Other numbers are converted to "
        "float32 "
        "first. InvalidArgument if the scheme does not fit the shape; NotFinite (with "
        "name and "
        "index) unless non_finite='count'.");
  m.def(
      "dequantize", [](const Quantized& q) { return decoded(q.tensor); }, arg("tensor"),
      nb::sig("def dequantize(tensor: QuantizedTensor) -> numpy.ndarray"),
      "The values the codes stand for, as float32.\n\n"
      ">>> pith.dequantize(pith.quantize([0.0, 1.0], 'int8'))\n"
      "array([0., 1.], dtype=float32)");
  m.def(
      "compute_scale",
      [](nb::handle x, float largest_code, const std::string& rule, double percentile) {
        const ScaleRule r = from_word(kRules, "rule", rule);
        const Floats values(x, "x");
        return unlocked(
            [&] { return compute_scale(values.span(), largest_code, r, percentile); });
      },
      arg("x"), arg("largest_code") = 127.0f, arg("rule") = "absmax",
      arg("percentile") = 1.0, "The scale of all values as one group.");
}

}  // namespace

Scheme to_scheme(nb::handle scheme) {
  Scheme* found = nullptr;
  if (nb::try_cast(scheme, found) && found != nullptr) return *found;
  std::string name;
  if (nb::try_cast(scheme, name)) return value(scheme_from_name(name));
  raise(Status::invalid_argument("scheme: a Scheme or the name of one was expected"));
}

const QuantizedTensor& to_quantized(nb::handle tensor) {
  return nb::cast<Quantized&>(tensor).tensor;
}

bool is_quantized(nb::handle tensor) { return nb::isinstance<Quantized>(tensor); }

void add_quantize(nb::module_& m) {
  add_scheme(m);
  add_figures(m);
  add_quantized(m);
}

}  // namespace pith::python
