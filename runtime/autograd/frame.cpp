#include "runtime/autograd/frame.h"

#include <algorithm>
#include <utility>

#include "allocator/error.h"
#include "runtime/autograd/node.h"

namespace ebb::autograd {
namespace {

// Ends a recompute. No std::exception, so that a segment's own handlers let it pass.
struct Stop {};

// What the nodes of a second run save belongs to the first run's.
class Discarded final : public PackedTensor {
 public:
  Tensor unpack() override {
    throw Error(absl::StatusCode::kFailedPrecondition,
                "backward inside of a checkpointed segment, on what it recorded");
  }
  void used() noexcept override {}
};

// Sets where saves go, and puts it back; what else a segment changes is its own affair.
class HooksOfSegment {
 public:
  HooksOfSegment(SavedTensorHooks* hooks, bool in_segment)
      : hooks_(std::exchange(modes().hooks, hooks)),
        in_segment_(std::exchange(modes().in_segment, in_segment)) {}
  ~HooksOfSegment() {
    modes().hooks = hooks_;
    modes().in_segment = in_segment_;
  }
  HooksOfSegment(const HooksOfSegment&) = delete;
  HooksOfSegment& operator=(const HooksOfSegment&) = delete;

 private:
  SavedTensorHooks* const hooks_;
  const bool in_segment_;
};

std::uint64_t version_of(const Tensor& tensor) {
  return tensor.defined() ? tensor.storage()->version()->value.load() : 0;
}

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

// Puts an exception's half-done recompute back to none.
class Frame::Recomputing {
 public:
  explicit Recomputing(Frame& frame) : frame_(frame) {
    frame_.recomputing_ = true;
    frame_.next_ = 0;
    for (std::size_t i = 0; i < frame_.slots_.size(); ++i) {
      if (frame_.slots_[i].wanted) frame_.last_ = i;
    }
  }
  ~Recomputing() {
    frame_.recomputing_ = false;
    if (done_) return;
    for (Slot& slot : frame_.slots_) slot.tensor = {};
  }
  Recomputing(const Recomputing&) = delete;
  Recomputing& operator=(const Recomputing&) = delete;
  void done() { done_ = true; }

 private:
  Frame& frame_;
  bool done_ = false;
};

Frame::Frame(Segment segment, std::span<const Tensor> inputs, Recompute recompute)
    : segment_(std::move(segment)), kind_(recompute), modes_(modes()) {
  if (kind_ == Recompute::kAlways) save_inputs(inputs, modes_.hooks);
}

bool Frame::of_use() noexcept {
  if (modes().hooks == nullptr) return false;
  const auto* outer = dynamic_cast<const Frame*>(modes().hooks);
  return outer == nullptr || (outer->kind_ == Recompute::kAsNeeded && outer->running_);
}

std::vector<Tensor> Frame::run(std::span<const Tensor> inputs) {
  const HooksOfSegment hooks(this, /*in_segment=*/true);
  first_inputs_ = inputs;
  for (const Tensor& input : inputs) first_versions_.push_back(version_of(input));
  running_ = true;
  std::vector<Tensor> outputs = segment_(inputs);
  running_ = false;
  first_inputs_ = {};
  return outputs;
}

void Frame::save_inputs(std::span<const Tensor> inputs, SavedTensorHooks* hooks) {
  const HooksOfSegment around(hooks, modes_.in_segment);
  const SaveSite site{SaveSite::Kind::kCheckpointInput, "checkpoint", modes_.stage};
  std::vector<Input> saved;
  for (const Tensor& input : inputs) {
    saved.push_back({SavedTensor(input, site), requires_grad(input)});
  }
  inputs_ = std::move(saved);
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
  slots_.push_back({site.op, tensor.shape(), tensor.dtype(), false, {}, 0, {}});
  if (kind_ == Recompute::kAsNeeded) return pass_on(tensor, site);
  left_to_recompute(tensor, site);
  return placeholder(tensor);
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
  return placeholder(tensor);
}

std::unique_ptr<PackedTensor> Frame::placeholder(const Tensor& tensor) {
  auto made = std::make_unique<Placeholder>(shared_from_this(), slots_.size() - 1);
  slots_.back().wanted = true;
  slots_.back().checksum = checksum_if_due(tensor);
  return made;
}

void Frame::left_to_recompute(const Tensor& tensor, const SaveSite& site) {
  // Once: when the segment ran first.
  if (modes_.hooks != nullptr && !recomputing_) {
    modes_.hooks->left_to_recompute(tensor, site);
  }
}

PackResult Frame::fill_slot(const Tensor& tensor, const SaveSite& site) {
  const std::size_t index = next_++;
  EBB_CHECK(index <= last_, kFailedPrecondition,
            "the recompute of a segment went on after "
            "its last saved tensor: the segment must let unknown exceptions pass");
  Slot& slot = slots_[index];
  EBB_CHECK(slot.shape == tensor.shape() && slot.dtype == tensor.dtype(),
            kFailedPrecondition,
            "a checkpointed segment saved another tensor when it ran "
            "again: ",
            slot.op, " saved one of ", slot.shape.size(), " dimensions and ",
            name(slot.dtype), ", now ", site.op, " saves one of ", tensor.dimensions(),
            " and ", name(tensor.dtype()));
  verify_checksum(slot.checksum, tensor, slot.op);
  if (slot.wanted && !slot.tensor.defined()) {
    slot.tensor = tensor;
    slot.version = version_of(tensor);
  }
  if (index == last_) throw Stop();
  return std::make_unique<Discarded>();
}

Tensor Frame::take(std::size_t index) {
  if (!slots_[index].tensor.defined()) recompute();
  Slot& slot = slots_[index];
  const auto now = version_of(slot.tensor);
  EBB_CHECK(now == slot.version, kFailedPrecondition, "a tensor that ", slot.op,
            " saved for backward was written in place since, in a recompute: it is at "
            "version ",
            now, ", and was saved at version ", slot.version);
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

std::vector<Tensor> Frame::inputs_again() {
  std::vector<Tensor> inputs;
  for (Input& input : inputs_) {
    Tensor tensor = input.tensor.use(/*keep=*/true);
    if (tensor.defined()) tensor = tensor.alias();
    if (input.requires_grad) make_meta(tensor).requires_grad = true;
    inputs.push_back(std::move(tensor));
  }
  for (Input& input : inputs_) input.tensor.used();
  return inputs;
}

void Frame::recompute() {
  EBB_CHECK(!running_ && !recomputing_, kFailedPrecondition,
            "backward inside of a checkpointed segment, on what it recorded");
  const std::vector<Tensor> inputs = inputs_again();
  const ModesScope restore;
  modes() = modes_;
  modes().grad_enabled = true;
  modes().phase = device::Phase::kRecompute;
  modes().hooks = this;
  modes().in_segment = true;
  modes().recomputing = true;
  modes().verify_recompute = 0;
  Recomputing recomputing(*this);
  bool stopped = false;
  try {
    segment_(inputs);
  } catch (const Stop&) {
    stopped = true;
  }
  EBB_CHECK(stopped, kFailedPrecondition, "a checkpointed segment saved ", next_,
            " tensors when it ran again, and at least ", last_ + 1,
            " the first time: the "
            "next one missing is of ",
            slots_[next_].op);
  recomputing.done();
}

}  // namespace ebb::autograd
