// The offload engine: sends saved tensors to a store in forward, and brings them back
// before backward needs them.
//
// On save it queues a copy behind the op that made the tensor and lets go of the device
// memory with the copy's fence. At most two of the largest blocks (or rate x t0, if that is
// more) wait for their copies: then compute waits for the oldest. In backward the tape says
// the order of use; at each use the engine queues the copies that have to be under way by
// the next one, and one block more, within the same limit. All of it is decided in the
// order of the host's calls and ordered by streams and events; the host never waits, unless
// the store is full, or it says so (Store::fence_before_put).

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "offload/engine/engine_figures.h"
#include "offload/store/store.h"
#include "runtime/autograd/saved_tensor_hooks.h"
#include "runtime/device/device.h"

namespace ebb::offload {

enum class Policy : std::uint8_t {
  kKeep,    // Counts what is saved, moves nothing.
  kInputs,  // Inputs of checkpointed segments.
  kSaved,   // Every saved tensor, those inputs included.
};

// The size below which a copy is mostly latency: a quarter of rate x t0, in the
// direction where that is more; at least 4 KiB.
std::size_t default_min_offload_bytes(const device::Capability& capability) noexcept;

// When the store is full, the first of these that is possible:
//   1. wait, if something given back to the store leaves room of that size in the end;
//   2. keep the tensor on the device, if its budget allows it. Where it could be made
//      again, what is kept must fit in what no step before took of the device and what was
//      kept then, less what cannot be made again; so nothing such in the first step. Where
//      it could not, as much as it takes has to be free besides;
//   3. leave it to a recompute, where its segment can make it again;
//   4. grow the store in mid-step;
//   5. throw Error{kResourceExhausted, kHostMemory}.
// All of it is counted in what the host holds, on no clock: runs that differ in nothing but
// whether bytes move decide alike.
struct EngineOptions {
  Policy policy = Policy::kSaved;
  std::optional<std::size_t> min_offload_bytes =
      std::nullopt;  // None: default_min_offload_bytes().
  // What the device has for rung 2. None: the limit of its memory.
  std::optional<std::size_t> device_budget_bytes = std::nullopt;
};

// One thread at a time. `device` and `store` outlive the engine and the graphs whose
// tensors it packed; a graph may outlive the engine, and have its backward after it.
class Engine final : public autograd::SavedTensorHooks {
 public:
  Engine(device::Device& device, Store& store, const EngineOptions& options);
  ~Engine() override;

  autograd::PackResult pack(const Tensor& tensor, const autograd::SaveSite& site) override;
  void left_to_recompute(const Tensor& tensor, const autograd::SaveSite& site) override;
  void begin_backward(std::span<autograd::PackedTensor* const> order_of_use) override;
  void end_backward() noexcept override;

  // To be called at the end of each step, with the device synchronised: grows the store by
  // what was missing, and learns from the step how long compute takes between uses.
  void end_step();

  EngineFigures figures() const;
  EngineBooks books() const;
  // The blocks sent since the last call; end_step() forgets those of steps before.
  std::vector<SentBlock> take_sent_blocks();

 private:
  class Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace ebb::offload
