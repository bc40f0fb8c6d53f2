// Checkpointing, the non-reentrant kind (as in PyTorch's torch.utils.checkpoint).
//
// The segment runs once, and its nodes stay; what they save is only counted. Each saved
// tensor is a slot of the segment's frame. The first slot that backward asks for runs the
// segment again: its n-th save fills slot n, and after the last one that is still wanted an
// exception ends the run. The nodes of the second run are thrown away.

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "allocator/error.h"
#include "runtime/autograd/autograd.h"
#include "runtime/autograd/modes.h"
#include "runtime/autograd/node.h"
#include "runtime/autograd/saved_tensor.h"
#include "runtime/autograd/verify_recompute.h"

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

// One checkpointed segment of one graph: the hooks while it runs. Lives as long as a node
// has a slot.
class Frame final : public SavedTensorHooks, public std::enable_shared_from_this<Frame> {
 public:
  Frame(Segment segment, std::span<const Tensor> inputs)
      : segment_(std::move(segment)), modes_(modes()) {
    const SaveSite site{SaveSite::Kind::kCheckpointInput, "checkpoint", modes_.stage};
    for (const Tensor& input : inputs) {
      inputs_.push_back({SavedTensor(input, site), requires_grad(input)});
    }
  }

  std::vector<Tensor> run(std::span<const Tensor> inputs) {
    const HooksRestore restore;
    modes().hooks = this;
    modes().in_segment = true;
    busy_ = true;
    std::vector<Tensor> outputs = segment_(inputs);
    busy_ = false;
    return outputs;
  }

  PackResult pack(const Tensor& tensor, const SaveSite& site) override;
  void left_to_recompute(const Tensor& tensor, const SaveSite& site) override {
    const bool counted = last_ != kNone;  // When the segment ran first.
    if (modes_.hooks != nullptr && !counted) modes_.hooks->left_to_recompute(tensor, site);
  }
  void begin_backward(std::span<PackedTensor* const>) override {}
  void end_backward() noexcept override {}

  Tensor take(std::size_t index) {
    if (!slots_[index].tensor.defined()) recompute();
    Slot& slot = slots_[index];
    const auto now = slot.tensor.storage()->version()->value.load();
    EBB_CHECK(now == slot.version, kFailedPrecondition, "a tensor that ", slot.op,
              " saved for backward was written in place since, in a recompute: it is at "
              "version ",
              now, ", and was saved at version ", slot.version);
    return std::exchange(slot.tensor, {});
  }
  void drop(std::size_t index) noexcept {
    slots_[index].wanted = false;
    slots_[index].tensor = {};
  }
  // A recompute asks hooks for the inputs, once for all slots.
  void add_to(std::size_t index, UseOrder& order) {
    if (slots_[index].tensor.defined() || !order.segments.insert(this).second) return;
    for (const Input& input : inputs_) input.tensor.add_to(order);
  }

 private:
  struct Input {
    SavedTensor tensor;
    bool requires_grad;
  };
  struct Slot {
    const char* op = "";
    tensor::Shape shape;
    DType dtype = DType::kF32;
    bool wanted = true;  // Its node still has it.
    Tensor tensor;       // Once it is made again.
    std::uint64_t version = 0;
    Checksum checksum;  // Of the first run's, if it is one of those that are verified.
  };
  // Puts back where saves go; what else the segment changed is its own affair.
  class HooksRestore {
   public:
    HooksRestore() : hooks_(modes().hooks), in_segment_(modes().in_segment) {}
    ~HooksRestore() {
      modes().hooks = hooks_;
      modes().in_segment = in_segment_;
    }
    HooksRestore(const HooksRestore&) = delete;
    HooksRestore& operator=(const HooksRestore&) = delete;

   private:
    SavedTensorHooks* hooks_;
    bool in_segment_;
  };
  // Puts an exception's half-done recompute back to none.
  class Recomputing {
   public:
    explicit Recomputing(Frame& frame) : frame_(frame) { frame_.busy_ = true; }
    ~Recomputing() {
      frame_.busy_ = false;
      frame_.last_ = kNone;
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

  void recompute();
  PackResult fill_slot(const Tensor& tensor, const SaveSite& site);

  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);

  const Segment segment_;
  const Modes modes_;  // As the first run found them.
  std::vector<Input> inputs_;
  std::vector<Slot> slots_;
  bool busy_ = false;         // The segment runs.
  std::size_t last_ = kNone;  // In a recompute, the last slot that is wanted;
  std::size_t next_ = 0;      // and the one that the next save fills.
};

class Placeholder final : public RemadeTensor {
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

PackResult Frame::pack(const Tensor& tensor, const SaveSite& site) {
  if (last_ != kNone) return fill_slot(tensor, site);
  slots_.push_back({site.op, tensor.shape(), tensor.dtype(), true, {}, 0, {}});
  slots_.back().checksum = checksum_if_due(tensor);
  left_to_recompute(tensor, site);
  return std::make_unique<Placeholder>(shared_from_this(), slots_.size() - 1);
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
    slot.version = tensor.storage()->version()->value.load();
  }
  if (index == last_) throw Stop();
  return std::make_unique<Discarded>();
}

void Frame::recompute() {
  EBB_CHECK(!busy_, kFailedPrecondition,
            "backward inside of a checkpointed segment, on what it recorded");
  std::vector<Tensor> inputs;
  for (Input& input : inputs_) {
    Tensor tensor = input.tensor.use(/*keep=*/true);
    if (tensor.defined()) tensor = tensor.alias();
    if (input.requires_grad) make_meta(tensor).requires_grad = true;
    inputs.push_back(std::move(tensor));
  }
  for (Input& input : inputs_) input.tensor.used();

  const ModesScope restore;
  modes() = modes_;
  modes().grad_enabled = true;
  modes().phase = device::Phase::kRecompute;
  modes().hooks = this;
  modes().in_segment = true;
  modes().verify_recompute = 0;
  Recomputing recomputing(*this);
  next_ = 0;
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    if (slots_[i].wanted) last_ = i;
  }
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

}  // namespace

std::vector<Tensor> checkpoint(Segment segment, std::span<const Tensor> inputs) {
  EBB_CHECK(segment != nullptr, kInvalidArgument, "checkpoint: no segment");
  if (!grad_enabled()) return segment(inputs);
  const auto frame = std::make_shared<Frame>(std::move(segment), inputs);
  return frame->run(inputs);
}

}  // namespace ebb::autograd
