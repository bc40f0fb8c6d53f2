#include "offload/report/run_recorder.h"

#include <string_view>
#include <utility>

#include "offload/store/store.h"

namespace ebb::offload {
namespace {

using Unit = device::OpRecord::Unit;

// Calls visit(a's figure, b's figure) for each number of the two.
template <typename Visit>
void zip(TimeFigures& a, const TimeFigures& b, Visit visit) {
  visit(a.step.step, b.step.step);
  visit(a.step.compute, b.step.compute);
  visit(a.step.recompute, b.step.recompute);
  for (std::size_t i = 0; i < a.step.stall.size(); ++i) {
    visit(a.step.stall[i], b.step.stall[i]);
  }
  for (double Bound::*figure :
       {&Bound::seconds, &Bound::forward_seconds, &Bound::recompute_seconds,
        &Bound::backward_seconds, &Bound::optimizer_seconds, &Bound::sent_bytes,
        &Bound::fetched_bytes, &Bound::kept_bytes, &Bound::d2h_bytes_per_second,
        &Bound::h2d_bytes_per_second, &Bound::duplex_bytes_per_second}) {
    visit(a.bound.*figure, b.bound.*figure);
  }
}

}  // namespace

void RunRecorder::end_step(std::span<const SentBlock> blocks,
                           std::size_t activation_bytes) {
  for (const device::OpRecord& op : ops_) {
    const std::string_view name = op.name;
    if (name != kPutOp && name != kFetchOp) continue;
    LinkFigures& link = op.unit == Unit::kD2H ? d2h_ : h2d_;
    link.bytes += op.bytes;
    link.busy_seconds += op.end - op.start;
  }
  TimeFigures step;
  step.step = step_time(ops_);
  if (capability_.virtual_clock) {
    step.bound = step_bound(bound_input(ops_, blocks, activation_bytes, capability_));
  }
  if (steps_ <= 1) sum_ = {};  // The first step counts only while there is no other.
  zip(sum_, step, [](double& sum, double figure) { sum += figure; });
  ++sum_.steps;
  ++steps_;
  last_ = std::exchange(ops_, {});
  ops_.reserve(last_.size());
}

TimeFigures RunRecorder::figures() const {
  TimeFigures means = sum_;
  if (sum_.steps == 0) return means;
  zip(means, sum_,
      [&](double& mean, double sum) { mean = sum / static_cast<double>(sum_.steps); });
  return means;
}

}  // namespace ebb::offload
