// Lends pinned host memory in exact sizes, and takes it back while copies still use it.
//
// A few large slabs are pinned ahead, at step borders; inside a step the pool only carves
// them: two-level segregated fit (Masmano et al., "TLSF", ECRTS 2004), sizes rounded to 512
// bytes, neighbours coalesced, best fit in constant time. A block is given back with a
// fence, and is lent again only when that fence is done. The pool neither waits nor
// retries: when there is no room it says so, and its caller decides what to wait for.

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "allocator/event.h"
#include "allocator/host_memory.h"
#include "allocator/purpose.h"

namespace ebb {

// Thread-safe. Outlives every block it lends; `memory` outlives the pool.
//
// It asks fences whether they are done while it holds its lock, so that whoever sees in
// stats() that no block waits may destroy the sources of their events. allocate() asks two
// at most, release() seven; room_for(), collect(), trim() and an allocate() that finds no
// room ask those of all blocks that wait. A source's reached() must not use the pool.
class PinnedPool {
 public:
  static constexpr std::size_t kGranularityBytes = 512;

  class Block;

  struct Stats {
    std::size_t limit_bytes = 0;
    std::size_t pinned_bytes = 0;          // In slabs.
    std::size_t lent_bytes = 0;            // In blocks that callers hold, rounded.
    std::size_t retired_bytes = 0;         // Given back, and waiting for a fence.
    std::size_t requested_bytes = 0;       // As asked for, lent or retired.
    std::size_t peak_requested_bytes = 0;  // Highest requested_bytes.
    std::size_t peak_taken_bytes = 0;      // Highest lent_bytes + retired_bytes.
    BytesByPurpose requested_by_purpose;
    BytesByPurpose peak_by_purpose;
    std::size_t pin_calls = 0;
    std::size_t slabs = 0;
  };

  // Never pins more than `limit_bytes`.
  PinnedPool(HostMemory& memory, std::size_t limit_bytes);
  ~PinnedPool();  // Waits for every fence.

  PinnedPool(const PinnedPool&) = delete;
  PinnedPool& operator=(const PinnedPool&) = delete;

  // Pins until the slabs hold at least `bytes` (rounded up to the 4 KiB page). Call it at a
  // step border: meanwhile blocks are lent and given back, but other calls of it wait.
  // Throws Error{kResourceExhausted}, naming the limit, if that is more than the cap or the
  // machine has; the pool is then as it was.
  void reserve(std::size_t bytes);
  // The most that can be reserved: the whole pages of the cap.
  std::size_t most_reserved() const noexcept;

  // Unpins slabs without a block in them, and returns how many bytes that was.
  std::size_t trim() noexcept;

  // Lends a block, or an empty one if no slab has room once what is done has been taken
  // back. A request for 0 bytes takes one granule.
  [[nodiscard]] Block allocate(std::size_t bytes, Purpose purpose = Purpose::kActivations);

  // Whether waiting makes room for `bytes`: the fence after which allocate(bytes) succeeds
  // unless other blocks are lent meanwhile, or nothing if what is lent leaves no such room
  // however long one waits. Neighbours that are free or wait count as one. Of several rooms
  // it is the one that was complete first, in the order of release. Takes back what is
  // done; an empty fence says that there is room now. Time linear in the pool's blocks.
  [[nodiscard]] std::optional<Fence> room_for(std::size_t bytes);

  // Takes back the blocks whose fence is done.
  void collect() noexcept;

  Stats stats() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

// One block on loan, or none. Move-only; gives itself back when destroyed.
class PinnedPool::Block {
 public:
  Block() = default;
  Block(Block&& other) noexcept { swap(other); }
  Block& operator=(Block&& other) noexcept {
    swap(other);
    return *this;
  }
  ~Block() { release({}); }

  explicit operator bool() const noexcept { return pool_ != nullptr; }
  std::byte* data() const noexcept { return data_; }
  std::size_t size() const noexcept { return bytes_; }  // As asked for.

  // Gives the block back now. Work in flight may use it until `last_use` is done.
  void release(Fence last_use) noexcept;

 private:
  friend class PinnedPool;

  Block(Impl& pool, std::uint32_t chunk, std::byte* data, std::size_t bytes) noexcept
      : pool_(&pool), data_(data), bytes_(bytes), chunk_(chunk) {}
  void swap(Block& other) noexcept {
    std::swap(pool_, other.pool_);
    std::swap(chunk_, other.chunk_);
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
  }

  Impl* pool_ = nullptr;
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
  std::uint32_t chunk_ = 0;
};

}  // namespace ebb
