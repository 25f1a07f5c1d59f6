// Result<T>: a value or the Status that tells why there is none. It bears the names of
// C++23's std::expected.
//
//   pith::Result<pith::Shape> shape = pith::Shape::make({4096, 4096});
//   if (!shape) return shape.error();
//   use(*shape);
//
// or, inside a function that returns a Status or a Result itself:
//
//   PITH_TRY(pith::Shape shape, pith::Shape::make({4096, 4096}));
#pragma once

#include <cassert>
#include <type_traits>
#include <utility>
#include <variant>

#include "pith/base/status.h"

namespace pith {

template <typename T>
class [[nodiscard]] Result {
 public:
  static_assert(!std::is_same_v<T, Status>, "return a Status instead");

  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  /// `status` must not be ok.
  Result(Status status) : state_(std::in_place_index<1>, std::move(status)) {
    assert(!std::get<1>(state_).ok());
  }

  [[nodiscard]] bool has_value() const { return state_.index() == 0; }
  explicit operator bool() const { return has_value(); }

  /// Only if there is a value.
  [[nodiscard]] T& value() & { return std::get<0>(state_); }
  [[nodiscard]] const T& value() const& { return std::get<0>(state_); }
  [[nodiscard]] T&& value() && { return std::get<0>(std::move(state_)); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

  /// Only if there is no value.
  [[nodiscard]] const Status& error() const { return std::get<1>(state_); }
  /// The error, or an ok Status.
  [[nodiscard]] Status status() const { return has_value() ? Status() : error(); }

 private:
  std::variant<T, Status> state_;
};

}  // namespace pith

#define PITH_CONCAT_INNER_(a, b) a##b
#define PITH_CONCAT_(a, b) PITH_CONCAT_INNER_(a, b)
#define PITH_TRY_INNER_(result, declaration, ...) \
  auto result = (__VA_ARGS__);                    \
  if (!result) return result.error();             \
  declaration = *std::move(result)

/// Declares a variable from a Result, or returns its error: PITH_TRY(Shape s,
/// Shape::make(dims)).
#define PITH_TRY(declaration, ...) \
  PITH_TRY_INNER_(PITH_CONCAT_(pith_result_, __LINE__), declaration, __VA_ARGS__)
