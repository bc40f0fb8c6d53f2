// Frame: what runs again.

#include <cstring>
#include <string>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "allocator/error.h"
#include "runtime/autograd/checkpoint/frame.h"
#include "runtime/autograd/checkpoint/op_text.h"
#include "runtime/autograd/node.h"

namespace ebb::autograd {
namespace {

// Ends a recompute. No std::exception, so that a segment's own handlers let it pass.
struct Stop {};

constexpr const char* kWentOn =
    "the recompute of a segment went on after its last saved tensor: the segment must let "
    "unknown exceptions pass";

// What the nodes of a second run save belongs to the first run's.
class Discarded final : public PackedTensor {
 public:
  Tensor unpack() override {
    throw Error(absl::StatusCode::kFailedPrecondition,
                "backward inside of a checkpointed segment, on what it recorded");
  }
  void used() noexcept override {}
};

std::string described(const char* op, std::int32_t stage, const tensor::Shape& shape,
                      DType dtype) {
  return absl::StrCat(op_text(op, stage), " saves ", name(dtype), " [",
                      absl::StrJoin(shape, ", "), "]");
}

}  // namespace

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

PackResult Frame::fill_slot(const Tensor& tensor, const SaveSite& site) {
  const std::size_t index = next_++;
  EBB_CHECK(index <= last_, kFailedPrecondition, kWentOn);
  Slot& slot = slots_[index];
  const bool same = slot.shape == tensor.shape() && slot.dtype == tensor.dtype() &&
                    slot.stage == site.stage && std::strcmp(slot.op, site.op) == 0;
  EBB_CHECK(same, kFailedPrecondition,
            "a checkpointed segment saved another tensor when it ran again: first ",
            described(slot.op, slot.stage, slot.shape, slot.dtype), ", now ",
            described(site.op, site.stage, tensor.shape(), tensor.dtype()),
            ". A segment must not depend on what changes between its two runs");
  if (slot.wanted && !slot.tensor.defined()) {
    slot.tensor = tensor;
    slot.version = tensor::SavedVersion(tensor);
  }
  if (index == last_) throw Stop();
  return std::make_unique<Discarded>();
}

std::vector<Tensor> Frame::inputs_again() {
  std::vector<Tensor> inputs;
  std::size_t taken = 0;
  const absl::Cleanup over = [&] {  // Of those that came, even if the next one did not.
    for (std::size_t i = 0; i < taken; ++i) inputs_[i].tensor.used();
  };
  for (Input& input : inputs_) {
    Tensor tensor = input.tensor.use(/*keep=*/true);
    ++taken;
    if (tensor.defined()) tensor = tensor.alias();
    if (input.requires_grad) make_meta(tensor).requires_grad = true;
    inputs.push_back(std::move(tensor));
  }
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
  modes().check = check_.get();
  Recomputing recomputing(*this);
  if (check_) check_->begin_again();
  check_inputs(inputs);
  bool stopped = false;
  try {
    segment_(inputs);
  } catch (const Stop&) {
    stopped = true;
  }
  EBB_CHECK(stopped || next_ <= last_, kFailedPrecondition, kWentOn);
  EBB_CHECK(stopped, kFailedPrecondition, "a checkpointed segment saved ", next_,
            " tensors when it ran again, and at least ", last_ + 1,
            " the first time: the "
            "next one missing is where ",
            described(slots_[next_].op, slots_[next_].stage, slots_[next_].shape,
                      slots_[next_].dtype));
  recomputing.done();
}

}  // namespace ebb::autograd
