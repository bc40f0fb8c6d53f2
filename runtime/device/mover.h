// Runs the work of a device's streams in some order that streams and events allow, whatever
// the clock says. The simulated device moves its bytes through one; the order checker looks
// at what was submitted through another.
//
// It also carries failures: the first one stays on its stream, goes where a wait or a
// signal takes it, and what is behind it is not run.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <random>
#include <vector>

#include "absl/status/status.h"

#include "runtime/device/point.h"
#include "runtime/device/ring.h"
#include "runtime/device/stream.h"

namespace ebb::device {

// Not thread-safe. What it runs may push, but not run, more.
class Mover {
 public:
  enum class Kind : std::uint8_t {
    kNothing,
    kOp,
    kProbe,
    kCopy,
    kCallBack,
    kWait,
    kSignal
  };

  struct Work {
    Kind kind = Kind::kNothing;
    const char* name = "";
    Body body;                     // Of an op.
    std::vector<Access> accesses;  // Of an op, where they are guarded.
    CopyInfo copy;
    Point point;  // Waited for, or signalled.
  };

  class Runner {
   public:
    virtual ~Runner() = default;
    // Runs an op, a copy or a callback; `skip`: its stream has failed, so do not. Hears of
    // waits and signals when they have their turn.
    virtual absl::Status run(Point here, Work& work, bool skip) = 0;
  };

  // `eager`: move_all() is what will be called. `seed` is for move_some().
  Mover(Runner& runner, bool eager, std::uint64_t seed)
      : runner_(runner),
        eager_(eager),
        random_(seed),
        held_(kHeld[random_() % kHeld.size()]) {}

  // Sources are numbered from 0 in the order of these calls.
  void add_source() { sources_.emplace_back(); }

  // Tickets count up by one with each.
  void push(Source stream, Work work);

  std::uint64_t moved(Source source) const noexcept { return sources_[source].moved; }
  bool moved(Point point) const noexcept { return moved(point.source) >= point.ticket; }

  // Moves all that can be moved.
  void move_all();
  // Moves what `point` needs, and nothing else. False if it needs what was not submitted.
  bool force(Point point);
  // Moves one thing. False if nothing can be moved.
  bool move_one();
  // Moves some of what can be moved, or nothing, at random; copies are held back.
  void move_some();

  // The stream's first failure at or before that ticket, or OK. A failure is there only
  // once what failed has moved.
  const absl::Status& failure(Point point) const noexcept;
  bool any_failure() const noexcept { return failures_ > 0; }
  // Its first failure, which it forgets.
  absl::Status take_failure(Source source) noexcept;
  void fail(Source source, std::uint64_t ticket, const absl::Status& status);
  // After force() has failed: the wait that can never end, if there is one, and for what.
  struct Blocked {
    std::optional<Point> wait;
    Point set;
  };
  Blocked first_blocked(Point point) const;
  // The wait at `wait` is over; nobody signals the value.
  void abandon(Point wait);
  void set(Point timeline);

 private:
  struct Signal {
    std::uint64_t value = 0;
    Point by;
  };

  struct State {
    std::uint64_t submitted = 0;
    std::uint64_t moved = 0;
    Ring<Work> queue;             // What is not moved; its last is `submitted`.
    std::vector<Source> waiting;  // Streams that stopped at a wait for this source.
    Ring<Signal> signals;         // Submitted and not moved, by value.
    std::shared_ptr<const absl::Status> failure;
    std::uint64_t failed_at = 0;
  };

  bool blocked(Source stream) const noexcept;
  void step(Source stream);
  void advance(Source source, std::uint64_t to);
  void adopt(Source to, std::uint64_t ticket, Point from);
  void set_failure(Source source, std::uint64_t ticket,
                   std::shared_ptr<const absl::Status> failure);
  void stir(Source stream);

  // A copy that might move does so in one draw of so many: each seed has a temper.
  static constexpr std::array<std::uint64_t, 3> kHeld = {4, 32, std::uint64_t{1} << 60};

  Runner& runner_;
  const bool eager_;
  std::mt19937_64 random_;
  const std::uint64_t held_;
  std::deque<State> sources_;
  std::vector<Source> stirred_;  // Streams that may have become movable.
  bool moving_ = false;
  std::size_t failures_ = 0;
};

}  // namespace ebb::device
