#include "bindings/cli/interrupt.h"

#include <ctime>

#include "allocator/error.h"

namespace ebb::cli {

Interrupt::Interrupt() {
  sigemptyset(&signals_);
  sigaddset(&signals_, SIGINT);
  sigaddset(&signals_, SIGTERM);
  EBB_CHECK(pthread_sigmask(SIG_BLOCK, &signals_, &before_) == 0, kInternal,
            "cannot take over Ctrl-C");
  watcher_ = std::jthread([this](const std::stop_token& stop) { watch(stop); });
}

Interrupt::~Interrupt() {
  watcher_.request_stop();
  watcher_.join();
  pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

void Interrupt::check(const char* where) const {
  if (requested()) {
    throw Error(absl::StatusCode::kCancelled, absl::StrCat("interrupted ", where));
  }
}

void Interrupt::watch(const std::stop_token& stop) noexcept {
  const timespec pause{.tv_sec = 0, .tv_nsec = 50'000'000};
  while (!stop.stop_requested()) {
    const int signal = sigtimedwait(&signals_, nullptr, &pause);
    if (signal < 0) continue;
    if (!requested_.exchange(true)) continue;
    // Asked twice: no patience left. The default action ends the process.
    std::signal(signal, SIG_DFL);
    pthread_sigmask(SIG_UNBLOCK, &signals_, nullptr);
    raise(signal);
  }
}

}  // namespace ebb::cli
