// Between numpy and the library: arrays come in without a copy where they are contiguous,
// results are arrays of numpy, failures are exceptions, and the interpreter is free while
// the library works.
//
//   Floats x(object, "x");                       // f32, or converted to it
//   Output<std::int8_t> codes(x.shape());
//   float scale = unlocked([&] { return dynamic_quantize(x.span(), {}, codes.span()); });
#pragma once

#include <Python.h>
#include <nanobind/nanobind.h>

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "pith/base/result.h"
#include "pith/tensor/buffer.h"
#include "pith/tensor/dtype.h"
#include "pith/tensor/shape.h"
#include "pith/tensor/view.h"

namespace pith::python {

namespace nb = nanobind;

/// An array of numpy, for signatures.
class Array : public nb::object {
  NB_OBJECT_DEFAULT(Array, nb::object, "numpy.ndarray", any)
  static bool any(const PyObject*) { return true; }
};
/// The same of what is known to be one.
inline Array as_array(const nb::object& object) { return nb::borrow<Array>(object); }

/// Throws the exception of a failure, with its message. Needs the interpreter.
[[noreturn]] void raise(const Status& status);
/// Makes the exceptions; called once by the module.
void add_errors(nb::module_& m);

inline void check(const Status& status) {
  if (!status.ok()) raise(status);
}
template <typename T>
T value(Result<T>&& result) {
  if (!result) raise(result.error());
  return *std::move(result);
}

/// Runs `work` without the interpreter's lock; a Status or Result that failed becomes an
/// exception afterwards.
template <typename Work>
auto unlocked(Work&& work) {
  auto result = [&] {
    nb::gil_scoped_release release;
    return work();
  }();
  if constexpr (std::is_same_v<decltype(result), Status>) {
    check(result);
  } else {
    return value(std::move(result));
  }
}

/// An object of the library that serves one caller at a time, for callers on any thread.
template <typename T>
struct Guarded {
  template <typename... Args>
  requires std::is_constructible_v<T, Args...>
  explicit Guarded(Args&&... args) : object(std::forward<Args>(args)...) {}
  Guarded(const Guarded&) = delete;
  Guarded& operator=(const Guarded&) = delete;

  /// Runs `work` on the object, without the interpreter's lock.
  template <typename Work>
  auto with(Work&& work) {
    nb::gil_scoped_release release;
    std::lock_guard lock(mutex);
    return work(object);
  }

  T object;
  std::mutex mutex;
};

/// A contiguous array that is Python's. Lives and dies with the interpreter's lock held.
class Input {
 public:
  /// Anything numpy understands. Contiguous arrays are used where they are, others are
  /// copied. `as` says what 16-bit integers mean: "f16" or "bf16". `argument` is for
  /// messages.
  Input(nb::handle object, const char* argument, std::string_view as = {});
  ~Input();
  Input(const Input&) = delete;
  Input& operator=(const Input&) = delete;

  [[nodiscard]] DType dtype() const { return dtype_; }
  [[nodiscard]] const Shape& shape() const { return shape_; }
  [[nodiscard]] std::span<const std::byte> bytes() const;
  [[nodiscard]] TensorView tensor(std::string_view name) const;
  /// The elements, if they have this type; else an exception.
  template <typename T>
  [[nodiscard]] std::span<const T> span(DType dtype) const {
    expect(dtype);
    return {static_cast<const T*>(view_.buf),
            static_cast<std::size_t>(shape_.elements())};
  }

 private:
  bool acquire(nb::handle object);
  void expect(DType dtype) const;

  const char* argument_;
  Py_buffer view_{};
  DType dtype_ = DType::kF32;
  Shape shape_;
};

/// The values of an array as f32: in place, or converted from any other number.
class Floats {
 public:
  Floats(nb::handle object, const char* argument, std::string_view as = {});

  [[nodiscard]] const Shape& shape() const { return input_.shape(); }
  [[nodiscard]] std::span<const float> span() const { return values_; }
  [[nodiscard]] std::int64_t size() const { return shape().elements(); }

 private:
  Input input_;
  Buffer converted_;
  std::span<const float> values_;
};

/// An f32 array to be changed: the caller's own, or a copy that the caller gets.
class InOut {
 public:
  /// In place the array must be contiguous, writable f32.
  InOut(nb::handle object, const char* argument, bool in_place, std::string_view as = {});
  ~InOut();
  InOut(const InOut&) = delete;
  InOut& operator=(const InOut&) = delete;

  [[nodiscard]] const Shape& shape() const { return shape_; }
  [[nodiscard]] std::span<float> span() const;
  [[nodiscard]] Array array() const { return as_array(array_); }

 private:
  nb::object array_;
  Py_buffer view_{};
  Shape shape_;
};

/// A new array of numpy; bf16 is ml_dtypes' if that is installed, else uint16.
class NewArray {
 public:
  NewArray(DType dtype, const Shape& shape);
  ~NewArray();
  NewArray(const NewArray&) = delete;
  NewArray& operator=(const NewArray&) = delete;

  [[nodiscard]] std::span<std::byte> bytes() const {
    return {static_cast<std::byte*>(view_.buf), static_cast<std::size_t>(view_.len)};
  }
  /// What Python gets.
  [[nodiscard]] Array array() const;

 private:
  DType dtype_;
  nb::object array_;
  Py_buffer view_{};
};

template <typename T>
constexpr DType dtype_of() {
  if constexpr (std::is_same_v<T, float>) return DType::kF32;
  if constexpr (std::is_same_v<T, double>) return DType::kF64;
  if constexpr (std::is_same_v<T, std::int8_t>) return DType::kI8;
  if constexpr (std::is_same_v<T, std::uint8_t>) return DType::kU8;
  if constexpr (std::is_same_v<T, std::int64_t>) return DType::kI64;
  if constexpr (std::is_same_v<T, bool>) return DType::kBool;
}

template <typename T>
class Output : public NewArray {
 public:
  explicit Output(const Shape& shape) : NewArray(dtype_of<T>(), shape) {}
  [[nodiscard]] std::span<T> span() const {
    return {reinterpret_cast<T*>(bytes().data()), bytes().size() / sizeof(T)};
  }
};

/// An array with a copy of `values`.
template <typename T>
Array array_of(std::span<const T> values) {
  const Output<T> out(*Shape::make({static_cast<std::int64_t>(values.size())}));
  std::copy(values.begin(), values.end(), out.span().begin());
  return out.array();
}

/// An array that shows memory of `owner`, which it keeps alive; it cannot be written.
Array view_of(DType dtype, const Shape& shape, std::span<const std::byte> bytes,
              nb::handle owner);

/// The shape as a tuple, and back.
nb::typed<nb::tuple, int, nb::ellipsis> to_tuple(const Shape& shape);
Shape to_shape(nb::handle sequence);

/// str(object).
std::string text_of(nb::handle object);

/// A type by its name ("f16"), or by that of numpy ("float16", np.float16).
DType to_dtype(nb::handle dtype);

/// A word for an enumerator: {"row", Group::kRow}.
template <typename E>
struct Word {
  const char* text;
  E value;
};
[[noreturn]] void raise_unknown(const char* argument, std::string_view word,
                                std::string_view known);
template <typename E, std::size_t N>
E from_word(const Word<E> (&words)[N], const char* argument, std::string_view word) {
  std::string known;
  for (const Word<E>& w : words) {
    if (w.text == word) return w.value;
    known += known.empty() ? "" : ", ";
    known += w.text;
  }
  raise_unknown(argument, word, known);
}
template <typename E, std::size_t N>
const char* to_word(const Word<E> (&words)[N], E value) {
  for (const Word<E>& w : words) {
    if (w.value == value) return w.text;
  }
  return "?";
}

}  // namespace pith::python
