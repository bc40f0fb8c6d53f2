#include "offload/report/step_record.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_map.h"

namespace ebb::offload {

using device::OpRecord;
using device::Phase;

const char* name(device::StallCause cause) noexcept {
  switch (cause) {
    case device::StallCause::kD2HBacklog:
      return "d2h_backlog";
    case device::StallCause::kH2DLate:
      return "h2d_late";
    case device::StallCause::kHostFull:
      return "host_full";
    case device::StallCause::kPin:
      return "pin";
    case device::StallCause::kComm:
      return "comm";
    case device::StallCause::kHost:
      return "host";
  }
  return "unknown";
}

StepTime step_time(const StepOps& ops) {
  StepTime time;
  for (const OpRecord& op : ops) {
    if (op.unit != OpRecord::Unit::kCompute) continue;
    (op.phase == Phase::kRecompute ? time.recompute : time.compute) += op.end - op.start;
    time.stall[static_cast<std::size_t>(op.cause)] += op.stall;
  }
  time.step = time.compute + time.recompute;
  for (const double stall : time.stall) time.step += stall;
  return time;
}

namespace {

bool forward_pass(const OpRecord& op) { return op.phase == Phase::kForward; }
bool backward_pass(const OpRecord& op) {
  return op.phase == Phase::kRecompute || op.phase == Phase::kBackward;
}

// Finds ops of the compute queue by their events.
class OpIndex {
 public:
  void add(const Event& end, BoundOp* op) {
    by_source_[end.source()].push_back({end.ticket(), op});
  }
  void seal() {
    for (auto& [source, ops] : by_source_) std::sort(ops.begin(), ops.end());
  }
  // The op that ends with `event`, or null.
  BoundOp* at(const Event& event) const {
    BoundOp* op = from(event, 0);
    return op != nullptr && ticket_ == event.ticket() ? op : nullptr;
  }
  // The first one behind `event` on its stream, or null.
  BoundOp* after(const Event& event) const { return from(event, 1); }

 private:
  BoundOp* from(const Event& event, std::uint64_t offset) const {
    const auto ops = by_source_.find(event.source());
    if (ops == by_source_.end()) return nullptr;
    const std::pair<std::uint64_t, BoundOp*> key{event.ticket() + offset, nullptr};
    const auto found = std::lower_bound(ops->second.begin(), ops->second.end(), key);
    if (found == ops->second.end()) return nullptr;
    ticket_ = found->first;
    return found->second;
  }

  absl::flat_hash_map<const EventSource*, std::vector<std::pair<std::uint64_t, BoundOp*>>>
      by_source_;
  mutable std::uint64_t ticket_ = 0;
};

void add_block(BoundOp* op, const SentBlock& block) {
  if (op == nullptr) return;
  op->sent_bytes += block.bytes;
  ++op->sent_blocks;
}

// What no op of a forward has made, such as a batch, was there at the beginning of the
// micro-step whose backward uses it. Null if that has no forward.
BoundOp* first_of_forward(std::vector<BoundMicroStep>& micro_steps, const BoundOp* user) {
  const auto uses = [user](const BoundMicroStep& micro) {
    return std::any_of(micro.backward.begin(), micro.backward.end(),
                       [user](const BoundOp& op) { return &op == user; });
  };
  auto micro = micro_steps.begin();
  if (user != nullptr) micro = std::find_if(micro, micro_steps.end(), uses);
  if (micro == micro_steps.end() || micro->forward.empty()) return nullptr;
  return &micro->forward.front();
}

}  // namespace

BoundInput bound_input(const StepOps& ops, std::span<const SentBlock> blocks,
                       std::size_t activation_bytes, const device::Capability& capability) {
  BoundInput input{.micro_steps = {},
                   .optimizer_seconds = 0,
                   .activation_bytes = activation_bytes,
                   .d2h = capability.d2h,
                   .h2d = capability.h2d,
                   .duplex_bytes_per_second = capability.duplex_bytes_per_second};
  // First the shape, so that ops stay where they are once they are indexed.
  std::vector<std::pair<const OpRecord*, std::size_t>> passes;  // Op, pass: even = forward.
  std::size_t pass = 0;
  for (const OpRecord& op : ops) {
    if (op.unit != OpRecord::Unit::kCompute) continue;
    if (!forward_pass(op) && !backward_pass(op)) {
      input.optimizer_seconds += op.end - op.start;
      continue;
    }
    if (forward_pass(op) == (pass % 2 == 1)) ++pass;
    passes.emplace_back(&op, pass);
  }
  if (passes.empty()) return input;
  input.micro_steps.resize(pass / 2 + 1);
  for (const auto& [op, where] : passes) {
    BoundMicroStep& micro = input.micro_steps[where / 2];
    std::vector<BoundOp>& list = where % 2 == 0 ? micro.forward : micro.backward;
    list.push_back({.seconds = op->end - op->start,
                    .recompute = op->phase == Phase::kRecompute,
                    .other_bytes = op->live_activation_bytes -
                                   std::min(op->live_activation_bytes, op->live_sent_bytes),
                    .live_sent_bytes = op->live_sent_bytes});
  }
  OpIndex made;
  OpIndex used;
  std::vector<std::size_t> next(pass + 1);
  for (const auto& [op, where] : passes) {
    BoundMicroStep& micro = input.micro_steps[where / 2];
    if (where % 2 == 0) {
      made.add(op->end_event, &micro.forward[next[where]++]);
    } else {
      used.add(op->end_event, &micro.backward[next[where]++]);
    }
  }
  made.seal();
  used.seal();
  for (const SentBlock& block : blocks) {
    BoundOp* const user = block.used ? used.after(block.before_use) : nullptr;
    BoundOp* maker = made.at(block.made);
    if (maker == nullptr) maker = first_of_forward(input.micro_steps, user);
    if (maker != nullptr) maker->other_bytes += block.bytes;
    if (!block.used) continue;
    add_block(maker, block);
    add_block(user, block);
  }
  return input;
}

}  // namespace ebb::offload
