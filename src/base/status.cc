#include "pith/base/status.h"

#include <fmt/format.h>

namespace pith {

std::string_view to_string(StatusCode code) {
  switch (code) {
    case StatusCode::kOk:
      return "ok";
    case StatusCode::kInvalidArgument:
      return "invalid argument";
    case StatusCode::kNotFound:
      return "not found";
    case StatusCode::kAlreadyExists:
      return "already exists";
    case StatusCode::kCorrupt:
      return "corrupt";
    case StatusCode::kUnsupported:
      return "unsupported";
    case StatusCode::kNotFinite:
      return "not finite";
    case StatusCode::kGateFailed:
      return "gate failed";
    case StatusCode::kIo:
      return "input or output failed";
    case StatusCode::kNoSpace:
      return "no space";
    case StatusCode::kCancelled:
      return "cancelled";
  }
  return "unknown";
}

Status Status::with_context(std::string_view where) const {
  if (ok()) return *this;
  return {code_, fmt::format("{}: {}", where, message_)};
}

}  // namespace pith
