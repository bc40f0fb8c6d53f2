// One checkpointed segment of one graph: the hooks while it runs.
//
// Each save of the segment has a number. Those that are not saved are slots of the frame:
// the first one that backward asks for runs the segment again, its n-th save fills slot n,
// and after the last one that is still wanted an exception ends the run. The nodes of the
// second run are thrown away. A frame lives as long as a node has a slot.
//
// Always: every save is a slot, and the inputs are saved first. As needed: saves go on to
// the hooks around, and those that they leave to a recompute are slots; the inputs are
// saved with the first of these.

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "runtime/autograd/autograd.h"
#include "runtime/autograd/checkpoint/recompute_check.h"
#include "runtime/autograd/modes.h"
#include "runtime/autograd/saved_tensor.h"
#include "runtime/tensor/saved_version.h"

namespace ebb::autograd {

class Frame final : public SavedTensorHooks, public std::enable_shared_from_this<Frame> {
 public:
  // Takes the modes of the calling thread as those of the segment.
  Frame(Segment segment, std::span<const Tensor> inputs, Recompute recompute);

  // Whether a segment that is to be recomputed as needed is a frame of its own here. Not
  // where nobody would leave it anything, nor where what it saves is dropped anyway: it
  // then runs as if it were no segment.
  static bool of_use() noexcept;

  // The first run; once.
  std::vector<Tensor> run(std::span<const Tensor> inputs);

  PackResult pack(const Tensor& tensor, const SaveSite& site) override;
  void left_to_recompute(const Tensor& tensor, const SaveSite& site) override;
  void begin_backward(std::span<PackedTensor* const>) override {}
  void end_backward() noexcept override {}

 private:
  class Placeholder;
  class Recomputing;
  struct Input {
    SavedTensor tensor;
    bool requires_grad;
  };
  struct Slot {
    const char* op = "";
    std::int32_t stage = -1;
    tensor::Shape shape;
    DType dtype = DType::kF32;
    bool wanted = false;  // A node waits for it.
    Tensor tensor;        // Once it is made again.
    tensor::SavedVersion version;
  };

  // The hooks around all frames, which take the inputs of a segment as needed: an outer
  // segment cannot count on when they are saved.
  SavedTensorHooks* base() const noexcept;
  static std::uint64_t version_of(const Tensor& tensor);
  PackResult pass_on(const Tensor& tensor, const SaveSite& site);
  PackResult fill_slot(const Tensor& tensor, const SaveSite& site);
  std::unique_ptr<PackedTensor> placeholder();  // Of the last slot.
  void save_inputs(std::span<const Tensor> inputs, SavedTensorHooks* hooks);
  void check_inputs(std::span<const Tensor> inputs) const;
  // Whether a recompute would make the tensor, and from less than itself.
  bool can_make_again(const Tensor& tensor) const;

  // What a Placeholder asks.
  Tensor take(std::size_t index);
  void drop(std::size_t index) noexcept;
  void add_to(std::size_t index, UseOrder& order);

  void recompute();
  std::vector<Tensor> inputs_again();

  const Segment segment_;
  const Recompute kind_;
  const Modes modes_;                            // As the first run found them.
  const std::unique_ptr<RecomputeCheck> check_;  // Null: nobody wants one of it.
  std::vector<Input> inputs_;
  std::vector<Slot> slots_;

  bool running_ = false;      // The segment runs, for the first time
  bool recomputing_ = false;  // or again.
  // In the first run, its inputs and their versions;
  std::span<const Tensor> first_inputs_;
  std::vector<std::uint64_t> first_versions_;
  // in a recompute, the last slot that is wanted, and the one that the next save fills.
  std::size_t last_ = 0;
  std::size_t next_ = 0;
};

}  // namespace ebb::autograd
