// Finds accesses that conflict without an order between them.
//
// It is told what is submitted, and looks at each op when all that it waits for has been
// looked at: a wait for a timeline may come before its signal is submitted. What the host
// knew when an op was submitted is kept with the op.

#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/btree_map.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"

#include "runtime/device/check/access_map.h"
#include "runtime/device/check/check_device.h"
#include "runtime/device/mover.h"
#include "runtime/device/order_clocks.h"
#include "runtime/device/stream.h"

namespace ebb::device {

// Thread-safe. Never calls out.
class OrderChecker final : private Mover::Runner {
 public:
  OrderChecker();

  Source add_stream(const char* name);
  Source add_timeline();
  void rename(Source stream, const char* name);

  // What was submitted, by the tickets that the device gave it. They may come out of turn
  // (from a callback inside a submission), but all of them come: `nothing` where a ticket
  // touches no memory and makes no order.
  // `hold`: what the access was announced by; its block need not be lent any more.
  void access(Source stream, std::uint64_t ticket, const char* op,
              std::span<const Access> accesses, Hold hold = 0);
  void wait(Source stream, std::uint64_t ticket, Point point);
  void signal(Source stream, std::uint64_t ticket, Point timeline);
  void nothing(Source stream, std::uint64_t ticket);

  // The calling thread touches memory; has seen that `point` is reached.
  void touch_host(const Access& access);
  void learn(Point point);
  // Between these, calls come from a callback that comes after `point`.
  void begin_call_back(Point point);
  void end_call_back();

  // Device memory is lent, or given back. lend() says whether it may have been used before,
  // free() how many bytes it was: 0 if it is not lent.
  bool lend(std::uintptr_t address, std::size_t bytes);
  std::size_t free(std::uintptr_t address);
  // Copies of the block around `address` come later, named `hold`, from whomever: they come
  // after what the calling thread knows now, which hands them over. hold() says which block
  // it is (empty: none). release(): no more of them come.
  AccessMap::Range hold(std::uintptr_t address, Hold hold);
  void release(Hold hold);

  std::vector<std::string> violations() const;
  OrderFigures figures() const;
  // The first violation since the last call, unless a callback asks: it is kept for the
  // thread that submits. Empty: none.
  std::string take_news();

 private:
  static constexpr std::size_t kMaxWords = 100;  // Violations kept in words.

  struct State {
    const char* name = "";
    std::uint64_t next = 1;                      // Ticket.
    std::map<std::uint64_t, Mover::Work> early;  // Out of turn.
    std::shared_ptr<const Clock> joined;         // The last knowledge that its clock has.
  };

  struct Held {
    std::uintptr_t begin = 0;
    std::uintptr_t end = 0;
    std::shared_ptr<const Clock> known;  // When it was announced.
  };

  // The mover calls it under mutex_, which clang cannot see: it asserts that.
  absl::Status run(Point here, Mover::Work& work, bool skip) override;
  void push(Source stream, std::uint64_t ticket, Mover::Work work)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::shared_ptr<const Clock> known() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void join(Source stream, std::uint64_t ticket, const std::shared_ptr<const Clock>& known)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void look(Point here, const char* op, std::span<const Access> accesses,
            const Clock& clock) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void look_for_freed(Source stream, const char* op, std::span<const Access> accesses,
                      Hold hold) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void found(std::string words) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  const char* intern(const char* name) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable absl::Mutex mutex_;
  Mover mover_ ABSL_GUARDED_BY(mutex_);
  OrderClocks clocks_ ABSL_GUARDED_BY(mutex_);
  AccessMap map_ ABSL_GUARDED_BY(mutex_);
  std::deque<State> states_ ABSL_GUARDED_BY(mutex_);
  std::set<std::string> names_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<const Clock> known_ ABSL_GUARDED_BY(mutex_);
  std::uint64_t known_version_ ABSL_GUARDED_BY(mutex_) = 0;
  bool in_call_back_ ABSL_GUARDED_BY(mutex_) = false;
  std::uint64_t host_ticket_ ABSL_GUARDED_BY(mutex_) = 0;
  // Begin and end of blocks.
  absl::btree_map<std::uintptr_t, std::uintptr_t> lent_ ABSL_GUARDED_BY(mutex_);
  std::map<Hold, Held> held_ ABSL_GUARDED_BY(mutex_);
  // Of all that was ever lent.
  std::uintptr_t lowest_ ABSL_GUARDED_BY(mutex_) = 0;
  std::uintptr_t highest_ ABSL_GUARDED_BY(mutex_) = 0;
  OrderFigures figures_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::string> words_ ABSL_GUARDED_BY(mutex_);
  std::string news_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace ebb::device
