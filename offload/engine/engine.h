// The offload engine: sends saved tensors to a store in forward, and brings them back
// before backward needs them.
//
// On save it queues a copy behind the op that made the tensor and lets go of the device
// memory with the copy's fence. At most two of the largest blocks (or rate x t0, if that is
// more) wait for their copies: then compute waits for the oldest. In backward the tape says
// the order of use; at each use the engine queues the copies that have to be under way by
// the next one, and one block more, within the same limit. All of it is decided in the
// order of the host's calls and ordered by streams and events; the host never waits, unless
// the store is full.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

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

// Why a tensor was kept on the device.
enum class Kept : std::uint8_t {
  kPolicy,     // The policy does not mean such tensors.
  kElsewhere,  // It is no activation, or on another device.
  kSmall,      // All of its storage is below the minimum.
  kInUse,      // It would extend a block that backward is using.
  kNoRoom,     // The store was full.
};
inline constexpr std::size_t kKeptReasons = 5;

struct Tally {
  std::size_t tensors = 0;
  std::size_t bytes = 0;
};

// A block that was sent away, as the bound needs it.
struct SentBlock {
  std::size_t bytes = 0;
  std::int32_t stage = -1;
  bool used = false;
  Event made;        // The end of the op that made it.
  Event before_use;  // The end of the last op before its first use.
};

// What one direction of the link is planned with. Bytes per second; steps count from 1.
struct LinkPlan {
  double planned = 0;         // By what the device says of itself.
  double measured = 0;        // What plans are made with now; `planned` until replanned.
  std::uint64_t replans = 0;  // How often that changed,
  std::uint64_t step = 0;     // and after which step last.
};

// Bytes and counts since the engine was made. What was saved is the sum of the first four;
// once every graph is over, d2h = h2d + revived + dropped.
struct EngineFigures {
  std::size_t kept_bytes = 0;        // Left to the tape: not eligible, or no room.
  std::size_t offloaded_bytes = 0;   // Blocks sent away, each once.
  std::size_t shared_bytes = 0;      // Saved again while the block was there already.
  std::size_t recomputed_bytes = 0;  // Not saved: checkpointed segments make it again.
  std::array<Tally, kKeptReasons> kept{};    // kept_bytes by reason (see Kept).
  std::size_t largest_small_bytes = 0;       // Of the storages below the minimum.
  std::size_t no_room_bytes = 0;             // Of kept_bytes: the store was full,
  std::size_t no_room_recomputed_bytes = 0;  // and of recomputed_bytes.
  std::uint64_t room_waits = 0;              // How often the host waited for room.

  std::size_t d2h_bytes = 0;
  std::size_t h2d_bytes = 0;        // First fetches.
  std::size_t revived_bytes = 0;    // Needed again while still on the device.
  std::size_t dropped_bytes = 0;    // Never needed again.
  std::size_t refetched_bytes = 0;  // Fetches after the first.
  std::size_t blocks = 0;           // That were sent.

  std::uint64_t hits = 0;    // There at their use.
  std::uint64_t late = 0;    // In flight at their use.
  std::uint64_t missed = 0;  // Not submitted before their use.

  LinkPlan d2h_plan;  // Does the link do what the device says? (See link_watch.h.)
  LinkPlan h2d_plan;
};

// What the engine keeps books of now. Once every graph is gone and end_step() is called,
// all but `learned` is 0.
struct EngineBooks {
  std::size_t blocks = 0;
  std::size_t waiting_bytes =
      0;                       // Of blocks that hold device memory until their copy ends.
  std::size_t held_bytes = 0;  // On the device, because the store was full.
  std::size_t backwards = 0;   // Under way, or over and not learned from.
  std::size_t learned = 0;     // Orders of use that it remembers: a bounded number.
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
