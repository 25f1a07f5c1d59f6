// How far long work has come.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

namespace pith {

struct Progress {
  std::string_view item;   ///< what is worked on, such as a tensor's name
  std::int64_t done = 0;   ///< bytes of input that are done
  std::int64_t total = 0;  ///< of these
};

/// Called after each piece of work, from any thread, but never by two at a time. Must not
/// throw, and should return at once.
using ProgressFunction = std::function<void(const Progress&)>;

}  // namespace pith
