// Ctrl-C as a question that a long run asks itself, so that it ends in order.

#pragma once

#include <csignal>

#include <atomic>
#include <thread>

namespace ebb::cli {

// While it lives, the first SIGINT or SIGTERM to the process only sets requested(); a
// second one ends the process at once, as it would have without. Make it before other
// threads, which inherit that they are not disturbed. One at a time.
class Interrupt {
 public:
  Interrupt();
  ~Interrupt();

  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

  // Any thread.
  bool requested() const noexcept { return requested_.load(); }

  // Throws Error{kCancelled}, "interrupted <where>", if it was requested.
  void check(const char* where) const;

 private:
  void watch(const std::stop_token& stop) noexcept;

  sigset_t signals_;
  sigset_t before_;
  std::atomic<bool> requested_{false};
  std::jthread watcher_;
};

}  // namespace ebb::cli
