#include "runtime/device/mover.h"

#include <algorithm>
#include <utility>

#include "absl/cleanup/cleanup.h"

namespace ebb::device {
namespace {

const absl::Status& ok() {
  static const absl::Status status;
  return status;
}

}  // namespace

void Mover::push(Source stream, Work work) {
  State& state = sources_[stream];
  const Point here{stream, ++state.submitted};
  if (work.kind == Kind::kSignal) {
    sources_[work.point.source].signals.push_back({work.point.ticket, here});
  }
  state.queue.push_back(std::move(work));
  if (state.queue.size() == 1) stir(stream);
}

void Mover::stir(Source stream) {
  if (eager_) stirred_.push_back(stream);
}

bool Mover::blocked(Source stream) const noexcept {
  const Work& head = sources_[stream].queue.front();
  return head.kind == Kind::kWait && !moved(head.point);
}

// Moves the head of the stream, which is not blocked. Whatever ends with it, or is let go,
// may ask for more to be moved: later, as this stream has not advanced yet.
void Mover::step(Source stream) {
  const auto restore = absl::MakeCleanup(
      [this, moving = std::exchange(moving_, true)] { moving_ = moving; });
  State& state = sources_[stream];
  Work work = std::move(state.queue.front());
  state.queue.pop_front();
  const Point here{stream, state.moved + 1};
  switch (work.kind) {
    case Kind::kNothing:
      break;
    case Kind::kWait:
      adopt(stream, here.ticket, work.point);
      (void)runner_.run(here, work, true);
      break;
    case Kind::kSignal:
      adopt(work.point.source, work.point.ticket, here);
      (void)runner_.run(here, work, true);
      advance(work.point.source, work.point.ticket);
      break;
    case Kind::kOp:
    case Kind::kProbe:
    case Kind::kCopy:
    case Kind::kCallBack: {
      const absl::Status status = runner_.run(here, work, state.failure != nullptr);
      if (!status.ok()) fail(stream, here.ticket, status);
      break;
    }
  }
  work = {};  // Before whoever waits for it hears of its end.
  advance(stream, here.ticket);
}

void Mover::advance(Source source, std::uint64_t to) {
  State& state = sources_[source];
  if (to <= state.moved) return;
  state.moved = to;
  while (!state.signals.empty() && state.signals.front().value <= to) {
    state.signals.pop_front();
  }
  for (const Source stream : state.waiting) stir(stream);
  state.waiting.clear();
}

void Mover::move_all() {
  if (moving_) return;  // The call further out goes on with it.
  moving_ = true;
  while (!stirred_.empty()) {
    const Source stream = stirred_.back();
    stirred_.pop_back();
    while (!sources_[stream].queue.empty()) {
      if (blocked(stream)) {
        sources_[sources_[stream].queue.front().point.source].waiting.push_back(stream);
        break;
      }
      step(stream);
    }
  }
  moving_ = false;
}

bool Mover::force(Point point) {
  std::vector<Point> needed{point};
  while (!needed.empty()) {
    const Point next = needed.back();
    if (moved(next)) {
      needed.pop_back();
      continue;
    }
    const State& state = sources_[next.source];
    if (state.queue.empty()) {  // A timeline, or a ticket that is not submitted.
      if (state.signals.empty()) return false;
      std::size_t i = 0;
      while (i < state.signals.size() && state.signals[i].value < next.ticket) ++i;
      if (i == state.signals.size()) return false;
      needed.push_back(state.signals[i].by);
    } else if (blocked(next.source)) {
      if (needed.size() > sources_.size() * 2) return false;  // They wait for each other.
      needed.push_back(state.queue.front().point);
    } else {
      step(next.source);
    }
  }
  return true;
}

bool Mover::move_one() {
  for (Source stream = 0; stream < sources_.size(); ++stream) {
    if (sources_[stream].queue.empty() || blocked(stream)) continue;
    step(stream);
    return true;
  }
  return false;
}

void Mover::move_some() {
  if (moving_) return;
  moving_ = true;
  for (std::uint64_t draws = random_() % 4; draws > 0; --draws) {
    std::vector<Source> movable;
    for (Source stream = 0; stream < sources_.size(); ++stream) {
      const State& state = sources_[stream];
      if (state.queue.empty() || blocked(stream)) continue;
      const bool held = state.queue.front().kind == Kind::kCopy && random_() % held_ != 0;
      if (!held) movable.push_back(stream);
    }
    if (movable.empty()) break;
    step(movable[random_() % movable.size()]);
  }
  moving_ = false;
}

const absl::Status& Mover::failure(Point point) const noexcept {
  const State& state = sources_[point.source];
  return state.failure != nullptr && state.failed_at <= point.ticket ? *state.failure
                                                                     : ok();
}

absl::Status Mover::take_failure(Source source) noexcept {
  State& state = sources_[source];
  if (state.failure == nullptr) return {};
  const auto failure = std::exchange(state.failure, nullptr);
  --failures_;
  return *failure;
}

void Mover::set_failure(Source source, std::uint64_t ticket,
                        std::shared_ptr<const absl::Status> failure) {
  State& state = sources_[source];
  if (state.failure != nullptr) return;
  state.failure = std::move(failure);
  state.failed_at = ticket;
  ++failures_;
}

void Mover::fail(Source source, std::uint64_t ticket, const absl::Status& status) {
  set_failure(source, ticket, std::make_shared<const absl::Status>(status));
}

void Mover::adopt(Source to, std::uint64_t ticket, Point from) {
  const State& state = sources_[from.source];
  if (state.failure != nullptr && state.failed_at <= from.ticket) {
    set_failure(to, ticket, state.failure);
  }
}

Mover::Blocked Mover::first_blocked(Point point) const {
  Blocked result{std::nullopt, point};
  for (std::size_t hops = 0; hops <= 2 * sources_.size(); ++hops) {
    result.set = point;
    const State& state = sources_[point.source];
    if (!state.queue.empty() && blocked(point.source)) {
      result.wait = Point{point.source, state.moved + 1};
      point = state.queue.front().point;
      continue;
    }
    std::size_t i = 0;
    while (i < state.signals.size() && state.signals[i].value < point.ticket) ++i;
    if (i == state.signals.size()) break;
    point = state.signals[i].by;
  }
  return result;
}

void Mover::abandon(Point wait) {
  State& state = sources_[wait.source];
  if (wait.ticket <= state.moved) return;
  const std::size_t behind = state.submitted - wait.ticket;
  if (behind >= state.queue.size()) return;
  state.queue[state.queue.size() - 1 - behind].kind = Kind::kNothing;
  stir(wait.source);
}

void Mover::set(Point timeline) { advance(timeline.source, timeline.ticket); }

}  // namespace ebb::device
