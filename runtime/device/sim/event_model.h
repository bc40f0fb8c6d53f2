// A discrete-event model of a device: what runs when, if ops take the time that they are
// said to take.
//
// Streams are queues of ops, waits, signals and callbacks. Units (the compute queue, one
// copy engine per direction, network, disk) serve one op at a time, by readiness: an op is
// ready once it is submitted, its predecessor on the stream has ended, and what the stream
// waits for is reached; of those ready, the one ready first goes first, then the one
// submitted first. Copies in both directions share the link's duplex cap as a fluid: while
// both move bytes, each moves at its rate times cap / (sum of rates). At one instant come
// first all ends, then starts in the order of the units.
//
// The model knows neither memory nor closures: whoever stands on it hears of what happens
// as Listener.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/device/device.h"
#include "runtime/device/point.h"
#include "runtime/device/ring.h"
#include "runtime/device/sim/profile.h"

namespace ebb::device {

// Not thread-safe. Submitting from a Listener is allowed, advancing is not. The memory of
// what has ended is used again; when things ended is kept for the last kHistory tickets of
// each source.
class EventModel {
 public:
  using Unit = OpRecord::Unit;
  using Source = device::Source;
  static constexpr std::size_t kUnits = 5;
  static constexpr std::size_t kHistory = std::size_t{1} << 18;
  static constexpr double kForever = std::numeric_limits<double>::infinity();

  using Point = device::Point;

  struct Links {
    LinkRate d2h;
    LinkRate h2d;
    std::optional<double> duplex_bytes_per_second;
    std::vector<LinkChange> changes = {};  // In the order of their times.
  };

  // What an op asks of its unit: bytes of the two copy engines, seconds of the others. A
  // probe asks for no unit and takes no time.
  struct Demand {
    const char* name = "";
    Unit unit = Unit::kCompute;
    double seconds = 0;
    double bytes = 0;
    bool probe = false;
  };

  // An op that runs or has run.
  struct Span {
    const char* name = "";
    Point point;
    Unit unit = Unit::kCompute;
    bool probe = false;
    double start = 0;
    double end = 0;    // In on_end() only.
    double stall = 0;  // On the compute queue: since the end of the op before.
    WaitTag blame;     // What it was waiting for last.
  };

  class Listener {
   public:
    virtual ~Listener() = default;
    virtual void on_start(const Span& span) = 0;
    virtual void on_end(const Span& span) = 0;
    virtual void on_call_back(Point point, double time) = 0;
  };

  EventModel(const Links& links, Listener& listener);

  Source add_stream(std::string name);
  Source add_timeline(std::string name);
  void rename(Source source, std::string name) { sources_[source].name = std::move(name); }

  // Queue on `stream` what the host submits at `time` (not before now()); each returns its
  // ticket. An op that then waits for nothing but its submission blames `host`.
  std::uint64_t submit(Source stream, const Demand& demand, double time,
                       const WaitTag& host = {});
  std::uint64_t wait(Source stream, Point point, const WaitTag& tag, double time);
  std::uint64_t signal(Source stream, Point timeline, double time);
  std::uint64_t call_back(Source stream, double time);

  double now() const noexcept { return now_; }
  std::uint64_t submitted(Source source) const noexcept {
    return sources_[source].submitted;
  }
  std::uint64_t reached(Source source) const noexcept { return sources_[source].reached; }
  bool reached(Point point) const noexcept { return reached(point.source) >= point.ticket; }
  // When `point` was reached: nothing if it is not yet, or too long ago.
  std::optional<double> time_of(Point point) const noexcept;

  // Lets everything happen that happens until `time`.
  void advance_to(double time);
  // ... until `point` is reached. Throws Error{kFailedPrecondition} if nothing can happen
  // any more: it names what is waited for, the op that blocks, and on whom it waits.
  void advance_until(Point point);
  bool try_advance_until(Point point);  // False instead of throwing.

  // After try_advance_until() has failed: why, and the wait that is to blame is over (or
  // the timeline itself, which nobody signals, is set), so that the rest can go on.
  struct Deadlock {
    std::string message;
    std::optional<Point> wait;  // The wait that was ended; none: a timeline was set.
    Point set;                  // What it waited for,
    bool endless = false;       // or an op that would never have ended, and has now.
  };
  Deadlock break_deadlock(Point point);

 private:
  enum class Kind : std::uint8_t { kOp, kProbe, kWait, kSignal, kCallBack };

  struct Item {
    Kind kind = Kind::kOp;
    Unit unit = Unit::kCompute;
    const char* name = "";
    double submitted = 0;
    double amount = 0;  // Bytes or seconds.
    std::uint64_t order = 0;
    Point point;  // Waited for, or signalled.
    WaitTag tag;
  };

  // Where the head of a stream's queue is.
  enum class Head : std::uint8_t { kIdle, kBlocked, kPending, kReady, kRunning };

  struct Waiter {
    std::uint64_t ticket = 0;
    Source stream = 0;
  };

  struct SourceState {
    std::string name;
    bool timeline = false;
    bool awake = false;  // In awake_.
    Head head = Head::kIdle;
    std::uint64_t submitted = 0;
    std::uint64_t reached = 0;
    double frontier = 0;  // When all before the head had ended,
    WaitTag blame;        // and what that was waiting for.
    Ring<Item> items;
    std::vector<Waiter> waiters;
    Ring<std::pair<std::uint64_t, double>> times;  // Ticket and when it was reached.
  };

  struct Ready {
    double time = 0;
    std::uint64_t order = 0;
    Source stream = 0;
    // For a heap with the first one on top.
    bool operator<(const Ready& other) const noexcept {
      return time != other.time ? time > other.time : order > other.order;
    }
  };

  struct UnitState {
    std::vector<Ready> queue;  // A heap.
    bool busy = false;
    Span span;
    double end = 0;    // Of the op that runs, as far as is known now;
    double bytes = 0;  // of a copy: what is left at `since`,
    double since = 0;  // when it last changed its rate,
    double rate = 0;   // and the rate since. 0: its latency, until `end`.
    double ended = 0;  // The op before.
  };

  Source add(std::string name, bool timeline);
  std::uint64_t push(Source stream, Item item);
  void wake(Source stream);
  bool step(double limit);
  double next_time() const noexcept;
  void end_ops();
  void settle();
  void proceed(Source stream);
  void pass(Source stream, const Item& item, double time);
  void finish_head(Source stream, double time);
  void reach(Source source, std::uint64_t ticket, double time);
  void start_ops();
  void start(Unit unit, Source stream);
  void share_link();
  UnitState& unit(Unit which) noexcept { return units_[static_cast<std::size_t>(which)]; }
  const UnitState& unit(Unit which) const noexcept {
    return units_[static_cast<std::size_t>(which)];
  }
  LinkRate link(Unit which) const noexcept;  // Now.
  Deadlock why_blocked(Point point) const;
  std::optional<Point> endless_op() const noexcept;  // That runs, if there is one.
  std::string stopped_link() const;  // Why copies do not end, if the profile stops them.
  std::string describe(Point point) const;
  std::optional<Point> signaller(Point timeline) const;

  const Links links_;
  const double shared_;  // The part of its rate that a copy gets while both run; 1: no cap.
  Listener& listener_;
  std::deque<SourceState> sources_;  // Stays where it is while listeners add to it.
  std::array<UnitState, kUnits> units_;
  std::vector<Ready> pending_;  // Heads that will be ready, or may pass, later: a heap.
  std::vector<Source> awake_;   // Streams whose head may move now.
  double now_ = 0;
  std::uint64_t order_ = 0;
};

}  // namespace ebb::device
