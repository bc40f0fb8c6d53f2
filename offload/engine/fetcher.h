// Brings blocks back: device memory for them, and the copy into it.
//
// Device memory comes with events to wait for. They are waited for on a stream of their
// own, the gate, which then signals a timeline that the copy waits for. On the copy stream
// itself they would stand in front of the later chunks of earlier copies, which compute may
// be waiting for: a deadlock.

#pragma once

#include <cstddef>
#include <cstdint>

#include "offload/engine/block.h"
#include "runtime/device/device.h"
#include "runtime/device/owned.h"

namespace ebb::offload {

// One thread at a time. `device` outlives the fetcher.
class Fetcher {
 public:
  explicit Fetcher(device::Device& device);

  // Queues the copy of `block` to new device memory, taken when compute gets to `point`.
  // False if there is no memory for it.
  bool prefetch(Block& block, const Event& point);
  // The same, before all prefetches. Throws Error{kResourceExhausted}.
  void fetch_now(Block& block, const Event& point);

  // What the last prefetch waited for before it could begin.
  const Event& prefetch_opened() const noexcept { return bulk_opened_; }

 private:
  // The block's bytes come back at the same offset modulo this: results may depend on it.
  static constexpr std::size_t kAlignmentBytes = 512;

  static std::size_t padding(const Block& block) noexcept {
    return block.span.begin % kAlignmentBytes;
  }
  void wait_for(const Event& point);
  // What a copy to memory taken just now has to wait for.
  Fence opened();
  void copy(Block& block, tensor::StorageRef memory, const Fence& after,
            transfer::Priority priority);

  device::Device& device_;
  device::OwnedStream gate_;
  device::OwnedTimeline opened_;
  Event bulk_opened_;  // Where the gate was when it last let a prefetch through.
};

}  // namespace ebb::offload
