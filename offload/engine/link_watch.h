// Whether the link is as fast as planned.
//
// Each copy's time, from when all it waits for had ended, is compared with what it should
// have taken. Copies that shared the link, or stood behind urgent ones, look slower than
// the link is: so a step's figure is what the fastest copies with a quarter of the bytes
// show. Plans change at the end of a step, once two steps in a row say the same, by more
// than noise: a link that varies a little makes nothing flap.

#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "allocator/event.h"
#include "offload/engine/engine_figures.h"
#include "runtime/device/device.h"

namespace ebb::offload {

// One thread at a time.
class LinkWatch {
 public:
  LinkWatch(const device::LinkRate& planned, double host_submit_seconds);

  // Of the link as it is thought to be.
  device::LinkRate rate() const noexcept {
    return {plan_.measured, planned_.latency_seconds};
  }
  const LinkPlan& plan() const noexcept { return plan_; }

  // A copy's place among those of its step. The default one is no copy's.
  struct Mark {
    std::uint64_t step = 0;
    std::size_t index = 0;
  };

  // At `now`, a copy is queued that begins after `after` and after those queued before.
  Mark queued(std::size_t bytes, const Fence& after, double now, const Event& end);
  // The copy may have been left out, or cut short.
  void cancelled(const Mark& mark) noexcept;
  // A step is over, and the device knows when things ended.
  void end_step(const device::Device& device);

 private:
  struct Copy {
    std::size_t bytes = 0;
    Fence after;
    double queued = 0;
    Event end;
  };

  double planned_seconds(std::size_t bytes) const noexcept;
  // Of this step's copies: planned time / time taken. 0: too few to tell.
  double speed(const device::Device& device) const;

  const device::LinkRate planned_;
  const double host_submit_seconds_;
  const std::size_t chunk_bytes_;
  LinkPlan plan_;
  std::vector<Copy> copies_;  // Of this step.
  std::uint64_t step_ = 1;
  int strikes_ = 0;  // Steps in a row that said: slower (negative), or faster.
};

}  // namespace ebb::offload
