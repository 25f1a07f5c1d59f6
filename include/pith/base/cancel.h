// Stopping long work from outside: another thread, or the handler of a signal.
//
//   static pith::CancelToken stop;
//   signal(SIGINT, [](int) { stop.request(); });
//   pith::ConvertOptions options{.cancel = &stop};
//
// Work that is stopped returns kCancelled and leaves nothing behind.
#pragma once

#include <atomic>

#include "pith/base/status.h"

namespace pith {

/// A wish to stop, seen within a fraction of a second by whoever was given the token.
class CancelToken {
 public:
  /// Async-signal-safe and thread-safe.
  void request() noexcept { requested_.store(true, std::memory_order_relaxed); }
  [[nodiscard]] bool requested() const noexcept {
    return requested_.load(std::memory_order_relaxed);
  }

 private:
  static_assert(std::atomic<bool>::is_always_lock_free);
  std::atomic<bool> requested_{false};
};

/// kCancelled if there is a token and a stop was requested by it.
inline Status check_cancelled(const CancelToken* token) {
  if (token != nullptr && token->requested()) return {StatusCode::kCancelled, "stopped"};
  return {};
}

}  // namespace pith
