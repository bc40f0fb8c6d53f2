#include "runtime/autograd/checkpoint/frame.h"

#include <utility>

#include "absl/cleanup/cleanup.h"

#include "allocator/error.h"

namespace ebb::autograd {
namespace {

// Sets where saves go and who is told what ops make, and puts both back; what else a
// segment changes is its own affair.
class HooksOfSegment {
 public:
  HooksOfSegment(SavedTensorHooks* hooks, bool in_segment, RecomputeCheck* check)
      : hooks_(std::exchange(modes().hooks, hooks)),
        in_segment_(std::exchange(modes().in_segment, in_segment)),
        check_(std::exchange(modes().check, check)) {}
  ~HooksOfSegment() {
    modes().hooks = hooks_;
    modes().in_segment = in_segment_;
    modes().check = check_;
  }
  HooksOfSegment(const HooksOfSegment&) = delete;
  HooksOfSegment& operator=(const HooksOfSegment&) = delete;

 private:
  SavedTensorHooks* const hooks_;
  const bool in_segment_;
  RecomputeCheck* const check_;
};

}  // namespace

class Frame::Placeholder final : public RemadeTensor {
 public:
  Placeholder(std::shared_ptr<Frame> frame, std::size_t slot)
      : frame_(std::move(frame)), slot_(slot) {}
  ~Placeholder() override { frame_->drop(slot_); }
  Placeholder(const Placeholder&) = delete;
  Placeholder& operator=(const Placeholder&) = delete;

  Tensor unpack() override { return frame_->take(slot_); }
  void used() noexcept override {}  // What is used is handed over.
  void add_to(UseOrder& order) override { frame_->add_to(slot_, order); }

 private:
  const std::shared_ptr<Frame> frame_;
  const std::size_t slot_;
};

Frame::Frame(Segment segment, std::span<const Tensor> inputs, Recompute recompute)
    : segment_(std::move(segment)),
      kind_(recompute),
      modes_(modes()),
      check_(modes_.verify_recompute > 0 ? std::make_unique<RecomputeCheck>(modes_.check)
                                         : nullptr) {
  if (kind_ == Recompute::kAlways) save_inputs(inputs, modes_.hooks);
}

bool Frame::of_use() noexcept {
  if (modes().hooks == nullptr) return false;
  const auto* outer = dynamic_cast<const Frame*>(modes().hooks);
  return outer == nullptr || (outer->kind_ == Recompute::kAsNeeded && outer->running_);
}

std::vector<Tensor> Frame::run(std::span<const Tensor> inputs) {
  const HooksOfSegment hooks(this, /*in_segment=*/true,
                             check_ ? check_.get() : modes_.check);
  first_inputs_ = inputs;
  for (const Tensor& input : inputs) first_versions_.push_back(version_of(input));
  check_inputs(inputs);
  running_ = true;
  const absl::Cleanup over = [this] {
    running_ = false;
    first_inputs_ = {};
  };
  return segment_(inputs);
}

void Frame::check_inputs(std::span<const Tensor> inputs) const {
  if (check_ == nullptr) return;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    check_->given(modes_.stage, static_cast<std::int32_t>(i), inputs[i]);
  }
}

void Frame::save_inputs(std::span<const Tensor> inputs, SavedTensorHooks* hooks) {
  const HooksOfSegment around(hooks, modes_.in_segment, nullptr);
  const SaveSite site{SaveSite::Kind::kCheckpointInput, "checkpoint", modes_.stage};
  std::vector<Input> saved;
  for (const Tensor& input : inputs) {
    saved.push_back({SavedTensor(input, site), requires_grad(input)});
  }
  inputs_ = std::move(saved);
}

std::uint64_t Frame::version_of(const Tensor& tensor) {
  return tensor.defined() ? tensor.storage()->version()->value.load() : 0;
}

SavedTensorHooks* Frame::base() const noexcept {
  const auto* outer = dynamic_cast<const Frame*>(modes_.hooks);
  return outer == nullptr ? modes_.hooks : outer->base();
}

bool Frame::can_make_again(const Tensor& tensor) const {
  for (std::size_t i = 0; i < first_inputs_.size(); ++i) {
    const Tensor& input = first_inputs_[i];
    if (!input.defined()) continue;
    if (version_of(input) != first_versions_[i]) return false;
    if (input.storage() == tensor.storage()) return false;
  }
  return true;
}

PackResult Frame::pack(const Tensor& tensor, const SaveSite& site) {
  if (recomputing_) return fill_slot(tensor, site);
  slots_.push_back({site.op, site.stage, tensor.shape(), tensor.dtype(), false, {}, {}});
  if (kind_ == Recompute::kAsNeeded) return pass_on(tensor, site);
  left_to_recompute(tensor, site);
  return placeholder();
}

PackResult Frame::pass_on(const Tensor& tensor, const SaveSite& site) {
  SaveSite asked = site;
  // A segment inside of this one, if it can, makes it from less.
  asked.can_recompute = site.can_recompute || can_make_again(tensor);
  PackResult answer = modes_.hooks->pack(tensor, asked);
  if (answer.by == nullptr) answer.by = modes_.hooks;
  if (!answer.recompute || site.can_recompute) return answer;
  EBB_CHECK(asked.can_recompute, kFailedPrecondition, "hooks left a tensor that ", site.op,
            " saves to a recompute that cannot make it");
  if (inputs_.empty()) save_inputs(first_inputs_, base());
  return placeholder();
}

std::unique_ptr<PackedTensor> Frame::placeholder() {
  auto made = std::make_unique<Placeholder>(shared_from_this(), slots_.size() - 1);
  slots_.back().wanted = true;
  return made;
}

void Frame::left_to_recompute(const Tensor& tensor, const SaveSite& site) {
  // Once: when the segment ran first.
  if (modes_.hooks != nullptr && !recomputing_) {
    modes_.hooks->left_to_recompute(tensor, site);
  }
}

Tensor Frame::take(std::size_t index) {
  if (!slots_[index].tensor.defined()) recompute();
  Slot& slot = slots_[index];
  slot.version.check(slot.op);
  return std::exchange(slot.tensor, {});
}

void Frame::drop(std::size_t index) noexcept {
  slots_[index].wanted = false;
  slots_[index].tensor = {};
}

void Frame::add_to(std::size_t index, UseOrder& order) {
  // A recompute asks hooks for the inputs, once for all slots.
  if (slots_[index].tensor.defined() || !order.segments.insert(this).second) return;
  for (const Input& input : inputs_) input.tensor.add_to(order);
}

}  // namespace ebb::autograd
