// What EventModel does when nothing can happen any more.

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"

#include "allocator/error.h"
#include "runtime/device/sim/event_model.h"

namespace ebb::device {

void EventModel::advance_until(Point point) {
  if (!try_advance_until(point)) {
    throw Error(absl::StatusCode::kFailedPrecondition, why_blocked(point).message);
  }
}

std::string EventModel::describe(Point point) const {
  const SourceState& state = sources_[point.source];
  return absl::StrCat(state.timeline ? "value " : "ticket ", point.ticket, " of ",
                      state.timeline ? "timeline" : "stream", " '", state.name, "'");
}

// The submitted signal that will let `timeline` reach that value, if there is one.
std::optional<EventModel::Point> EventModel::signaller(Point timeline) const {
  for (Source source = 0; source < sources_.size(); ++source) {
    const SourceState& state = sources_[source];
    for (std::size_t i = 0; i < state.items.size(); ++i) {
      const Item& item = state.items[i];
      if (item.kind == Kind::kSignal && item.point.source == timeline.source &&
          item.point.ticket >= timeline.ticket) {
        return Point{source, state.reached + 1 + i};
      }
    }
  }
  return std::nullopt;
}

std::string EventModel::stopped_link() const {
  const std::optional<Point> endless = endless_op();
  const bool out = unit(Unit::kD2H).busy && unit(Unit::kD2H).span.point == endless;
  const LinkChange* stop = nullptr;
  for (const LinkChange& change : links_.changes) {
    if (change.seconds <= now_ && (out ? change.d2h : change.h2d) == 0) stop = &change;
  }
  if (!endless || stop == nullptr) return {};
  return absl::StrCat(", as the profile's link ", out ? "to" : "from",
                      " the host stops at ", stop->seconds, " s (link_changes)");
}

// Follows the waits from `point` to the one that can never end.
EventModel::Deadlock EventModel::why_blocked(Point point) const {
  Deadlock result{absl::StrCat("nothing can happen any more", stopped_link(), ", and ",
                               describe(point), " is not reached"),
                  std::nullopt, point};
  std::vector<Source> seen;
  for (;;) {
    result.set = point;
    const SourceState& state = sources_[point.source];
    if (state.timeline) {
      const std::optional<Point> by = signaller(point);
      if (!by) {
        absl::StrAppend(&result.message, ": nothing that was submitted signals it");
        // It may be for want of a callback behind an op that never ends.
        const std::optional<Point> endless = endless_op();
        if (!endless) return result;
        absl::StrAppend(&result.message, " so far");
        point = *endless;
        continue;
      }
      point = *by;
      continue;
    }
    if (point.ticket > state.submitted || state.items.empty()) {
      absl::StrAppend(&result.message, ": it was never submitted");
      return result;
    }
    const Item& head = state.items.front();
    if (head.kind != Kind::kWait) {
      result.set = {point.source, state.reached + 1};
      result.endless = endless_op() == result.set;
      absl::StrAppend(&result.message, ": '", head.name, "' of stream '", state.name,
                      result.endless ? "' never ends" : "' has not ended");
      return result;
    }
    std::size_t next = 1;
    while (next < state.items.size() && state.items[next].kind == Kind::kWait) ++next;
    absl::StrAppend(&result.message, "; ", next < state.items.size() ? "'" : "the end",
                    next < state.items.size() ? state.items[next].name : "",
                    next < state.items.size() ? "'" : "", " of stream '", state.name,
                    "' waits for ", describe(head.point), " (", head.tag.site, ")");
    result.wait = Point{point.source, state.reached + 1};
    if (std::find(seen.begin(), seen.end(), point.source) != seen.end()) {
      absl::StrAppend(&result.message, ": they wait for each other");
      result.set = head.point;
      return result;
    }
    seen.push_back(point.source);
    point = head.point;
  }
}

std::optional<EventModel::Point> EventModel::endless_op() const noexcept {
  for (const UnitState& state : units_) {
    if (state.busy && state.end == kForever) return state.span.point;
  }
  return std::nullopt;
}

EventModel::Deadlock EventModel::break_deadlock(Point point) {
  Deadlock result = why_blocked(point);
  if (result.endless) {
    for (UnitState& state : units_) {
      if (!state.busy || state.span.point != result.set) continue;
      state.bytes = 0;
      state.rate = 1;  // Its latency is over, too.
      state.end = now_;
    }
    return result;
  }
  if (!result.wait) {
    SourceState& state = sources_[result.set.source];
    if (!state.timeline) state.submitted = std::max(state.submitted, result.set.ticket);
    reach(result.set.source, result.set.ticket, now_);
    return result;
  }
  const Source stream = result.wait->source;
  Item& head = sources_[stream].items.front();
  std::vector<Waiter>& waiters = sources_[head.point.source].waiters;
  std::erase_if(waiters, [&](const Waiter& waiter) { return waiter.stream == stream; });
  head.point.ticket = 0;  // Reached from the start.
  sources_[stream].head = Head::kIdle;
  wake(stream);
  return result;
}

}  // namespace ebb::device
