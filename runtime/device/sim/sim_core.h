// What the parts of a simulated device share: its clocks, its order, its failures.
//
// Two things happen to everything that is submitted, apart from each other. The event model
// says when it runs; the mover really runs it, in one of three orders: `eager` at
// submission; `time` an op at its virtual start and a copy at its virtual end (as late as
// it may, so that what overtakes it is seen); `fuzz` at random. What the model has ended,
// and somebody is told so (done(), wait(), a callback), has moved. Dry, nothing moves. On a
// free device there is no model: all is done when it has moved, and the clock is the
// wall's.
//
// The host's clock pays host_submit_seconds for each op and copy (waits, signals and probes
// are free), and jumps to an event's time when it waits for it. A callback runs inside the
// model, with a clock that starts at its time.

#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"

#include "allocator/process_mark.h"
#include "runtime/device/mover.h"
#include "runtime/device/order_clocks.h"
#include "runtime/device/sim/event_model.h"
#include "runtime/device/sim/sim_device.h"
#include "runtime/device/sim/sim_memory.h"

namespace ebb::device {

// Thread-safe: one lock, which bodies, callbacks and observers run under (they may come
// back here from the same thread).
class SimCore final : public StreamOrder,
                      private EventModel::Listener,
                      private Mover::Runner {
 public:
  explicit SimCore(const SimOptions& options);
  ~SimCore() override;

  SimCore(const SimCore&) = delete;
  SimCore& operator=(const SimCore&) = delete;

  // `events` is who names the source in events, and outlives this.
  Source add_stream(const char* name, const EventSource& events);
  Source add_timeline(const EventSource& events);
  void rename(Source source, const char* name);

  Event launch(Source stream, const OpInfo& op, Body body);
  Event copy(Source stream, const CopyInfo& copy);
  void wait(Source stream, const Event& event, const WaitTag& tag);
  void signal(Source stream, const EventSource& timeline, std::uint64_t value);
  void call_back(Source stream, Callback callback);
  Event record(Source stream) const noexcept;
  // The highest value that was ever submitted for a timeline, which forgets its failure: it
  // has another owner from now on.
  std::uint64_t renew(Source timeline) noexcept;

  bool reached(Point point) noexcept;
  void await(Point point) noexcept;
  void synchronize(Source stream);
  void synchronize();
  void close(Source stream) noexcept;  // Waits, and leaves its failure to synchronize().

  double now() const noexcept;
  std::optional<double> ended_at(const Event& event) noexcept;
  bool ordered_after(StreamId stream, const Event& event) const noexcept override;

  void set_observer(OpObserver* observer) noexcept;
  void set_host_wait(const WaitTag& tag) noexcept { host_wait_ = tag; }
  SimMemory& memory() noexcept { return memory_; }

 private:
  // What is known of an op until it has ended.
  struct Op {
    const char* name = "";
    OpRecord::Unit unit = OpRecord::Unit::kCompute;
    Phase phase = Phase::kOther;
    std::int32_t stage = -1;
    std::size_t bytes = 0;
    std::uint32_t blocks = 0;
    std::size_t live_activation_bytes = 0;
    std::size_t live_sent_bytes = 0;
  };

  struct Slot {
    const EventSource* events = nullptr;
    std::string name;
    std::uint64_t submitted = 0;  // Of a timeline: its highest value.
    Ring<Op> ops;
    Ring<SimMemory::Block> blocks;  // Of `ops`, in their order.
    Ring<Callback> callbacks;
  };

  void on_start(const EventModel::Span& span) override;
  void on_end(const EventModel::Span& span) override;
  void on_call_back(Point point, double time) override;
  absl::Status run(Point here, Mover::Work& work, bool skip) override;

  double begin_submission(double cost);
  void end_submission();
  void push(Source stream, std::uint64_t ticket, Mover::Work work);
  EventModel::Demand demand(const OpInfo& op) const;
  WaitTag blame(OpRecord::Unit unit) noexcept;
  void catch_up() noexcept;
  absl::Status run_op(Mover::Work& work);
  absl::Status run_body(Mover::Work& work);
  void run_callback(Point here, double time);
  void begin_op(Source stream);
  void end_op(const EventModel::Span& span);
  void tell(const OpRecord& record) noexcept;
  void fail_orphan(const absl::Status& status) noexcept;
  void wait_for(Point point);
  void break_deadlock(Point point);
  [[noreturn]] void fail_with(const absl::Status& status);
  std::optional<Point> point_of(const Event& event) const noexcept;

  const Profile profile_;
  const Order::Kind order_;
  const std::function<absl::Status(const char* op)> fault_;
  const bool moves_;    // Not dry.
  const bool wall_;     // Free.
  const bool follows_;  // With the mover: what moves, or may fail.
  const bool guard_;
  const ProcessMark process_;
  const std::chrono::steady_clock::time_point began_;

  mutable std::recursive_mutex mutex_;
  EventModel model_;
  Mover mover_;
  mutable OrderClocks orders_;
  SimMemory memory_;
  std::deque<Slot> slots_;
  absl::flat_hash_map<const EventSource*, Source> by_events_;
  OpObserver* observer_ = nullptr;
  absl::Status orphan_;  // A failure whose stream is gone, or never was.

  double host_clock_ = 0;
  double callback_clock_ = 0;
  double* clock_ = &host_clock_;
  bool advancing_ = false;
  WaitTag host_wait_;
  WaitTag blame_;  // What the host waited for since it last submitted compute work.
};

}  // namespace ebb::device
