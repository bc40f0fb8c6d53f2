// What happens when ops run, end, fail and are waited for.

#include <cstring>
#include <exception>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"

#include "allocator/error.h"
#include "runtime/device/sim/sim_core.h"

namespace ebb::device {

using Unit = OpRecord::Unit;

void SimCore::begin_op(Source stream) {
  Slot& slot = slots_[stream];
  Op& op = slot.ops.front();
  MemoryLedger& ledger = memory_.ledger();
  for (std::uint32_t i = 0; i < op.blocks; ++i) ledger.start(slot.blocks[i]);
  op.live_activation_bytes = ledger.live_activation_bytes();
  op.live_sent_bytes = ledger.live_sent_bytes();
}

void SimCore::end_op(const EventModel::Span& span) {
  Slot& slot = slots_[span.point.source];
  const Op op = slot.ops.front();
  slot.ops.pop_front();
  for (std::uint32_t i = 0; i < op.blocks; ++i) {
    memory_.ledger().end(slot.blocks.front());
    slot.blocks.pop_front();
  }
  if (observer_ == nullptr) return;
  OpRecord record;
  record.name = op.name;
  record.end_event = {*slot.events, span.point.ticket};
  record.unit = op.unit;
  record.phase = op.phase;
  record.stage = op.stage;
  record.bytes = op.bytes;
  record.start = span.start;
  record.end = span.end;
  record.stall = span.stall;
  record.cause = span.blame.cause;
  record.site = span.blame.site;
  record.live_activation_bytes = op.live_activation_bytes;
  record.live_sent_bytes = op.live_sent_bytes;
  tell(record);
}

// An observer's failure is nobody's work: it is the device's to report.
void SimCore::tell(const OpRecord& record) noexcept {
  try {
    observer_->on_op(record);
  } catch (const std::exception& error) {
    fail_orphan(absl::InternalError(
        absl::StrCat("the observer of op '", record.name, "' failed: ", error.what())));
  } catch (...) {
    fail_orphan(
        absl::InternalError(absl::StrCat("the observer of op '", record.name, "' failed")));
  }
}

void SimCore::fail_orphan(const absl::Status& status) noexcept {
  if (orphan_.ok()) orphan_ = status;
}

void SimCore::on_start(const EventModel::Span& span) {
  const bool waits_for_its_end = span.unit == Unit::kD2H || span.unit == Unit::kH2D;
  if (!span.probe) begin_op(span.point.source);
  if (follows_ && order_ == Order::Kind::kTime && !waits_for_its_end)
    mover_.force(span.point);
}

void SimCore::on_end(const EventModel::Span& span) {
  if (follows_ && order_ == Order::Kind::kTime) mover_.force(span.point);
  if (!span.probe) end_op(span);
}

void SimCore::on_call_back(Point point, double time) {
  if (follows_) mover_.force(point);
  run_callback(point, time);
}

void SimCore::run_callback(Point here, double time) {
  Slot& slot = slots_[here.source];
  Callback callback = std::move(slot.callbacks.front());
  slot.callbacks.pop_front();
  const absl::Status status = mover_.failure(here);
  const auto restore =
      absl::MakeCleanup([this, clock = std::exchange(clock_, &callback_clock_),
                         advancing = std::exchange(advancing_, true)] {
        orders_.end_call_back();
        clock_ = clock;
        advancing_ = advancing;
      });
  callback_clock_ = time;
  orders_.begin_call_back(here);
  try {
    callback(status);
  } catch (const std::exception& error) {
    mover_.fail(here.source, here.ticket,
                absl::InternalError(absl::StrCat("a callback on stream '", slot.name,
                                                 "' failed: ", error.what())));
  } catch (...) {
    mover_.fail(
        here.source, here.ticket,
        absl::InternalError(absl::StrCat("a callback on stream '", slot.name, "' failed")));
  }
}

// The mover's part: what really runs.
absl::Status SimCore::run(Point here, Mover::Work& work, bool skip) {
  if (work.kind == Mover::Kind::kWait || work.kind == Mover::Kind::kSignal) return {};
  if (work.kind == Mover::Kind::kCallBack) {
    run_callback(here, 0);
    return {};
  }
  EventModel::Span span;
  span.point = here;
  const bool observed = wall_ && work.kind != Mover::Kind::kProbe;
  if (observed) {
    begin_op(here.source);
    span.start = now();
  }
  absl::Status status;
  if (!skip) status = run_op(work);
  if (observed) {
    span.end = now();
    end_op(span);
  }
  if (status.ok()) return status;
  return {status.code(),
          absl::StrCat("op '", work.name, "' on stream '", slots_[here.source].name,
                       "' failed: ", status.message())};
}

absl::Status SimCore::run_op(Mover::Work& work) {
  if (fault_ != nullptr && work.kind != Mover::Kind::kProbe) {
    if (absl::Status status = fault_(work.name); !status.ok()) return status;
  }
  return moves_ ? run_body(work) : absl::Status();
}

absl::Status SimCore::run_body(Mover::Work& work) {
  // There is no pinned memory there, and what was submitted is the parent's work.
  if (process_.in_child()) {
    return absl::FailedPreconditionError(
        "a device stays with the process that made it: this is a child of fork()");
  }
  try {
    if (work.kind == Mover::Kind::kCopy) {
      auto* device = reinterpret_cast<std::byte*>(work.copy.device);
      const bool out = work.copy.direction == CopyInfo::Direction::kDeviceToHost;
      if (work.copy.bytes > 0) {
        std::memcpy(out ? work.copy.host : device, out ? device : work.copy.host,
                    work.copy.bytes);
      }
      return {};
    }
    if (!work.body) return {};
    if (!guard_) {
      work.body(nullptr);
      return {};
    }
    return memory_.region().guarded(work.name, work.accesses, memory_.used_bytes(),
                                    [&] { work.body(nullptr); });
  } catch (const Error& error) {
    return {error.code(), error.what()};
  } catch (const std::exception& error) {
    return absl::InternalError(error.what());
  } catch (...) {
    return absl::InternalError("it threw something unknown");
  }
}

bool SimCore::reached(Point point) noexcept {
  const std::scoped_lock lock(mutex_);
  if (orders_.knows(point)) return true;
  if (wall_) {
    // Whoever polls would poll for ever if nothing moved meanwhile.
    if (order_ == Order::Kind::kFuzz && !advancing_) mover_.move_some();
    if (!mover_.moved(point)) return false;
  } else {
    catch_up();
    if (!model_.reached(point)) return false;
    if (follows_) mover_.force(point);
  }
  orders_.learn(point);
  return true;
}

void SimCore::await(Point point) noexcept {
  const std::scoped_lock lock(mutex_);
  wait_for(point);
}

void SimCore::wait_for(Point point) {
  if (orders_.knows(point)) return;
  if (wall_) {
    while (!mover_.force(point)) {  // What it needs may still be submitted by a callback.
      if (!mover_.move_one()) break_deadlock(point);
    }
  } else {
    catch_up();
    if (!model_.reached(point) && advancing_) {
      const absl::Status status =
          absl::FailedPreconditionError("a callback waits for work that has not ended");
      log_error("a callback waits for work that has not ended");
      fail_orphan(status);
      return;
    }
    advancing_ = true;
    while (!model_.try_advance_until(point)) break_deadlock(point);
    advancing_ = clock_ != &host_clock_;
    if (follows_) mover_.force(point);
    const double time = model_.time_of(point).value_or(0);
    if (time > *clock_) {
      *clock_ = time;
      blame_ = host_wait_;
    }
  }
  orders_.learn(point);
}

// The wait, or the op, that can never end ends; whoever synchronizes hears of it.
void SimCore::break_deadlock(Point point) {
  std::string message;
  std::optional<Point> wait;
  Point set = point;
  if (wall_) {
    message = absl::StrCat("nothing that was submitted lets '", slots_[point.source].name,
                           "' reach ", point.ticket);
    const auto stuck = mover_.first_blocked(point);
    wait = stuck.wait;
    set = stuck.set;
  } else {
    EventModel::Deadlock deadlock = model_.break_deadlock(point);
    message = std::move(deadlock.message);
    wait = deadlock.wait;
    set = deadlock.set;
    if (deadlock.endless) {
      mover_.fail(set.source, set.ticket, absl::DeadlineExceededError(message));
      return;
    }
  }
  const absl::Status status = absl::FailedPreconditionError(message);
  if (wait) {
    mover_.abandon(*wait);
    mover_.fail(wait->source, wait->ticket, status);
  } else {
    mover_.set(set);
    orders_.abandon(set);
    slots_[set.source].submitted = std::max(slots_[set.source].submitted, set.ticket);
    fail_orphan(status);
  }
}

void SimCore::fail_with(const absl::Status& status) {
  throw Error(status.code(), std::string(status.message()));
}

void SimCore::synchronize(Source stream) {
  const std::scoped_lock lock(mutex_);
  wait_for({stream, slots_[stream].submitted});
  const absl::Status status = mover_.take_failure(stream);
  if (!status.ok()) fail_with(status);
}

void SimCore::synchronize() {
  const std::scoped_lock lock(mutex_);
  // Callbacks may submit more, to streams that were waited for already.
  for (bool again = true; again;) {
    again = false;
    for (Source source = 0; source < slots_.size(); ++source) {
      const Point last{source, slots_[source].submitted};
      if (orders_.knows(last)) continue;
      wait_for(last);
      again = true;
    }
  }
  absl::Status first = std::exchange(orphan_, {});
  for (Source source = 0; source < slots_.size(); ++source) {
    const absl::Status status = mover_.take_failure(source);
    if (first.ok()) first = status;
  }
  if (!first.ok()) fail_with(first);
}

void SimCore::close(Source stream) noexcept {
  const std::scoped_lock lock(mutex_);
  wait_for({stream, slots_[stream].submitted});
  fail_orphan(mover_.take_failure(stream));
}

double SimCore::now() const noexcept {
  if (wall_) {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - began_).count();
  }
  const std::scoped_lock lock(mutex_);
  return *clock_;
}

std::optional<double> SimCore::ended_at(const Event& event) noexcept {
  const std::scoped_lock lock(mutex_);
  const std::optional<Point> point = point_of(event);
  if (!point || wall_ || !reached(*point)) return std::nullopt;
  return model_.time_of(*point);
}

void SimCore::set_observer(OpObserver* observer) noexcept {
  const std::scoped_lock lock(mutex_);
  observer_ = observer;
}

}  // namespace ebb::device
