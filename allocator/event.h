// Points in time that memory must outlive.
//
// This is all that the allocator knows of devices. The layers above implement EventSource
// for streams and timelines; an Event is a value, a source and a ticket that it counts up
// to, so that making one and keeping it allocates nothing.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace ebb {

// Names a stream to those who only compare them.
enum class StreamId : std::uint32_t {};

// Something whose work ends ticket by ticket. Outlives every event that names it. Failed
// work ends too: the failure itself is reported by whoever runs the work, so that an event
// can always be waited for. Thread-safe.
class EventSource {
 public:
  virtual ~EventSource() = default;

  // Never blocks; once true, it stays true.
  virtual bool reached(std::uint64_t ticket) const noexcept = 0;

  // Blocks the calling thread until reached(ticket).
  virtual void await(std::uint64_t ticket) const noexcept = 0;
};

// The end of some work in flight. The default event is done.
class Event {
 public:
  Event() = default;
  Event(const EventSource& source, std::uint64_t ticket)
      : source_(&source), ticket_(ticket) {}

  bool done() const noexcept { return source_ == nullptr || source_->reached(ticket_); }
  void wait() const noexcept {
    if (source_ != nullptr) source_->await(ticket_);
  }

  const EventSource* source() const noexcept { return source_; }
  std::uint64_t ticket() const noexcept { return ticket_; }

  friend bool operator==(const Event&, const Event&) = default;

 private:
  const EventSource* source_ = nullptr;
  std::uint64_t ticket_ = 0;
};

// A set of events, done when all of them are. The empty fence is done. Of several events of
// one source it keeps the latest, because a source reaches its tickets in order.
class Fence {
 public:
  Fence() = default;
  explicit Fence(const Event& event) : count_(event.source() == nullptr ? 0 : 1) {
    inline_[0] = event;
  }

  void add(const Event& event);
  void add(const Fence& other);
  void clear() noexcept {
    count_ = 0;
    spilled_.clear();
  }

  bool done() const noexcept {
    for (std::size_t i = 0; i < count_; ++i) {
      if (!at(i).done()) return false;
    }
    return true;
  }
  void wait() const noexcept;
  bool empty() const noexcept { return count_ == 0; }

  // Calls visit(event) for each event.
  template <typename Visit>
  void for_each(Visit visit) const {
    for (std::size_t i = 0; i < count_; ++i) visit(at(i));
  }

 private:
  static constexpr std::size_t kInline = 4;

  const Event& at(std::size_t i) const {
    return i < kInline ? inline_[i] : spilled_[i - kInline];
  }

  std::size_t count_ = 0;
  std::array<Event, kInline> inline_;
  std::vector<Event> spilled_;  // From the fifth source on.
};

}  // namespace ebb
