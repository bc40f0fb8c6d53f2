// Where blocks go when they leave the device.
//
// A store knows bytes, addresses and fences; it has never heard of a tensor. Stores can
// wrap each other (a codec in front of a disk).

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "allocator/event.h"
#include "runtime/transfer/transfer_queue.h"

namespace ebb::offload {

// What the link's copies of blocks are called in the records of a run: by these names the
// report finds what the link did for the engine.
inline constexpr const char* kPutOp = "offload.d2h";
inline constexpr const char* kFetchOp = "offload.h2d";

// A block in a store. When it is destroyed, its room is given back with the fence of the
// copies that still use it.
class StoredBlock {
 public:
  virtual ~StoredBlock() = default;

  // The end of the copy into the store: until then it reads the device memory it came from.
  virtual Event stored() const noexcept = 0;

  // Queues a copy to device memory at `device`, which begins after `after` and after
  // stored(). The event is its end. May be called again.
  virtual Event fetch(std::uintptr_t device, const Fence& after,
                      transfer::Priority priority) = 0;
};

// One thread at a time. Outlives its blocks.
class Store {
 public:
  virtual ~Store() = default;

  // Queues a copy of `bytes` bytes of device memory into the store, beginning after
  // `after`. Null if there is no room now.
  [[nodiscard]] virtual std::unique_ptr<StoredBlock> put(std::uintptr_t device,
                                                         std::size_t bytes,
                                                         const Fence& after) = 0;

  // What the host should wait for before the next put(); an empty fence: nothing. So that a
  // host that runs ahead of the device does not take fresh memory for each micro-batch: it
  // waits while copies still use about as much of what was given back as was ever needed at
  // once. What ends out of order may count for a while. Work that the compute stream has
  // been given must not wait for what only this thread submits later: neither wait would
  // end.
  virtual Fence fence_before_put() = 0;

  // What to wait for until put() has room for `bytes`: what was given back and is still in
  // use; an empty fence if there is room now. None if no wait makes room of that size.
  virtual std::optional<Fence> next_room(std::size_t bytes) = 0;

  // Makes room for `bytes` more bytes than there is now, as far as the store's cap lets it.
  // May take long: for step borders. False if that is less.
  virtual bool grow(std::size_t bytes) = 0;

  // What it is, how full, and what would make it larger: a half-sentence for messages.
  virtual std::string fullness() const = 0;
};

}  // namespace ebb::offload
