#include "allocator/mutex.h"

namespace ebb {

void Mutex::lock_later() noexcept {
  constexpr int kLooks = 200;  // Some hundred nanoseconds: several times a usual hold.
  for (int i = 0; i < kLooks; ++i) {
    if (state_.load(std::memory_order_relaxed) == kFree && try_lock()) return;
  }
  while (state_.exchange(kAwaited, std::memory_order_acquire) != kFree) {
    state_.wait(kAwaited, std::memory_order_relaxed);
  }
}

}  // namespace ebb
