// Submission: what happens when something is queued.

#include "runtime/device/sim/sim_core.h"

#include <algorithm>
#include <utility>

#include "allocator/error.h"

namespace ebb::device {
namespace {

using Unit = OpRecord::Unit;

constexpr WaitTag kHost{StallCause::kHost, "host"};

EventModel::Links links(const Profile& profile) {
  return {profile.d2h, profile.h2d, profile.duplex_bytes_per_second, profile.link_changes};
}

std::optional<std::size_t> limit(const SimOptions& options) {
  return options.limit_bytes ? options.limit_bytes : options.profile.capacity_bytes;
}

}  // namespace

SimCore::SimCore(const SimOptions& options)
    : profile_(options.profile),
      order_(options.profile.free && options.order.kind == Order::Kind::kTime
                 ? Order::Kind::kEager
                 : options.order.kind),
      fault_(options.fault),
      moves_(!options.dry),
      wall_(options.profile.free),
      follows_(moves_ || wall_ || fault_ != nullptr),
      guard_(options.guard_undeclared && !options.dry),
      began_(std::chrono::steady_clock::now()),
      model_(links(options.profile), *this),
      mover_(*this, order_ == Order::Kind::kEager, options.order.seed),
      memory_(*this, limit(options), moves_, mutex_, [this] { catch_up(); }),
      host_wait_(kHost),
      blame_(kHost) {}

SimCore::~SimCore() = default;

Source SimCore::add_stream(const char* name, const EventSource& events) {
  const std::scoped_lock lock(mutex_);
  const Source source = model_.add_stream(name);
  mover_.add_source();
  orders_.add_stream();
  Slot& slot = slots_.emplace_back();
  slot.events = &events;
  slot.name = name;
  by_events_.emplace(&events, source);
  return source;
}

Source SimCore::add_timeline(const EventSource& events) {
  const std::scoped_lock lock(mutex_);
  const Source source = model_.add_timeline("");
  model_.rename(source, absl::StrCat(source));
  mover_.add_source();
  orders_.add_timeline();
  slots_.emplace_back().events = &events;
  by_events_.emplace(&events, source);
  return source;
}

void SimCore::rename(Source source, const char* name) {
  const std::scoped_lock lock(mutex_);
  model_.rename(source, name);
  slots_[source].name = name;
}

// The time of the submission, paid for. All that happened until then has happened, so that
// what callbacks submit comes in its place.
double SimCore::begin_submission(double cost) {
  if (wall_) return 0;
  *clock_ += cost;
  catch_up();
  return *clock_;
}

void SimCore::catch_up() noexcept {
  if (wall_ || advancing_) return;
  advancing_ = true;
  model_.advance_to(host_clock_);
  advancing_ = false;
}

void SimCore::push(Source stream, std::uint64_t ticket, Mover::Work work) {
  slots_[stream].submitted = ticket;
  if (follows_) mover_.push(stream, std::move(work));
}

void SimCore::end_submission() {
  if (!follows_) return;
  if (order_ == Order::Kind::kEager) mover_.move_all();
  if (order_ == Order::Kind::kFuzz) mover_.move_some();
}

WaitTag SimCore::blame(Unit unit) noexcept {
  if (unit != Unit::kCompute || clock_ != &host_clock_) return blame_;
  return std::exchange(blame_, kHost);
}

EventModel::Demand SimCore::demand(const OpInfo& op) const {
  return {op.name, Unit::kCompute, op.probe ? 0 : profile_.seconds(op.work), 0, op.probe};
}

Event SimCore::launch(Source stream, const OpInfo& op, Body body) {
  const std::scoped_lock lock(mutex_);
  const double time = begin_submission(op.probe ? 0 : profile_.host_submit_seconds);
  Slot& slot = slots_[stream];
  if (!op.probe) {
    Op& entry = slot.ops.push_back({op.name, Unit::kCompute, op.phase, op.stage});
    for (const Access& access : op.accesses) {
      entry.blocks += memory_.submit(access.address, access.bytes, slot.blocks);
    }
  }
  const std::uint64_t ticket = slot.submitted + 1;
  if (!wall_) {
    const WaitTag host = op.probe ? kHost : blame(Unit::kCompute);
    model_.submit(stream, demand(op), time, host);
  }
  orders_.submit(stream, ticket);
  Mover::Work work;
  work.kind = op.probe ? Mover::Kind::kProbe : Mover::Kind::kOp;
  work.name = op.name;
  work.body = std::move(body);
  if (guard_) work.accesses.assign(op.accesses.begin(), op.accesses.end());
  push(stream, ticket, std::move(work));
  end_submission();
  return {*slot.events, ticket};
}

Event SimCore::copy(Source stream, const CopyInfo& copy) {
  const std::scoped_lock lock(mutex_);
  EBB_CHECK(copy.bytes == 0 || copy.host != nullptr, kInvalidArgument, "copy '", copy.name,
            "' of ", copy.bytes, " bytes has no host memory");
  const double time = begin_submission(profile_.host_submit_seconds);
  Slot& slot = slots_[stream];
  const Unit unit =
      copy.direction == CopyInfo::Direction::kDeviceToHost ? Unit::kD2H : Unit::kH2D;
  Op& entry = slot.ops.push_back({copy.name, unit, Phase::kOther, -1, copy.bytes});
  entry.blocks = copy.hold != 0 ? memory_.submit(copy.hold, slot.blocks)
                                : memory_.submit(copy.device, copy.bytes, slot.blocks);
  const std::uint64_t ticket = slot.submitted + 1;
  if (!wall_) {
    const auto bytes = static_cast<double>(copy.bytes);
    model_.submit(stream, {copy.name, unit, 0, bytes, false}, time, blame(unit));
  }
  orders_.submit(stream, ticket);
  Mover::Work work;
  work.kind = Mover::Kind::kCopy;
  work.name = copy.name;
  work.copy = copy;
  push(stream, ticket, std::move(work));
  end_submission();
  return {*slot.events, ticket};
}

void SimCore::wait(Source stream, const Event& event, const WaitTag& tag) {
  const std::scoped_lock lock(mutex_);
  if (event.source() == nullptr) return;
  const std::optional<Point> point = point_of(event);
  if (!point) {  // Of another device: only the host can see it end.
    event.wait();
    return;
  }
  if (point->source == stream && point->ticket <= slots_[stream].submitted) return;
  // A failure travels even where the order is there already.
  if (!mover_.any_failure() && orders_.ordered(stream, *point)) return;
  const std::uint64_t ticket = slots_[stream].submitted + 1;
  if (!wall_) model_.wait(stream, *point, tag, begin_submission(0));
  orders_.submit(stream, ticket);
  orders_.wait(stream, ticket, *point);
  Mover::Work work;
  work.kind = Mover::Kind::kWait;
  work.point = *point;
  push(stream, ticket, std::move(work));
  end_submission();
}

void SimCore::signal(Source stream, const EventSource& timeline, std::uint64_t value) {
  const std::scoped_lock lock(mutex_);
  const std::optional<Point> point = point_of({timeline, value});
  EBB_CHECK(point.has_value(), kInvalidArgument, "a timeline of another device");
  Slot& slot = slots_[point->source];
  EBB_CHECK(value > slot.submitted, kInvalidArgument, "a timeline that was told to reach ",
            slot.submitted, " cannot be told to reach ", value);
  slot.submitted = value;
  const double time = begin_submission(0);
  const std::uint64_t ticket = slots_[stream].submitted + 1;
  if (!wall_) model_.signal(stream, *point, time);
  orders_.submit(stream, ticket);
  orders_.signal(stream, ticket, *point);
  Mover::Work work;
  work.kind = Mover::Kind::kSignal;
  work.point = *point;
  push(stream, ticket, std::move(work));
  end_submission();
}

void SimCore::call_back(Source stream, Callback callback) {
  const std::scoped_lock lock(mutex_);
  const double time = begin_submission(0);
  Slot& slot = slots_[stream];
  const std::uint64_t ticket = slot.submitted + 1;
  slot.callbacks.push_back(std::move(callback));
  if (!wall_) model_.call_back(stream, time);
  orders_.submit(stream, ticket);
  Mover::Work work;
  work.kind = wall_ ? Mover::Kind::kCallBack : Mover::Kind::kNothing;
  work.name = "call_back";
  push(stream, ticket, std::move(work));
  end_submission();
}

Event SimCore::record(Source stream) const noexcept {
  const std::scoped_lock lock(mutex_);
  return {*slots_[stream].events, slots_[stream].submitted};
}

std::uint64_t SimCore::renew(Source timeline) noexcept {
  const std::scoped_lock lock(mutex_);
  (void)mover_.take_failure(timeline);
  return slots_[timeline].submitted;
}

std::optional<Point> SimCore::point_of(const Event& event) const noexcept {
  const auto it = by_events_.find(event.source());
  if (it == by_events_.end()) return std::nullopt;
  return Point{it->second, event.ticket()};
}

bool SimCore::ordered_after(StreamId stream, const Event& event) const noexcept {
  const std::scoped_lock lock(mutex_);
  if (event.source() == nullptr) return true;
  const std::optional<Point> point = point_of(event);
  return point ? orders_.ordered(static_cast<Source>(stream), *point) : event.done();
}

}  // namespace ebb::device
