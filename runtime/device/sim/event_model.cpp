#include "runtime/device/sim/event_model.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "absl/strings/str_cat.h"

#include "allocator/error.h"

namespace ebb::device {
namespace {

constexpr std::array<EventModel::Unit, EventModel::kUnits> kInOrder = {
    EventModel::Unit::kCompute, EventModel::Unit::kD2H, EventModel::Unit::kH2D,
    EventModel::Unit::kNetwork, EventModel::Unit::kDisk};

// Times that are equal on paper differ in the last bits if they are sums of other parts.
double tolerance(double time) { return 1e-14 * time; }

bool is_copy(EventModel::Unit unit) {
  return unit == EventModel::Unit::kD2H || unit == EventModel::Unit::kH2D;
}

double shared_part(const EventModel::Links& links) {
  const double sum = links.d2h.bytes_per_second + links.h2d.bytes_per_second;
  const double cap = links.duplex_bytes_per_second.value_or(sum);
  return cap < sum && sum < EventModel::kForever ? cap / sum : 1;
}

// What stands still behind an op of this unit on its own stream.
StallCause cause_of(EventModel::Unit unit) {
  switch (unit) {
    case EventModel::Unit::kD2H:
      return StallCause::kD2HBacklog;
    case EventModel::Unit::kH2D:
      return StallCause::kH2DLate;
    case EventModel::Unit::kNetwork:
      return StallCause::kComm;
    case EventModel::Unit::kCompute:
    case EventModel::Unit::kDisk:
      break;
  }
  return StallCause::kHost;
}

}  // namespace

EventModel::EventModel(const Links& links, Listener& listener)
    : links_(links), shared_(shared_part(links)), listener_(listener) {}

EventModel::Source EventModel::add(std::string name, bool timeline) {
  SourceState& state = sources_.emplace_back();
  state.name = std::move(name);
  state.timeline = timeline;
  return static_cast<Source>(sources_.size() - 1);
}

EventModel::Source EventModel::add_stream(std::string name) {
  return add(std::move(name), false);
}

EventModel::Source EventModel::add_timeline(std::string name) {
  return add(std::move(name), true);
}

std::uint64_t EventModel::push(Source stream, Item item) {
  SourceState& state = sources_[stream];
  assert(!state.timeline);
  item.order = ++order_;
  state.items.push_back(std::move(item));
  if (state.items.size() == 1) wake(stream);
  return ++state.submitted;
}

std::uint64_t EventModel::submit(Source stream, const Demand& demand, double time,
                                 const WaitTag& host) {
  Item item;
  item.kind = demand.probe ? Kind::kProbe : Kind::kOp;
  item.unit = demand.unit;
  item.name = demand.name;
  item.submitted = time;
  item.amount = is_copy(demand.unit) ? demand.bytes : demand.seconds;
  item.tag = host;
  return push(stream, item);
}

std::uint64_t EventModel::wait(Source stream, Point point, const WaitTag& tag,
                               double time) {
  Item item;
  item.kind = Kind::kWait;
  item.name = "wait";
  item.submitted = time;
  item.point = point;
  item.tag = tag;
  return push(stream, item);
}

std::uint64_t EventModel::signal(Source stream, Point timeline, double time) {
  Item item;
  item.kind = Kind::kSignal;
  item.name = "signal";
  item.submitted = time;
  item.point = timeline;
  return push(stream, item);
}

std::uint64_t EventModel::call_back(Source stream, double time) {
  Item item;
  item.kind = Kind::kCallBack;
  item.name = "call_back";
  item.submitted = time;
  return push(stream, item);
}

std::optional<double> EventModel::time_of(Point point) const noexcept {
  const SourceState& state = sources_[point.source];
  if (point.ticket > state.reached) return std::nullopt;
  if (point.ticket == 0) return 0;
  const auto& times = state.times;
  if (times.empty()) return std::nullopt;
  if (!state.timeline) {  // Tickets without gaps.
    const std::uint64_t first = times.front().first;
    if (point.ticket < first) return std::nullopt;
    return times[point.ticket - first].second;
  }
  std::size_t low = 0;
  std::size_t high = times.size() - 1;
  while (low < high) {
    const std::size_t middle = (low + high) / 2;
    if (times[middle].first < point.ticket) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return times[low].second;
}

void EventModel::advance_to(double time) {
  while (step(time)) {
  }
  now_ = std::max(now_, time);
}

bool EventModel::try_advance_until(Point point) {
  while (!reached(point)) {
    if (!step(kForever)) return false;
  }
  return true;
}

double EventModel::next_time() const noexcept {
  if (!awake_.empty()) return now_;
  double next = pending_.empty() ? kForever : pending_.front().time;
  for (const UnitState& state : units_) {
    if (state.busy) {
      next = std::min(next, state.end);
    } else if (!state.queue.empty()) {
      return now_;
    }
  }
  return next;
}

// One instant: ends, then what becomes ready by them, then starts.
bool EventModel::step(double limit) {
  const double time = next_time();
  if (time > limit || time == kForever) return false;
  now_ = std::max(now_, time);
  end_ops();
  while (!pending_.empty() && pending_.front().time <= now_ + tolerance(now_)) {
    const Source stream = pending_.front().stream;
    std::pop_heap(pending_.begin(), pending_.end());
    pending_.pop_back();
    sources_[stream].head = Head::kIdle;
    wake(stream);
  }
  settle();
  start_ops();
  return true;
}

void EventModel::wake(Source stream) {
  SourceState& state = sources_[stream];
  if (state.awake) return;
  state.awake = true;
  awake_.push_back(stream);
}

void EventModel::settle() {
  for (std::size_t i = 0; i < awake_.size(); ++i) {  // Grows while it runs.
    const Source stream = awake_[i];
    sources_[stream].awake = false;
    proceed(stream);
  }
  awake_.clear();
}

// Passes all items of the stream that may pass now.
void EventModel::proceed(Source stream) {
  SourceState& state = sources_[stream];
  while (!state.items.empty() && state.head == Head::kIdle) {
    Item& item = state.items.front();
    if (item.kind == Kind::kWait) {
      if (!reached(item.point)) {
        state.head = Head::kBlocked;
        sources_[item.point.source].waiters.push_back({item.point.ticket, stream});
        return;
      }
      const double time = time_of(item.point).value_or(0);
      const WaitTag tag = time > state.frontier ? item.tag : state.blame;
      const double frontier = std::max(time, state.frontier);
      const double end = std::max(frontier, item.submitted);
      finish_head(stream, end);
      state.frontier = frontier;
      state.blame = tag;
      continue;
    }
    const double ready = std::max(state.frontier, item.submitted);
    if (ready > now_ + tolerance(now_)) {
      state.head = Head::kPending;
      pending_.push_back({ready, item.order, stream});
      std::push_heap(pending_.begin(), pending_.end());
      return;
    }
    if (item.kind == Kind::kOp) {
      state.head = Head::kReady;
      UnitState& on = unit(item.unit);
      on.queue.push_back({ready, item.order, stream});
      std::push_heap(on.queue.begin(), on.queue.end());
      return;
    }
    pass(stream, item, ready);
  }
}

// What takes no time.
void EventModel::pass(Source stream, const Item& item, double time) {
  const Point here{stream, sources_[stream].reached + 1};
  if (item.kind == Kind::kSignal) {
    const Point timeline = item.point;
    finish_head(stream, time);
    reach(timeline.source, timeline.ticket, time);
    return;
  }
  sources_[stream].head = Head::kRunning;
  if (item.kind == Kind::kProbe) {
    const Span span{item.name, here, item.unit, true, time, time, 0, {}};
    listener_.on_start(span);
    listener_.on_end(span);
  } else {
    listener_.on_call_back(here, time);
  }
  finish_head(stream, time);
}

void EventModel::finish_head(Source stream, double time) {
  SourceState& state = sources_[stream];
  state.items.pop_front();
  state.head = Head::kIdle;
  reach(stream, state.reached + 1, time);
}

void EventModel::reach(Source source, std::uint64_t ticket, double time) {
  SourceState& state = sources_[source];
  if (ticket <= state.reached) return;
  state.reached = ticket;
  if (state.times.size() == kHistory) state.times.pop_front();
  state.times.push_back({ticket, time});
  if (state.waiters.empty()) return;
  const auto woken =
      std::stable_partition(state.waiters.begin(), state.waiters.end(),
                            [&](const Waiter& waiter) { return waiter.ticket > ticket; });
  for (auto it = woken; it != state.waiters.end(); ++it) {
    sources_[it->stream].head = Head::kIdle;
    wake(it->stream);
  }
  state.waiters.erase(woken, state.waiters.end());
}

void EventModel::start_ops() {
  for (const Unit which : kInOrder) {
    UnitState& state = unit(which);
    if (state.busy || state.queue.empty()) continue;
    const Source stream = state.queue.front().stream;
    std::pop_heap(state.queue.begin(), state.queue.end());
    state.queue.pop_back();
    start(which, stream);
  }
}

void EventModel::start(Unit which, Source stream) {
  SourceState& source = sources_[stream];
  const Item& item = source.items.front();
  UnitState& state = unit(which);
  source.head = Head::kRunning;
  state.busy = true;
  state.span = {item.name, {stream, source.reached + 1}, which, false, now_, 0, 0, {}};
  state.span.blame = item.submitted > source.frontier ? item.tag : source.blame;
  if (which == Unit::kCompute) state.span.stall = std::max(0.0, now_ - state.ended);
  if (!is_copy(which)) {
    state.end = now_ + item.amount;
  } else if (shared_ == 1) {
    state.end =
        now_ + (link(which).latency_seconds + item.amount / link(which).bytes_per_second);
  } else {
    state.end = now_ + link(which).latency_seconds;
    state.bytes = item.amount;
    state.rate = 0;
  }
  listener_.on_start(state.span);
}

void EventModel::end_ops() {
  for (bool again = true; again;) {
    again = false;
    for (const Unit which : kInOrder) {
      UnitState& state = unit(which);
      if (!state.busy || state.end > now_ + tolerance(now_)) continue;
      again = true;
      const bool latency_over = is_copy(which) && shared_ != 1 && state.rate == 0;
      if (latency_over) {
        state.rate = link(which).bytes_per_second;
        state.since = now_;
        state.end = now_ + state.bytes / state.rate;
        share_link();
        continue;
      }
      state.busy = false;
      state.ended = now_;
      state.span.end = now_;
      state.rate = 0;
      if (is_copy(which)) share_link();
      listener_.on_end(state.span);
      const Source stream = state.span.point.source;
      const char* name = sources_[stream].items.front().name;
      finish_head(stream, now_);
      sources_[stream].frontier = now_;
      sources_[stream].blame = {cause_of(which), name};
      wake(stream);
    }
  }
}

LinkRate EventModel::link(Unit which) const noexcept {
  LinkRate rate = which == Unit::kD2H ? links_.d2h : links_.h2d;
  const LinkChange* last = nullptr;
  for (const LinkChange& change : links_.changes) {
    if (change.seconds <= now_) last = &change;
  }
  if (last != nullptr) rate.bytes_per_second *= which == Unit::kD2H ? last->d2h : last->h2d;
  return rate;
}

void EventModel::share_link() {
  UnitState& out = unit(Unit::kD2H);
  UnitState& in = unit(Unit::kH2D);
  const bool both = out.busy && out.rate > 0 && in.busy && in.rate > 0;
  for (const Unit which : {Unit::kD2H, Unit::kH2D}) {
    UnitState& state = unit(which);
    const double rate = link(which).bytes_per_second * (both ? shared_ : 1);
    if (!state.busy || state.rate == 0 || state.rate == rate) continue;
    state.bytes = std::max(0.0, state.bytes - state.rate * (now_ - state.since));
    state.since = now_;
    state.rate = rate;
    state.end = now_ + state.bytes / rate;
  }
}

}  // namespace ebb::device
