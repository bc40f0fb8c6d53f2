#include "runtime/device/order_clocks.h"

#include <algorithm>

namespace ebb::device {

bool Clock::raise(Point point) {
  if (covers(point)) return false;
  if (point.source >= ticks_.size()) ticks_.resize(point.source + 1, 0);
  ticks_[point.source] = point.ticket;
  return true;
}

bool Clock::join(const Clock& other) {
  bool changed = false;
  if (other.ticks_.size() > ticks_.size()) ticks_.resize(other.ticks_.size(), 0);
  for (std::size_t i = 0; i < other.ticks_.size(); ++i) {
    if (other.ticks_[i] <= ticks_[i]) continue;
    ticks_[i] = other.ticks_[i];
    changed = true;
  }
  for (const Point& point : other.unsignalled_) {
    if (add_unsignalled(point)) changed = true;
  }
  return changed;
}

bool Clock::add_unsignalled(Point point) {
  const auto known =
      std::find_if(unsignalled_.begin(), unsignalled_.end(),
                   [&](const Point& own) { return own.source == point.source; });
  if (known == unsignalled_.end()) {
    unsignalled_.push_back(point);
    return true;
  }
  if (known->ticket >= point.ticket) return false;
  known->ticket = point.ticket;
  return true;
}

void OrderClocks::remember(Source source, std::uint64_t ticket) {
  State& state = sources_[source];
  // The host comes after these itself, and so does all that it submits from now on.
  while (state.history.size() > 1 && state.history[1].first <= host_.at(source)) {
    state.history.pop_front();
  }
  if (state.history.size() == kMaxHistory) state.history.pop_front();
  state.history.push_back({ticket, state.clock});
}

void OrderClocks::submit(Source stream, std::uint64_t ticket) {
  State& state = sources_[stream];
  state.last = ticket;
  if (state.version == version_) return;
  state.version = version_;
  if (state.clock.join(thread())) remember(stream, ticket);
}

void OrderClocks::submit(Source stream, std::uint64_t ticket, const Clock& known) {
  State& state = sources_[stream];
  state.last = ticket;
  if (state.clock.join(known)) remember(stream, ticket);
}

void OrderClocks::wait(Source stream, std::uint64_t ticket, Point point) {
  State& state = sources_[stream];
  bool changed = join_moment(state.clock, point);
  if (!state.clock.unsignalled_.empty() && resolve(state.clock)) changed = true;
  if (changed) remember(stream, ticket);
}

void OrderClocks::signal(Source stream, std::uint64_t ticket, Point timeline) {
  State& state = sources_[timeline.source];
  state.last = std::max(state.last, timeline.ticket);
  state.clock.join(sources_[stream].clock);
  state.clock.raise({stream, ticket});
  if (!state.clock.unsignalled_.empty()) resolve(state.clock);
  remember(timeline.source, timeline.ticket);
}

void OrderClocks::abandon(Point timeline) {
  State& state = sources_[timeline.source];
  state.last = std::max(state.last, timeline.ticket);
}

bool OrderClocks::join_moment(Clock& clock, Point point) const {
  const State& state = sources_[point.source];
  const auto& history = state.history;
  // The first entry beyond the point, or the end.
  std::size_t low = 0;
  std::size_t high = history.size();
  while (low < high) {
    const std::size_t middle = (low + high) / 2;
    const bool beyond = state.timeline ? history[middle].first >= point.ticket
                                       : history[middle].first > point.ticket;
    if (beyond) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  bool changed = false;
  if (state.timeline) {
    if (low < history.size()) {
      changed = clock.join(history[low].second);
    } else if (state.last < point.ticket) {
      changed = clock.add_unsignalled(point);
    }
  } else if (low > 0) {
    changed = clock.join(history[low - 1].second);
  }
  return clock.raise(point) || changed;
}

bool OrderClocks::resolve(Clock& clock) const {
  bool changed = false;
  // A later value of a timeline comes after all that an earlier one does. Without knowing
  // what was looked up, values kept in old moments would be looked up again and again.
  std::vector<Point> looked_up;
  for (std::size_t i = 0; i < clock.unsignalled_.size();) {
    const Point point = clock.unsignalled_[i];
    if (!signalled(point)) {
      ++i;
      continue;
    }
    clock.unsignalled_.erase(clock.unsignalled_.begin() + static_cast<std::ptrdiff_t>(i));
    const auto known =
        std::find_if(looked_up.begin(), looked_up.end(),
                     [&](const Point& other) { return other.source == point.source; });
    if (known != looked_up.end() && known->ticket >= point.ticket) continue;
    if (known != looked_up.end()) {
      known->ticket = point.ticket;
    } else {
      looked_up.push_back(point);
    }
    join_moment(clock, point);
    changed = true;
    i = 0;
  }
  return changed;
}

void OrderClocks::learn(Point point) {
  if (knows(point)) return;
  ++version_;
  Clock& clock = call_back_ ? *call_back_ : host_;
  join_moment(clock, point);
  resolve(clock);
}

void OrderClocks::begin_call_back(Point point) {
  ++version_;
  join_moment(call_back_.emplace(), point);
}

void OrderClocks::end_call_back() noexcept {
  ++version_;
  call_back_.reset();
}

bool OrderClocks::ordered(Source stream, Point point) {
  State& state = sources_[stream];
  if (point.source == stream) return point.ticket <= state.last;
  if (state.clock.covers(point) || knows(point)) return true;
  if (state.clock.unsignalled_.empty() || !resolve(state.clock)) return false;
  remember(stream, state.last + 1);
  return state.clock.covers(point);
}

}  // namespace ebb::device
