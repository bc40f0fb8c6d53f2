// Listens to a device's ops, and turns them into the run's time figures.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "offload/report/step_record.h"

namespace ebb::offload {

// Means over the steps after the first (over the first, if there is no other).
struct TimeFigures {
  StepTime step;
  Bound bound;
  std::int64_t steps = 0;  // Counted in the means.
};

// What one direction of the link did for the engine's blocks, over the run.
struct LinkFigures {
  std::size_t bytes = 0;
  double busy_seconds = 0;
};

// Set it as the device's observer. One thread at a time.
class RunRecorder final : public device::OpObserver {
 public:
  explicit RunRecorder(const device::Capability& capability) : capability_(capability) {}

  void on_op(const device::OpRecord& record) override { ops_.push_back(record); }

  // A step begins: what ran since the last one (validation, set-up) is left out.
  void begin_step() { ops_.clear(); }
  // A step is over, and the device has been synchronised. `blocks`: what the engine sent in
  // it. `activation_bytes`: the activation budget (device budget less parameters, gradients
  // and optimizer state), or without one the peak of the activation bytes.
  void end_step(std::span<const SentBlock> blocks, std::size_t activation_bytes);

  TimeFigures figures() const;
  LinkFigures d2h() const noexcept { return d2h_; }
  LinkFigures h2d() const noexcept { return h2d_; }
  // The ops of the last step that ended.
  const StepOps& last_step() const noexcept { return last_; }

 private:
  const device::Capability capability_;
  StepOps ops_;   // Of this step so far.
  StepOps last_;  // Of the one before.
  TimeFigures sum_;
  std::int64_t steps_ = 0;
  LinkFigures d2h_;
  LinkFigures h2d_;
};

}  // namespace ebb::offload
