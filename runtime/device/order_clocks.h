// Which work is ordered after which: vector clocks for streams, timelines and the threads
// that submit (Mattern 1989).
//
// A clock says, for each source, up to which ticket all work comes before. A stream's clock
// grows when it waits; a moment of a stream or timeline carries the clock that its source
// had then. Order is by streams and events alone, never by what has ended: except where the
// host has seen an end (done(), wait()), which orders all that it submits later.

#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <utility>
#include <vector>

#include "runtime/device/point.h"
#include "runtime/device/ring.h"

namespace ebb::device {

// What some moment comes after.
class Clock {
 public:
  std::uint64_t at(Source source) const noexcept {
    return source < ticks_.size() ? ticks_[source] : 0;
  }
  bool covers(Point point) const noexcept { return at(point.source) >= point.ticket; }
  // Each says whether the clock has changed.
  bool raise(Point point);
  bool join(const Clock& other);

 private:
  friend class OrderClocks;

  bool add_unsignalled(Point point);

  std::vector<std::uint64_t> ticks_;
  std::vector<Point>
      unsignalled_;  // Waited for, but nobody has said yet after what it comes.
};

// Not thread-safe.
class OrderClocks {
 public:
  // Sources are numbered from 0 in the order of these calls.
  void add_stream() { sources_.emplace_back(); }
  void add_timeline() { sources_.emplace_back().timeline = true; }

  // Something is submitted to `stream` as `ticket`; a wait for `point`, if it is one; a
  // signal, if it is one. Whoever submits knows what it knows.
  void submit(Source stream, std::uint64_t ticket);
  void wait(Source stream, std::uint64_t ticket, Point point);
  void signal(Source stream, std::uint64_t ticket, Point timeline);
  // The same, of one whose knowledge at submission was kept.
  void submit(Source stream, std::uint64_t ticket, const Clock& known);

  // The thread that submits has seen that `point` is reached; does it know?
  void learn(Point point);
  bool knows(Point point) const noexcept { return thread().covers(point); }
  const Clock& thread() const noexcept { return call_back_ ? *call_back_ : host_; }
  std::uint64_t version() const noexcept { return version_; }  // Of what thread() says.

  // Between these, submissions come from a callback, which comes after `point`.
  void begin_call_back(Point point);
  void end_call_back() noexcept;

  // Whether what is submitted to `stream` from now on comes after `point`.
  bool ordered(Source stream, Point point);

  const Clock& clock(Source stream) const noexcept { return sources_[stream].clock; }
  // Whether `timeline` has been given that value by a signal.
  bool signalled(Point timeline) const noexcept {
    return sources_[timeline.source].last >= timeline.ticket;
  }
  // The timeline is given the value by nobody: it comes after nothing.
  void abandon(Point timeline);

 private:
  // Sources keep their past for so many changes; of what is older, only its own ticket is
  // known. The host's knowledge, which grows at each step's end, cuts it off much earlier.
  static constexpr std::size_t kMaxHistory = std::size_t{1} << 16;

  struct State {
    bool timeline = false;
    std::uint64_t version = 0;  // Of the thread's knowledge that `clock` holds.
    std::uint64_t last = 0;     // Ticket submitted, or value signalled.
    Clock clock;
    // From that ticket on, or with that value.
    Ring<std::pair<std::uint64_t, Clock>> history;
  };

  // `clock` comes after `point`, and all that comes before that. Whether it has changed.
  bool join_moment(Clock& clock, Point point) const;
  bool resolve(Clock& clock) const;
  void remember(Source source, std::uint64_t ticket);

  std::deque<State> sources_;
  Clock host_;
  std::optional<Clock> call_back_;
  std::uint64_t version_ = 0;
};

}  // namespace ebb::device
