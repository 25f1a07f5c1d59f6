// Errors are values: a function that can fail returns a Status, or a Result<T>
// (result.h).
//
//   if (pith::Status s = writer.commit(); !s.ok()) return s;
//
// A message is one line that says where, what was found, what was expected and what to
// do. The library does not print, abort or exit; only std::bad_alloc passes through it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace pith {

/// What kind of failure. The command line turns it into an exit code, Python into an
/// exception.
enum class StatusCode : std::uint8_t {
  kOk,
  kInvalidArgument,  ///< the caller's mistake: an option or shape out of its range
  kNotFound,         ///< no such file, tensor or layer
  kAlreadyExists,    ///< the output is there and may not be replaced
  kCorrupt,          ///< a file breaks its format
  kUnsupported,      ///< well formed, but nothing Pith reads
  kNotFinite,        ///< NaN or infinity where a number is needed
  kGateFailed,       ///< a limit set by the user was exceeded
  kIo,               ///< a system call failed
  kNoSpace,          ///< disk, quota or memory limit reached
  kCancelled,        ///< stopped on request
};

/// "invalid argument", "corrupt", ...
[[nodiscard]] std::string_view to_string(StatusCode code);

/// Success, or a code with a message.
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(StatusCode code, std::string message)
      : code_(code), message_(std::move(message)) {}

  [[nodiscard]] bool ok() const { return code_ == StatusCode::kOk; }
  [[nodiscard]] StatusCode code() const { return code_; }
  [[nodiscard]] const std::string& message() const { return message_; }

  /// The same error with `where: ` in front, for a caller that knows the place.
  [[nodiscard]] Status with_context(std::string_view where) const;

  static Status invalid_argument(std::string message) {
    return {StatusCode::kInvalidArgument, std::move(message)};
  }
  static Status corrupt(std::string message) {
    return {StatusCode::kCorrupt, std::move(message)};
  }
  static Status unsupported(std::string message) {
    return {StatusCode::kUnsupported, std::move(message)};
  }
  static Status not_finite(std::string message) {
    return {StatusCode::kNotFinite, std::move(message)};
  }
  static Status not_found(std::string message) {
    return {StatusCode::kNotFound, std::move(message)};
  }

  friend bool operator==(const Status&, const Status&) = default;

 private:
  StatusCode code_ = StatusCode::kOk;
  std::string message_;
};

}  // namespace pith

/// Returns from the calling function if `expression` is a Status that is not ok.
#define PITH_OK(expression)                                               \
  do {                                                                    \
    if (::pith::Status pith_status_ = (expression); !pith_status_.ok()) { \
      return pith_status_;                                                \
    }                                                                     \
  } while (false)
