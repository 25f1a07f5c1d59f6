#include "arrays.h"

#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>

#include <algorithm>
#include <array>

#include "pith/quantize/convert.h"

namespace pith::python {

namespace {

// An attribute of a module, kept for good: every call needs it. No static of the compiler's
// own making: its guard and the interpreter's lock would wait for each other.
PyObject* kept(PyObject*& place, const char* module, const char* name) {
  if (place == nullptr) {
    place = nb::object(nb::module_::import_(module).attr(name)).release().ptr();
  }
  return place;
}

PyObject* g_ascontiguousarray = nullptr;
PyObject* ascontiguousarray() {
  return kept(g_ascontiguousarray, "numpy", "ascontiguousarray");
}

// What numpy calls a type; for numbers it does not have, that of their bits.
const char* numpy_name(DType dtype) {
  switch (dtype) {
    case DType::kBool:
      return "bool";
    case DType::kI8:
      return "int8";
    case DType::kI16:
      return "int16";
    case DType::kI32:
      return "int32";
    case DType::kI64:
      return "int64";
    case DType::kU8:
    case DType::kF8E4M3:
    case DType::kF8E5M2:
      return "uint8";
    case DType::kU16:
    case DType::kBF16:
      return "uint16";
    case DType::kU32:
      return "uint32";
    case DType::kU64:
      return "uint64";
    case DType::kF16:
      return "float16";
    case DType::kF32:
      return "float32";
    case DType::kF64:
      return "float64";
    case DType::kC64:
      return "complex64";
    default:
      raise(
          Status::unsupported("numpy has no type for " + std::string(to_string(dtype))));
  }
}

PyObject* numpy_dtype(DType dtype) {
  static PyObject* types[kDTypeCount] = {};
  PyObject*& type = types[static_cast<std::size_t>(dtype)];
  if (type == nullptr) {
    const nb::object made =
        nb::module_::import_("numpy").attr("dtype")(numpy_name(dtype));
    type = nb::object(made).release().ptr();
  }
  return type;
}

// ml_dtypes' type for bf16 or fp8, or None if that package is not there; null for all others.
PyObject* ml_dtype(DType dtype) {
  const char* const name = dtype == DType::kBF16     ? "bfloat16"
                           : dtype == DType::kF8E4M3 ? "float8_e4m3fn"
                           : dtype == DType::kF8E5M2 ? "float8_e5m2"
                                                     : nullptr;
  if (name == nullptr) return nullptr;
  static PyObject* types[kDTypeCount] = {};
  PyObject*& type = types[static_cast<std::size_t>(dtype)];
  if (type == nullptr) {
    nb::object found = nb::none();
    try {
      found = nb::module_::import_("numpy").attr("dtype")(
          nb::module_::import_("ml_dtypes").attr(name));
    } catch (nb::python_error&) {
      // Not installed: their bits will do.
    }
    type = found.release().ptr();
  }
  return type;
}

// bf16 and fp8 as the types of ml_dtypes; as bits if that package is not there.
nb::object dressed(nb::object array, DType dtype) {
  PyObject* const type = ml_dtype(dtype);
  if (type == nullptr || type == Py_None) return array;
  return array.attr("view")(nb::handle(type));
}

std::optional<DType> dtype_of_format(const char* format, Py_ssize_t item) {
  if (format == nullptr) return DType::kU8;
  if (*format == '<' || *format == '=' || *format == '@') ++format;
  if (format[0] == '\0' || format[1] != '\0') return {};
  switch (*format) {
    case '?':
      return DType::kBool;
    case 'e':
      return DType::kF16;
    case 'f':
      return DType::kF32;
    case 'd':
      return DType::kF64;
    case 'b':
    case 'h':
    case 'i':
    case 'l':
    case 'q':
      return item == 1   ? DType::kI8
             : item == 2 ? DType::kI16
             : item == 4 ? DType::kI32
                         : DType::kI64;
    case 'B':
    case 'c':
    case 'H':
    case 'I':
    case 'L':
    case 'Q':
      return item == 1   ? DType::kU8
             : item == 2 ? DType::kU16
             : item == 4 ? DType::kU32
                         : DType::kU64;
    default:
      return {};
  }
}

Shape shape_of(const Py_buffer& view) {
  const std::vector<std::int64_t> extents(view.shape, view.shape + view.ndim);
  return value(Shape::make(extents));
}

// The name of an array's type where numpy cannot hand out its memory: "bfloat16", ...
std::string foreign_dtype(nb::handle object) {
  if (!nb::hasattr(object, "dtype")) return {};
  const nb::object dtype = object.attr("dtype");
  return text_of(dtype);
}

// numpy's arrays of numbers that are not its own, once one was met: its memory cannot be had
// from the array, but from a view of its bits. Found by name this takes 5 us, so 1.
struct Foreign {
  PyTypeObject* array;  // numpy.ndarray
  PyObject* dtype;
  DType meaning;
};
std::array<Foreign, 3> g_foreign = {};
PyObject* g_dtype_name = nullptr;
PyObject* g_view_name = nullptr;

void remember(nb::handle object, DType meaning) {
  if (g_view_name == nullptr) {
    g_dtype_name = PyUnicode_InternFromString("dtype");
    g_view_name = PyUnicode_InternFromString("view");
  }
  const nb::object dtype = object.attr("dtype");
  for (Foreign& place : g_foreign) {
    if (place.dtype == dtype.ptr()) return;
    if (place.dtype != nullptr) continue;
    place = {Py_TYPE(object.ptr()), nb::object(dtype).release().ptr(), meaning};
    return;
  }
}

// A view of the bits of such an array, and what they mean; nothing for all others.
std::optional<DType> view_bits(nb::object& object) {
  if (g_foreign[0].dtype == nullptr || Py_TYPE(object.ptr()) != g_foreign[0].array)
    return {};
  const nb::object dtype = nb::steal(PyObject_GetAttr(object.ptr(), g_dtype_name));
  if (!dtype.is_valid()) throw nb::python_error();
  for (const Foreign& known : g_foreign) {
    if (known.dtype != dtype.ptr()) continue;
    PyObject* const arguments[] = {object.ptr(), numpy_dtype(known.meaning)};
    const nb::object bits =
        nb::steal(PyObject_VectorcallMethod(g_view_name, arguments, 2, nullptr));
    if (!bits.is_valid()) throw nb::python_error();
    object = bits;
    return known.meaning;
  }
  return {};
}

std::optional<DType> dtype_of_name(std::string_view name) {
  if (const auto dtype = dtype_from_string(name)) return dtype;
  static constexpr std::pair<const char*, DType> kNumpy[] = {
      {"bool", DType::kBool},          {"int8", DType::kI8},
      {"uint8", DType::kU8},           {"int16", DType::kI16},
      {"uint16", DType::kU16},         {"int32", DType::kI32},
      {"uint32", DType::kU32},         {"int64", DType::kI64},
      {"uint64", DType::kU64},         {"float16", DType::kF16},
      {"bfloat16", DType::kBF16},      {"float32", DType::kF32},
      {"float64", DType::kF64},        {"float8_e4m3fn", DType::kF8E4M3},
      {"float8_e5m2", DType::kF8E5M2}, {"fp16", DType::kF16},
      {"fp32", DType::kF32},
  };
  for (const auto& [text, dtype] : kNumpy) {
    if (name == text) return dtype;
  }
  return {};
}

}  // namespace

std::string text_of(nb::handle object) {
  const nb::object text = nb::steal(PyObject_Str(object.ptr()));
  if (!text.is_valid()) throw nb::python_error();
  return nb::cast<std::string>(text);
}

bool Input::acquire(nb::handle object) {
  if (PyObject_CheckBuffer(object.ptr()) == 0) return false;
  if (PyObject_GetBuffer(object.ptr(), &view_, PyBUF_C_CONTIGUOUS | PyBUF_FORMAT) != 0) {
    PyErr_Clear();
    view_ = {};
    return false;
  }
  const auto dtype = dtype_of_format(view_.format, view_.itemsize);
  if (!dtype) {
    PyBuffer_Release(&view_);
    view_ = {};
    return false;
  }
  dtype_ = *dtype;
  return true;
}

Input::Input(nb::handle object, const char* argument, std::string_view as)
    : argument_(argument) {
  std::optional<DType> meaning;
  if (!as.empty()) {
    meaning = dtype_of_name(as);
    if (!meaning) {
      raise(Status::invalid_argument("dtype: '" + std::string(as) +
                                     "' is no type; f16 or bf16 was expected"));
    }
  }
  nb::object bits = nb::borrow(object);
  if (const auto known = view_bits(bits)) meaning = known;
  if (!acquire(bits)) {
    nb::object array = nb::borrow(object);
    const std::string foreign = foreign_dtype(object);
    const auto dtype = dtype_of_name(foreign);
    if (dtype == DType::kBF16 || dtype == DType::kF8E4M3 || dtype == DType::kF8E5M2) {
      array = nb::handle(ascontiguousarray())(array).attr("view")(
          nb::handle(numpy_dtype(*dtype)));
      meaning = dtype;
      if (Py_TYPE(object.ptr()) == Py_TYPE(array.ptr())) remember(object, *dtype);
    } else {
      // numpy makes vectors of scalars here.
      const nb::object rank = nb::getattr(object, "ndim", nb::none());
      const bool scalar = !rank.is_none() && nb::cast<int>(rank) == 0;
      array = nb::handle(ascontiguousarray())(array);
      if (scalar) array = array.attr("reshape")(nb::make_tuple());
    }
    if (!acquire(array)) {
      raise(Status::invalid_argument(
          std::string(argument) + ": an array of numbers was expected, not " +
          (foreign.empty() ? text_of(object.type()) : "one of " + foreign)));
    }
  }
  if (meaning) {
    if (bits_of(*meaning) != 8 * view_.itemsize) {
      const std::string found(to_string(dtype_));
      PyBuffer_Release(&view_);
      raise(Status::invalid_argument(std::string(argument) + ": " + found +
                                     " numbers cannot be the bits of " +
                                     std::string(to_string(*meaning))));
    }
    dtype_ = *meaning;
  }
  shape_ = shape_of(view_);
}

Input::~Input() { PyBuffer_Release(&view_); }

std::span<const std::byte> Input::bytes() const {
  return {static_cast<const std::byte*>(view_.buf), static_cast<std::size_t>(view_.len)};
}

TensorView Input::tensor(std::string_view name) const {
  return value(TensorView::make(dtype_, shape_, bytes(), name));
}

void Input::expect(DType dtype) const {
  if (dtype_ == dtype) return;
  raise(Status::invalid_argument(
      std::string(argument_) + ": " + std::string(to_string(dtype)) +
      " numbers were expected, not " + std::string(to_string(dtype_))));
}

Floats::Floats(nb::handle object, const char* argument, std::string_view as)
    : input_(object, argument, as) {
  if (input_.dtype() == DType::kF32) {
    values_ = input_.span<float>(DType::kF32);
    return;
  }
  converted_ = Buffer(value(bytes_of(DType::kF32, shape())));
  unlocked(
      [&] { return convert(input_.tensor(argument), DType::kF32, converted_.bytes()); });
  values_ = std::as_const(converted_).as<float>();
}

InOut::InOut(nb::handle object, const char* argument, bool in_place,
             std::string_view as) {
  if (in_place) {
    array_ = nb::borrow(object);
    const bool got =
        PyObject_GetBuffer(object.ptr(), &view_,
                           PyBUF_C_CONTIGUOUS | PyBUF_FORMAT | PyBUF_WRITABLE) == 0;
    if (!got || dtype_of_format(view_.format, view_.itemsize) != DType::kF32) {
      PyErr_Clear();
      if (got) PyBuffer_Release(&view_);
      raise(Status::invalid_argument(std::string(argument) +
                                     ": in_place needs a contiguous, writable array of "
                                     "float32; without in_place a copy is changed"));
    }
    shape_ = shape_of(view_);
    return;
  }
  const Floats source(object, argument, as);
  shape_ = source.shape();
  const Output<float> copy(shape_);
  array_ = copy.array();
  if (PyObject_GetBuffer(array_.ptr(), &view_, PyBUF_C_CONTIGUOUS | PyBUF_WRITABLE) !=
      0) {
    throw nb::python_error();
  }
  const nb::gil_scoped_release release;
  std::copy(source.span().begin(), source.span().end(), copy.span().begin());
}

InOut::~InOut() { PyBuffer_Release(&view_); }

std::span<float> InOut::span() const {
  return {static_cast<float*>(view_.buf), static_cast<std::size_t>(shape_.elements())};
}

NewArray::NewArray(DType dtype, const Shape& shape) : dtype_(dtype) {
  static PyObject* empty = nullptr;
  kept(empty, "numpy", "empty");
  const nb::tuple extents = to_tuple(shape);
  PyObject* const args[] = {extents.ptr(), numpy_dtype(dtype)};
  array_ = nb::steal(PyObject_Vectorcall(empty, args, 2, nullptr));
  if (!array_.is_valid() ||
      PyObject_GetBuffer(array_.ptr(), &view_, PyBUF_C_CONTIGUOUS | PyBUF_WRITABLE) !=
          0) {
    throw nb::python_error();
  }
}

NewArray::~NewArray() { PyBuffer_Release(&view_); }

Array NewArray::array() const { return as_array(dressed(array_, dtype_)); }

Array view_of(DType dtype, const Shape& shape, std::span<const std::byte> bytes,
              nb::handle owner) {
  using nb::dlpack::dtype_code;
  const auto code = dtype == DType::kF16 || dtype == DType::kF32 ? dtype_code::Float
                    : dtype == DType::kI8                        ? dtype_code::Int
                                                                 : dtype_code::UInt;
  const nb::dlpack::dtype type{static_cast<std::uint8_t>(code),
                               static_cast<std::uint8_t>(bits_of(dtype)), 1};
  const std::vector<std::size_t> extents(shape.extents().begin(), shape.extents().end());
  nb::ndarray<nb::numpy, nb::ro> array(bytes.data(), extents.size(), extents.data(),
                                       owner, nullptr, type);
  return as_array(dressed(nb::cast(array), dtype));
}

nb::typed<nb::tuple, int, nb::ellipsis> to_tuple(const Shape& shape) {
  PyObject* const tuple = PyTuple_New(static_cast<Py_ssize_t>(shape.rank()));
  if (tuple == nullptr) throw nb::python_error();
  for (std::size_t i = 0; i < shape.rank(); ++i) {
    PyTuple_SetItem(tuple, static_cast<Py_ssize_t>(i), PyLong_FromLongLong(shape[i]));
  }
  return nb::steal<nb::tuple>(tuple);
}

Shape to_shape(nb::handle sequence) {
  std::vector<std::int64_t> extents;
  for (nb::handle extent : nb::borrow<nb::iterable>(sequence)) {
    extents.push_back(nb::cast<std::int64_t>(extent));
  }
  return value(Shape::make(extents));
}

DType to_dtype(nb::handle dtype) {
  std::string name;
  if (nb::isinstance<nb::str>(dtype)) {
    name = nb::cast<std::string>(dtype);
  } else if (nb::hasattr(dtype, "name")) {  // a dtype of numpy
    name = nb::cast<std::string>(dtype.attr("name"));
  } else if (nb::hasattr(dtype, "__name__")) {  // np.float16, ml_dtypes.bfloat16
    name = nb::cast<std::string>(dtype.attr("__name__"));
  }
  const auto found = dtype_of_name(name);
  if (!found) {
    raise(Status::invalid_argument("dtype: '" + name + "' is no type Pith knows"));
  }
  return *found;
}

void raise_unknown(const char* argument, std::string_view word, std::string_view known) {
  raise(Status::invalid_argument(std::string(argument) + ": '" + std::string(word) +
                                 "' is not one of " + std::string(known)));
}

}  // namespace pith::python
