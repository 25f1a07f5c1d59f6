#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "arrays.h"
#include "module.h"
#include "pith/run/linear.h"
#include "pith/run/matvec.h"

namespace pith::python {

using nb::arg;

namespace {

constexpr Word<Activations> kActivations[] = {{"int8_rows", Activations::kInt8Rows},
                                              {"int8_tensor", Activations::kInt8Tensor},
                                              {"static", Activations::kStatic},
                                              {"int7_rows", Activations::kInt7Rows},
                                              {"f32", Activations::kF32}};

using Layer = Guarded<Linear>;

// Options of Python's; they live as long as the layer is being made.
struct Options {
  Options(const std::string& activations, float static_scale, nb::handle input_scale) {
    if (!input_scale.is_none()) scale.emplace(input_scale, "input_scale");
    options = {.activations = from_word(kActivations, "activations", activations),
               .static_scale = static_scale};
    if (scale) options.input_scale = scale->span();
  }
  std::optional<Floats> scale;
  LinearOptions options;
};

void construct_layer(Layer* self, nb::handle weight, nb::handle bias, nb::handle scheme,
                     const std::string& activations, float static_scale,
                     nb::handle input_scale) {
  std::optional<Floats> b;
  if (!bias.is_none()) b.emplace(bias, "bias");
  const std::span<const float> values = b ? b->span() : std::span<const float>{};
  Options all(activations, static_scale, input_scale);
  const auto make = [&](const auto& tensor) {
    return unlocked([&] { return Linear::make(tensor, values, all.options); });
  };
  if (is_quantized(weight)) {
    new (self) Layer(make(to_quantized(weight)));
    return;
  }
  const Input input(weight, "weight");
  const TensorView view = input.tensor("weight");
  if (scheme.is_none()) {
    all.options.activations = Activations::kF32;
    new (self) Layer(make(view));
    return;
  }
  const Scheme s = to_scheme(scheme);
  const QuantizedTensor tensor = unlocked([&] { return quantize(view, s); });
  new (self) Layer(make(tensor));
}

std::unique_ptr<Layer> load(nb::handle source, const std::string& name,
                            const std::string& activations, float static_scale,
                            nb::handle input_scale) {
  const Options all(activations, static_scale, input_scale);
  const auto checkpoint = to_checkpoint(source);
  return std::make_unique<Layer>(
      unlocked([&] { return Linear::load(*checkpoint, name, all.options); }));
}

Array forward(Layer& self, nb::handle x, const std::string& dtype) {
  const std::int64_t inputs = self.object.inputs();
  const std::int64_t outputs = self.object.outputs();
  const Input input(x, "x", dtype);
  const Shape& shape = input.shape();
  if (shape.rank() == 0 || shape.cols() != inputs) {
    raise(Status::invalid_argument("x: its shape is " + shape.to_string() +
                                   "; the last extent must be the layer's inputs, " +
                                   std::to_string(inputs)));
  }
  std::vector<std::int64_t> extents(shape.extents().begin(), shape.extents().end());
  extents.back() = outputs;
  const Output<float> y(value(Shape::make(extents)));
  const std::int64_t rows = shape.rows();
  if (input.dtype() == DType::kBF16) {
    const auto bits = input.span<std::uint16_t>(DType::kBF16);
    check(self.with([&](Linear& l) { return l.forward_bf16(bits, rows, y.span()); }));
  } else if (input.dtype() == DType::kF32) {
    const auto values = input.span<float>(DType::kF32);
    check(self.with([&](Linear& l) { return l.forward(values, rows, y.span()); }));
  } else {
    const Floats values(x, "x", dtype);
    check(self.with([&](Linear& l) { return l.forward(values.span(), rows, y.span()); }));
  }
  return y.array();
}

void add_linear(nb::module_& m) {
  nb::class_<Layer>(
      m, "Linear",
      "A linear layer that computes with compressed weights: y = W x + b.\n\n"
      ">>> import numpy as np\n"
      ">>> layer = pith.Linear(np.eye(3, dtype=np.float32), scheme='int8-row')\n"
      ">>> layer(np.array([[1.0, 2.0, 127.0]], np.float32)).round(3)\n"
      "array([[  1.,   2., 127.]], dtype=float32)\n\n"
      "Sums of codes are exact: the bits of y depend neither on threads nor on "
      "how rows are put into batches.")
      .def("__init__", &construct_layer, arg("weight"), arg("bias").none() = nb::none(),
           nb::kw_only(), arg("scheme").none() = "int8-row",
           arg("activations") = "int8_rows", arg("static_scale") = 0.0f,
           arg("input_scale").none() = nb::none(),
           "From a QuantizedTensor [outputs, inputs], or an array that is quantized by "
           "`scheme` "
           "first. activations: 'int8_rows', 'int8_tensor', 'static' (static_scale), "
           "'int7_rows', "
           "'f32'. input_scale: x is multiplied by it first, one value per input. With "
           "scheme=None "
           "an array is used as it is: what other layers are measured against.")
      .def_static(
          "load", &load, arg("source"), arg("name"), nb::kw_only(),
          arg("activations") = "int8_rows", arg("static_scale") = 0.0f,
          arg("input_scale").none() = nb::none(),
          "The weight `name` of a Checkpoint or path, with its bias, as it is stored.")
      .def_prop_ro("inputs", [](Layer& l) { return l.object.inputs(); })
      .def_prop_ro("outputs", [](Layer& l) { return l.object.outputs(); })
      .def_prop_ro(
          "scheme", [](Layer& l) { return l.object.scheme(); },
          "of the codes; None for weights that were no codes")
      .def_prop_ro(
          "packed_bytes", [](Layer& l) { return l.object.packed_bytes(); },
          "bytes of the weights in memory")
      .def_prop_ro("pack_seconds", [](Layer& l) { return l.object.pack_seconds(); })
      .def_prop_ro(
          "decoded", [](Layer& l) { return l.object.decoded(); },
          "True if no kernel takes the scheme and weights became float32")
      .def("forward", &forward, arg("x"), nb::kw_only(), arg("dtype") = "",
           nb::sig("def forward(self, x: object, *, dtype: str = '') -> numpy.ndarray"),
           "y for x of shape (..., inputs), as float32 of shape (..., outputs). x is "
           "float32, "
           "bfloat16, float16 or uint16 with dtype='bf16'.")
      .def("__call__", &forward, arg("x"), nb::kw_only(), arg("dtype") = "",
           nb::sig("def __call__(self, x: object, *, dtype: str = '') -> numpy.ndarray"))
      .def("__repr__", [](Layer& l) {
        return "Linear(" + std::to_string(l.object.inputs()) + " -> " +
               std::to_string(l.object.outputs()) + ", " +
               (l.object.scheme() ? l.object.scheme()->to_string()
                                  : std::string("dense")) +
               ")";
      });
}

}  // namespace

void add_run(nb::module_& m) {
  add_linear(m);
  m.def(
      "w8a8_matvec",
      [](nb::handle weight, nb::handle row_scale, nb::handle x) {
        const Input w(weight, "weight");
        const Floats scales(row_scale, "row_scale");
        const Floats activation(x, "x");
        const auto codes = w.span<std::int8_t>(DType::kI8);
        const std::int64_t rows = w.shape().rows();
        const Output<float> y(value(Shape::make({rows})));
        unlocked([&] {
          MatvecScratch scratch;
          return w8a8_matvec(codes, scales.span(), rows, w.shape().cols(),
                             activation.span(), y.span(), scratch);
        });
        return y.array();
      },
      arg("weight"), arg("row_scale"), arg("x"),
      nb::sig("def w8a8_matvec(weight: object, row_scale: object, x: object) -> "
              "numpy.ndarray"),
      "int8 weights [rows, cols] times x, which is quantized by its largest "
      "magnitude.\n\n"
      ">>> import numpy as np\n"
      ">>> pith.w8a8_matvec(np.array([[1, 2]], np.int8), [0.5], [127.0, 1.0])\n"
      "array([64.5], dtype=float32)");
  m.def(
      "int8_matvec",
      [](nb::handle codes, nb::handle scales, nb::handle x) {
        const Input w(codes, "codes");
        const Floats s(scales, "scales");
        const Floats activation(x, "x");
        const auto q = w.span<std::int8_t>(DType::kI8);
        const std::int64_t rows = w.shape().rows();
        const Output<float> y(value(Shape::make({rows})));
        unlocked([&] {
          return int8_matvec(q, s.span(), rows, w.shape().cols(), activation.span(),
                             y.span());
        });
        return y.array();
      },
      arg("codes"), arg("scales"), arg("x"),
      nb::sig(
          "def int8_matvec(codes: object, scales: object, x: object) -> numpy.ndarray"),
      "int8 weights times float32 activations; one scale, or one per row.");
}

}  // namespace pith::python
