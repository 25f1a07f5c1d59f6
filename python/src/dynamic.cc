#include "pith/quantize/dynamic.h"

#include <nanobind/stl/string.h>

#include <string>

#include "arrays.h"
#include "module.h"
#include "pith/quantize/convert.h"
#include "pith/quantize/fp8.h"
#include "pith/quantize/smooth.h"

namespace pith::python {

using nb::arg;

namespace {

constexpr Word<ScaleRule> kDynamicRules[] = {{"absmax", ScaleRule::kAbsmax},
                                             {"percentile", ScaleRule::kPercentile},
                                             {"given", ScaleRule::kGiven}};
constexpr Word<Overflow> kOverflows[] = {{"saturate", Overflow::kSaturate},
                                         {"infinity", Overflow::kInfinity}};

DynamicOptions dynamic_options(int bits, const std::string& rule, double percentile,
                               float given_scale) {
  return {.bits = bits,
          .rule = from_word(kDynamicRules, "rule", rule),
          .percentile = percentile,
          .given_scale = given_scale};
}

nb::typed<nb::tuple, Array, float> quantize_all(nb::handle x, int bits,
                                                const std::string& rule,
                                                double percentile, float given_scale) {
  const DynamicOptions options = dynamic_options(bits, rule, percentile, given_scale);
  const Floats values(x, "x");
  const Output<std::int8_t> codes(values.shape());
  const float scale =
      unlocked([&] { return dynamic_quantize(values.span(), options, codes.span()); });
  return nb::make_tuple(codes.array(), scale);
}

// Rows are what lies along the last axis.
Shape outer(const Shape& shape) {
  if (shape.rank() == 0) return shape;
  return value(Shape::make(shape.extents().first(shape.rank() - 1)));
}

nb::typed<nb::tuple, Array, Array> quantize_rows(nb::handle x, int bits,
                                                 const std::string& rule,
                                                 double percentile, float given_scale) {
  const DynamicOptions options = dynamic_options(bits, rule, percentile, given_scale);
  const Floats values(x, "x");
  const Output<std::int8_t> codes(values.shape());
  const Output<float> scales(outer(values.shape()));
  unlocked([&] {
    return dynamic_quantize_rows(values.span(), values.shape().rows(),
                                 values.shape().cols(), options, codes.span(),
                                 scales.span());
  });
  return nb::make_tuple(codes.array(), scales.array());
}

nb::object convert_array(nb::handle x, nb::handle dtype, const std::string& overflow,
                         bool counts, const std::string& from) {
  const DType to = to_dtype(dtype);
  const Overflow beyond = from_word(kOverflows, "overflow", overflow);
  const Input input(x, "x", from);
  const NewArray out(to, input.shape());
  const TensorView view = input.tensor("x");
  const ConvertCounts met =
      unlocked([&] { return convert(view, to, out.bytes(), beyond); });
  if (!counts) return out.array();
  return nb::make_tuple(out.array(), nb::cast(met));
}

SmoothOptions smooth_options(float alpha, float epsilon) {
  return {.alpha = alpha, .epsilon = epsilon};
}

void add_smooth(nb::module_& m) {
  m.def(
      "smooth_factors",
      [](nb::handle activation_absmax, nb::handle weight_absmax, float alpha,
         float epsilon) {
        const Floats w(weight_absmax, "weight_absmax");
        Guarded<ColumnStats>* stats = nullptr;
        if (nb::try_cast(activation_absmax, stats) && stats != nullptr) {
          const auto factors = value(stats->with([&](ColumnStats& input) {
            return smooth_factors(input, w.span(), smooth_options(alpha, epsilon));
          }));
          return array_of<float>(factors);
        }
        const Floats a(activation_absmax, "activation_absmax");
        const auto factors = unlocked([&] {
          return smooth_factors(a.span(), w.span(), smooth_options(alpha, epsilon));
        });
        return array_of<float>(factors);
      },
      arg("activation_absmax"), arg("weight_absmax"), arg("alpha") = 0.5f,
      arg("epsilon") = 1e-5f,
      "SmoothQuant's factor of every input feature from the largest magnitudes of its "
      "column, or from ColumnStats of the input: then a column that is 0 has factor "
      "1.\n\n"
      ">>> pith.smooth_factors([4.0, 1.0], [1.0, 1.0]).round(3)\n"
      "array([2., 1.], dtype=float32)");
  m.def(
      "column_absmax",
      [](nb::handle x) {
        const Floats values(x, "x");
        const auto found = unlocked([&] {
          return column_absmax(values.span(), values.shape().rows(),
                               values.shape().cols());
        });
        return array_of<float>(found);
      },
      arg("x"), "Largest magnitude of each column of a matrix.");
  const auto smooth = [](auto function) {
    return [function](nb::handle x, nb::handle factors, bool in_place) {
      const Floats f(factors, "factors");
      const InOut data(x, "x", in_place);
      unlocked([&] {
        return function(data.span(), data.shape().rows(), data.shape().cols(), f.span());
      });
      return data.array();
    };
  };
  m.def("smooth_weights", smooth(&smooth_weights), arg("x"), arg("factors"),
        nb::kw_only(), arg("in_place") = false, "x * factors, column by column.");
  m.def("smooth_activations", smooth(&smooth_activations), arg("x"), arg("factors"),
        nb::kw_only(), arg("in_place") = false, "x / factors, column by column.");

  m.def(
      "fold_factors",
      [](nb::handle norm, nb::handle factors, bool in_place) {
        const Floats f(factors, "factors");
        const InOut data(norm, "norm", in_place);
        unlocked([&] { return fold_factors(data.span(), f.span()); });
        return data.array();
      },
      arg("norm"), arg("factors"), nb::kw_only(), arg("in_place") = false,
      "norm / factors: the weight or bias of the norm whose output smoothed layers "
      "read.");

  using Calibrator = Guarded<SmoothCalibrator>;
  nb::class_<Calibrator>(m, "SmoothCalibrator",
                         "Column maxima of layers, and factors from them.")
      .def(
          "__init__",
          [](Calibrator* self, float alpha, float epsilon) {
            const SmoothOptions options = smooth_options(alpha, epsilon);
            check(options.validate());
            new (self) Calibrator(options);
          },
          arg("alpha") = 0.5f, arg("epsilon") = 1e-5f)
      .def(
          "record",
          [](Calibrator& self, const std::string& layer, nb::handle activations) {
            const Floats x(activations, "activations");
            check(self.with([&](SmoothCalibrator& c) {
              return c.record(layer, x.span(), x.shape().cols());
            }));
          },
          arg("layer"), arg("activations"), "Takes rows of activations.")
      .def(
          "factors",
          [](Calibrator& self, const std::string& layer, nb::handle weight) {
            const Floats w(weight, "weight");
            const auto factors = value(self.with([&](SmoothCalibrator& c) {
              return c.factors(layer, w.span(), w.shape().rows());
            }));
            return array_of<float>(factors);
          },
          arg("layer"), arg("weight"), "NotFound if the layer was not recorded.")
      .def("__contains__",
           [](Calibrator& self, const std::string& layer) {
             return self.with([&](SmoothCalibrator& c) { return c.has_layer(layer); });
           })
      .def("__len__", [](Calibrator& self) {
        return self.with([](SmoothCalibrator& c) { return c.layer_count(); });
      });
}

}  // namespace

void add_dynamic(nb::module_& m) {
  m.def("dynamic_quantize", &quantize_all, arg("x"), nb::kw_only(), arg("bits") = 8,
        arg("rule") = "absmax", arg("percentile") = 1.0, arg("given_scale") = 0.0f,
        "Codes of activations with one scale: (codes, scale), one code per byte.\n\n"
        ">>> codes, scale = pith.dynamic_quantize([1.0, -0.5, 0.25])\n"
        ">>> codes, round(scale * 127, 6)\n"
        "(array([127, -64,  32], dtype=int8), 1.0)");
  m.def("dynamic_quantize_rows", &quantize_rows, arg("x"), nb::kw_only(), arg("bits") = 8,
        arg("rule") = "absmax", arg("percentile") = 1.0, arg("given_scale") = 0.0f,
        "Codes of activations with a scale for each row (last axis): (codes, scales).");
  nb::class_<ConvertCounts>(m, "ConvertCounts", "What a conversion met.")
      .def_ro("overflowed", &ConvertCounts::overflowed)
      .def_ro("first_overflowed", &ConvertCounts::first_overflowed)
      .def_ro("infinite", &ConvertCounts::infinite)
      .def_ro("nan", &ConvertCounts::nan)
      .def_ro("first_not_finite", &ConvertCounts::first_not_finite);
  m.def("convert", &convert_array, arg("x"), arg("dtype"), nb::kw_only(),
        arg("overflow") = "saturate", arg("counts") = false, arg("from_dtype") = "",
        nb::sig("def convert(x: object, dtype: object, *, overflow: str = 'saturate', "
                "counts: bool = False, from_dtype: str = '') -> typing.Any"),
        "The values of an array as 'f32', 'f16', 'bf16', 'f8e4m3' or 'f8e5m2', rounded "
        "once.\n\n"
        ">>> pith.convert([1.0, 65519.0, 1e-8], 'f16')\n"
        "array([1.00e+00, 6.55e+04, 0.00e+00], dtype=float16)\n\n"
        "bf16 and fp8 are ml_dtypes' types if that package is there, else their bits as "
        "unsigned "
        "integers; `from_dtype` says what such bits mean on the way in. With "
        "counts=True: (array, "
        "ConvertCounts). `overflow` ('saturate', 'infinity') matters for fp8 only.");
  add_smooth(m);
}

}  // namespace pith::python
