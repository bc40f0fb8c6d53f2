// A small transformer whose graphs are never twice the same.

#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "kernels/philox.h"
#include "runtime/autograd/autograd.h"
#include "runtime/nn/layers.h"
#include "runtime/nn/parameters.h"

namespace ebb::bench {

// Throws where it is told to: what a job's own op might do at any time.
class Trap {
 public:
  enum class Where : std::uint8_t { kNowhere, kForward, kRecompute, kBackward };

  // Thrown on purpose.
  struct Sprung {};

  // The `pass`-th op, from 0, that comes through there springs it.
  void arm(Where where, int pass) {
    where_ = where;
    passes_left_ = pass;
  }
  void disarm() { where_ = Where::kNowhere; }
  bool armed() const { return where_ != Where::kNowhere; }
  void pass(Where where) {
    if (where != where_ || passes_left_-- > 0) return;
    disarm();
    throw Sprung();
  }

 private:
  Where where_ = Where::kNowhere;
  int passes_left_ = 0;
};

// What a forward pass does: the same on every device.
struct SoakGraph {
  struct Stretch {
    std::vector<int> layers;  // In this order; some may be left out, or come twice.
    bool checkpointed = false;
    autograd::Recompute recompute = autograd::Recompute::kAlways;
    bool nested = false;  // Its last layer is a segment within the segment.
  };

  std::int64_t batch = 1;
  std::int64_t seq = 8;
  std::vector<Stretch> stretches;
  bool side_output = false;  // Computes something that no loss depends on.
  bool penalty = false;      // Adds a gradient penalty to the loss.
  RandomKey key;             // Of its tokens and its dropout.

  // How many ops could spring a trap, in forward or backward; and are sure to in
  // recomputes.
  int layers() const;
  int recomputed_layers() const;
};

// On one device. One thread at a time. `device` and `trap` outlive the model; graphs may
// outlive it.
class SoakModel {
 public:
  static constexpr int kLayers = 5;
  static constexpr std::int64_t kMostBatch = 3;
  static constexpr std::int64_t kMostSeq = 32;

  SoakModel(device::Device& device, Trap& trap, std::uint64_t seed);

  const nn::Parameters& parameters() const noexcept { return parameters_; }

  // The loss [1]. Without `segments` nothing is checkpointed.
  Tensor loss(const SoakGraph& graph, bool segments) const;

  void zero_gradients() const;
  // parameter -= rate * gradient.
  void descend(float rate) const;

 private:
  struct Layer {
    nn::Block block;
    Trap* trap = nullptr;
  };

  Tensor run(const SoakGraph::Stretch& stretch, const Tensor& x, bool segment) const;
  Tensor penalty(bool segments) const;
  // Of the batch: what goes in (role 0), what is to come out (1).
  Tensor tokens(const SoakGraph& graph, std::uint64_t role) const;

  const Tensor tokens_;
  nn::Parameters parameters_;
  nn::Embedding embedding_;
  std::shared_ptr<const std::vector<Layer>> layers_;
  nn::LayerNorm norm_;
  Tensor penalized_;
};

}  // namespace ebb::bench
