// The forward and backward of a random tape, as ops and saved tensors.

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "offload/engine/engine.h"
#include "runtime/tensor/launch.h"
#include "tests/support/random_tape.h"

namespace ebb::test {

// `device` and `engine` outlive it.
class TapePass {
 public:
  TapePass(const Tape& tape, device::Device& device, offload::Engine& engine)
      : tape_(&tape), device_(device), engine_(engine) {}

  // Between passes.
  void replace(const Tape& tape) { tape_ = &tape; }

  // Makes and saves every block; `seed` says what is in them.
  void forward(std::uint64_t seed) {
    slots_.clear();
    slots_.resize(tape_->stages.size());
    alive_.assign(tape_->blocks.size(), {});
    for (std::size_t s = 0; s < tape_->stages.size(); ++s) forward_stage(s, seed);
    alive_.clear();
  }

  // Uses them, and looks at each.
  void backward(std::uint64_t seed) {
    engine_.begin_backward(announced(seed));
    in_backward_ = true;
    Tensor gradient;
    for (std::size_t s = tape_->stages.size(); s-- > 0;) {
      gradient = backward_stage(s, seed, gradient);
    }
    abandon();
  }

  // Lets go of everything, wherever it is in its passes.
  void abandon() {
    if (std::exchange(in_backward_, false)) engine_.end_backward();
    slots_.clear();
    alive_.clear();
  }

  std::size_t wrong_words() const { return wrong_words_; }

 private:
  // What a stage saved: in the engine's hands, or kept.
  struct Slot {
    std::unique_ptr<autograd::PackedTensor> packed;
    Tensor kept;
  };

  // The words of a block: they count up from a number of its own.
  struct Words {
    Words(const Tensor& tensor, std::size_t block)
        : at(static_cast<std::uint32_t*>(tensor.data())),
          count(static_cast<std::size_t>(tensor.elements())),
          number(block) {}

    std::uint32_t word(std::uint64_t seed, std::size_t i) const {
      return static_cast<std::uint32_t>(seed * 0x9E3779B9U + number * 0x85EBCA6BU + i);
    }
    void fill(std::uint64_t seed) const {
      for (std::size_t i = 0; i < count; ++i) at[i] = word(seed, i);
    }
    std::size_t wrong(std::uint64_t seed) const {
      std::size_t sum = 0;
      for (std::size_t i = 0; i < count; ++i) sum += at[i] != word(seed, i);
      return sum;
    }

    std::uint32_t* at;
    std::size_t count;
    std::size_t number;
  };

  Tensor transient(std::size_t bytes) {
    return Tensor::empty(device_, {static_cast<std::int64_t>(bytes)}, DType::kU8);
  }
  static device::OpInfo info(const char* name, double seconds, device::Phase phase) {
    device::OpInfo result;
    result.name = name;
    result.work.flops = seconds * kTapeFlopsPerSecond;
    result.phase = phase;
    return result;
  }

  void forward_stage(std::size_t s, std::uint64_t seed) {
    const TapeStage& stage = tape_->stages[s];
    std::vector<Tensor> writes;
    std::vector<Words> made;
    for (const std::size_t block : stage.makes) {
      const auto words = static_cast<std::int64_t>(tape_->blocks[block].bytes / 4);
      writes.push_back(Tensor::empty(device_, {words}, DType::kI32));
      made.emplace_back(writes.back(), block);
      alive_[block] = writes.back();
    }
    writes.push_back(transient(stage.workspace_bytes));
    std::vector<Tensor> reads;
    if (s > 0) reads.push_back(alive_[tape_->stages[s - 1].makes.front()]);
    tensor::launch(info("tape.forward", stage.forward_seconds, device::Phase::kForward),
                   reads, writes, [made = std::move(made), seed](void*) {
                     for (const Words& words : made) words.fill(seed);
                   });
    for (const TapeSave& save : stage.saves) {
      const Tensor& tensor = alive_[save.block];
      Slot slot;
      slot.packed = engine_
                        .pack(tensor, {autograd::SaveSite::Kind::kSavedTensor,
                                       "tape.backward", static_cast<std::int32_t>(s)})
                        .packed;
      if (slot.packed == nullptr) slot.kept = tensor;
      slots_[s].push_back(std::move(slot));
    }
    drop_dead(s);
  }

  // A block lives for the next stage, and for those that will save it again.
  void drop_dead(std::size_t stage) {
    for (std::size_t block = 0; block < alive_.size(); ++block) {
      const bool read_next = tape_->stages[stage].makes.front() == block;
      if (tape_->blocks[block].saved_at.back() <= stage && !read_next) alive_[block] = {};
    }
  }

  std::vector<autograd::PackedTensor*> announced(std::uint64_t seed) const {
    std::vector<autograd::PackedTensor*> order;
    for (std::size_t s = tape_->stages.size(); s-- > 0;) {
      const std::vector<TapeSave>& saves = tape_->stages[s].saves;
      for (std::size_t i = saves.size(); i-- > 0;) {
        if (saves[i].used && slots_[s][i].packed)
          order.push_back(slots_[s][i].packed.get());
      }
    }
    Draw draw(tape_->seed * 31 + (tape_->swaps_change ? seed : 0));
    for (std::size_t i = 0; i < tape_->swaps && order.size() > 2; ++i) {
      const std::size_t at = draw.below(order.size() - 1);
      std::swap(order[at], order[std::min(order.size() - 1, at + 1 + draw.below(4))]);
    }
    return order;
  }

  // Returns the gradient that it made for the stage before.
  Tensor backward_stage(std::size_t s, std::uint64_t seed, const Tensor& gradient) {
    const TapeStage& stage = tape_->stages[s];
    std::vector<Tensor> reads;
    std::vector<Words> used;
    for (std::size_t i = stage.saves.size(); i-- > 0;) {
      if (!stage.saves[i].used) continue;
      const Slot& slot = slots_[s][i];
      reads.push_back(slot.packed ? slot.packed->unpack() : slot.kept);
      used.emplace_back(reads.back(), stage.saves[i].block);
    }
    slots_[s].clear();
    if (gradient.defined()) reads.push_back(gradient);
    std::vector<Tensor> writes{transient(stage.workspace_bytes)};
    Tensor made;
    if (stage.gradient_bytes > 0) {
      made = transient(stage.gradient_bytes);
      writes.push_back(made);
    }
    tensor::launch(info("tape.backward", stage.backward_seconds, device::Phase::kBackward),
                   reads, writes, [this, used = std::move(used), seed](void*) {
                     for (const Words& words : used) wrong_words_ += words.wrong(seed);
                   });
    return made;
  }

  const Tape* tape_;
  device::Device& device_;
  offload::Engine& engine_;
  std::vector<std::vector<Slot>> slots_;  // By stage, and save.
  std::vector<Tensor> alive_;             // By block.
  bool in_backward_ = false;
  std::size_t wrong_words_ = 0;
};

}  // namespace ebb::test
