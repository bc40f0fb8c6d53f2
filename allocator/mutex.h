// A lock for short work, on paths where nanoseconds count.
//
// Whoever holds it is mostly done sooner than a thread falls asleep and wakes up, so that
// others look for it for a while before they sleep (Drepper, "Futexes are tricky", 2011:
// mutex 2). absl::Mutex, which everything else uses, costs three times as much where a
// distribution builds it with its search for deadlocks, and turning that off is the
// program's to decide, not a library's. There are no conditions to wait for here.

#pragma once

#include <atomic>

#include "absl/base/thread_annotations.h"

namespace ebb {

class ABSL_LOCKABLE Mutex {
 public:
  void lock() noexcept ABSL_EXCLUSIVE_LOCK_FUNCTION() {
    if (!try_lock()) lock_later();
  }
  void unlock() noexcept ABSL_UNLOCK_FUNCTION() {
    if (state_.exchange(kFree, std::memory_order_release) == kAwaited) state_.notify_one();
  }

 private:
  enum State : int { kFree, kHeld, kAwaited };  // Awaited: held, and others may sleep.

  bool try_lock() noexcept {
    int expected = kFree;
    return state_.compare_exchange_strong(expected, kHeld, std::memory_order_acquire,
                                          std::memory_order_relaxed);
  }
  void lock_later() noexcept;

  std::atomic<int> state_{kFree};
};

class ABSL_SCOPED_LOCKABLE MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) ABSL_EXCLUSIVE_LOCK_FUNCTION(mutex) : mutex_(mutex) {
    mutex_.lock();
  }
  ~MutexLock() ABSL_UNLOCK_FUNCTION() { mutex_.unlock(); }

  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex& mutex_;
};

}  // namespace ebb
