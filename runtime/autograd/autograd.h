// The tape: gradients, modes, hooks.
//
// A graph is recorded as ops run, one node an op, and belongs to the tensors that were
// made. Backward walks the nodes in the reverse order of their making, so gradients are
// always added in the same order. Modes and hooks are those of the calling thread, and are
// set by scopes.

#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "kernels/dtype.h"
#include "kernels/philox.h"
#include "runtime/autograd/saved_tensor_hooks.h"
#include "runtime/device/stream.h"
#include "runtime/tensor/tensor.h"

namespace ebb::autograd {

bool requires_grad(const Tensor& tensor) noexcept;
// Of a leaf. Error{kFailedPrecondition} for a tensor that an op made.
void set_requires_grad(const Tensor& leaf, bool on);
// The gradient that backward() has added to a leaf; undefined before. Its storage's purpose
// is kGradients. After create_graph it is part of a graph that holds the leaf: let go of it
// with set_gradient(leaf, {}).
Tensor gradient(const Tensor& leaf);
// Gives a leaf its gradient buffer (a parameter's is kept from step to step), or none.
void set_gradient(const Tensor& leaf, Tensor gradient);
// The next backward() that reaches the leaf overwrites its gradient instead of adding to
// it: no pass to set it to zero. One that does not reach it leaves it as it is.
void overwrite_gradient(const Tensor& leaf);
// The same values outside of the graph.
Tensor detach(const Tensor& tensor);

struct BackwardOptions {
  Tensor gradient = {};       // Of the output; none: 1, for an output of one element.
  bool retain_graph = false;  // Else the saved tensors are given up as they are used.
  bool create_graph = false;  // Gradients can be differentiated; an op that cannot raises
                              // Error{kInvalidArgument} by name.
};
// Adds the gradients of `output` to the leaves below it. Error{kFailedPrecondition} for a
// graph given up already.
void backward(const Tensor& output, const BackwardOptions& options = {});
// The gradients of `output` with respect to `inputs` (leaves or not); the leaves get
// nothing.
std::vector<Tensor> gradients(const Tensor& output, std::span<const Tensor> inputs,
                              const BackwardOptions& options = {});

// --- scopes, of the calling thread ---

class NoGrad {
 public:
  NoGrad();
  ~NoGrad();
  NoGrad(const NoGrad&) = delete;
  NoGrad& operator=(const NoGrad&) = delete;

 private:
  bool before_;
};
bool grad_enabled() noexcept;

// What ops save goes through `hooks` (the innermost scope's) while the scope lasts. Null:
// nobody. Inside of a checkpointed segment a scope changes nothing.
class HooksScope {
 public:
  explicit HooksScope(SavedTensorHooks* hooks);
  ~HooksScope();
  HooksScope(const HooksScope&) = delete;
  HooksScope& operator=(const HooksScope&) = delete;

 private:
  SavedTensorHooks* before_;
};

// Training mode of layers that have one (dropout). On at first.
class TrainingScope {
 public:
  explicit TrainingScope(bool on);
  ~TrainingScope();
  TrainingScope(const TrainingScope&) = delete;
  TrainingScope& operator=(const TrainingScope&) = delete;

 private:
  bool before_;
};
bool training() noexcept;

// The dtype that a job's own ops and layers are to compute in; none: that of what they are
// given. Our ops always compute in the dtype of their operands, and cast nothing.
class AutocastScope {
 public:
  explicit AutocastScope(std::optional<DType> dtype);
  ~AutocastScope();
  AutocastScope(const AutocastScope&) = delete;
  AutocastScope& operator=(const AutocastScope&) = delete;

 private:
  std::optional<DType> before_;
};
std::optional<DType> autocast() noexcept;

// The layer that ops belong to, for reports and plans.
class StageScope {
 public:
  explicit StageScope(std::int32_t stage);
  ~StageScope();
  StageScope(const StageScope&) = delete;
  StageScope& operator=(const StageScope&) = delete;

 private:
  std::int32_t before_;
};
std::int32_t stage() noexcept;

// What ops are submitted as: the innermost scope's phase; outside of any, kForward with
// gradients on and kOther without. backward() and recomputes have scopes of their own.
device::Phase phase() noexcept;
class PhaseScope {
 public:
  explicit PhaseScope(device::Phase phase);
  ~PhaseScope();
  PhaseScope(const PhaseScope&) = delete;
  PhaseScope& operator=(const PhaseScope&) = delete;

 private:
  std::optional<device::Phase> before_;
};

// Random numbers: the key of this forward pass. Each random op takes the next `op`, counted
// from key.op; a recompute takes the same ones again.
void set_random(const RandomKey& key) noexcept;
RandomKey next_random() noexcept;

// --- a job's own ops ---

// What an op's forward leaves for its backward. Tensors go through the hooks; input and
// output versions are checked.
class Saved {
 public:
  virtual ~Saved() = default;
  virtual void save(std::span<const Tensor> tensors) = 0;  // In forward, once.
  virtual std::vector<Tensor> saved() const = 0;           // In backward.
  virtual bool needs_gradient(std::size_t input) const = 0;
};

// The graph holds the function until its backward is over, or the graph goes. A function
// that holds what apply() returned holds its graph in turn: backward ends that (not one
// that retains the graph), but a graph without a backward, and what a checkpointed segment
// records when it runs again, would never go. So hold what forward() returns, or nothing.
class Function {
 public:
  virtual ~Function() = default;
  virtual const char* name() const noexcept = 0;  // Static text.
  virtual std::vector<Tensor> forward(Saved& saved, std::span<const Tensor> inputs) = 0;
  // One gradient for each input; undefined where none is needed. `gradients` are
  // contiguous; an undefined one stands for an output that nobody used.
  virtual std::vector<Tensor> backward(Saved& saved, std::span<const Tensor> gradients) = 0;
};
std::vector<Tensor> apply(std::shared_ptr<Function> function,
                          std::span<const Tensor> inputs);

// --- checkpointing (non-reentrant) ---

using Segment = std::function<std::vector<Tensor>(std::span<const Tensor> inputs)>;

enum class Recompute : std::uint8_t {
  // Nothing that the segment saves is kept, but its inputs: they are saved through the
  // hooks, as SaveSite::Kind::kCheckpointInput.
  kAlways,
  // What it saves goes to the hooks as if it were no segment, but they may answer
  // PackResult::remade(). Then, and only then, the inputs are saved as well. Costs nothing
  // where nothing is left to a recompute.
  kAsNeeded,
};

// Runs `segment`, and lets backward run it again, from the inputs, up to the last tensor
// that it needs and that was not saved. Undefined and integer inputs are allowed; segments
// nest. Runs again under the modes of the first run: random numbers, training, autocast,
// stage; what else a segment's result depends on, it must keep as it was. A segment that
// keeps count of its runs asks recomputing(). What a segment records cannot have its
// backward inside of the segment.
std::vector<Tensor> checkpoint(Segment segment, std::span<const Tensor> inputs,
                               Recompute recompute = Recompute::kAlways);
// Whether the calling thread is in a segment that runs again. An op that changes something
// beside its outputs in forward (running statistics, a counter, a cache) leaves it as it is
// when this says so: once is enough.
bool recomputing() noexcept;
// Compares a checksum of every n-th output that an op makes in a recompute, and of every
// n-th input of a segment, by value; 0: none. The first one that differs is thrown by the
// next synchronising call, as Error{kDataLoss} that names op, output and stage. Of the
// calling thread, and of segments that run first from now on.
void set_verify_recompute(int every) noexcept;

}  // namespace ebb::autograd
