// What is behind PinnedPool: its slabs (pinned_pool_reserve.cpp), what is lent of them
// (pinned_pool.cpp), and what there will be room for (pinned_pool_room.cpp).

#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <optional>

#include "absl/synchronization/mutex.h"

#include "allocator/mutex.h"
#include "allocator/pinned_pool.h"
#include "allocator/process_mark.h"
#include "allocator/tlsf.h"

namespace ebb {

class PinnedPool::Impl {
 public:
  using Index = Tlsf::Index;

  Impl(HostMemory& memory, std::size_t limit_bytes);
  ~Impl();

  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  void reserve(std::size_t bytes) ABSL_LOCKS_EXCLUDED(growth_mutex_, mutex_);
  std::size_t most_reserved() const noexcept;
  std::size_t trim() noexcept ABSL_LOCKS_EXCLUDED(mutex_);
  Block allocate(std::size_t bytes, Purpose purpose) ABSL_LOCKS_EXCLUDED(mutex_);
  void give_back(Index chunk, Fence&& last_use) noexcept ABSL_LOCKS_EXCLUDED(mutex_);
  std::optional<Fence> room_for(std::size_t bytes) ABSL_LOCKS_EXCLUDED(mutex_);
  void collect() noexcept ABSL_LOCKS_EXCLUDED(mutex_);
  Stats stats() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  // Memory that one call pinned. A list of them, because splicing cannot fail.
  struct Slab {
    std::byte* data;
    std::size_t bytes;
    Index first;  // None while the slab is not in use.
  };
  using Slabs = std::list<Slab>;
  class Growth;

  // Throws in a child of fork(), before it waits for a lock that nobody there will release.
  void check_process() const;

  // What a request takes, or nothing if it is above the limit.
  std::optional<std::size_t> in_granules(std::size_t bytes) const;

  std::size_t missing(std::size_t bytes) const ABSL_LOCKS_EXCLUDED(mutex_);
  Slabs pin(std::size_t bytes) ABSL_LOCKS_EXCLUDED(mutex_);
  void unpin(const Slabs& slabs) noexcept ABSL_LOCKS_EXCLUDED(mutex_);
  void use(Slabs pinned) ABSL_LOCKS_EXCLUDED(mutex_);

  Fence next_last_use(bool& more) noexcept ABSL_LOCKS_EXCLUDED(mutex_);
  void retire(Index chunk) noexcept ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void unretire(Index chunk) noexcept ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void collect_oldest() noexcept ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void collect_some() noexcept ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void collect_all() noexcept ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void put(Index chunk) noexcept ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  HostMemory& memory_;
  const std::size_t limit_;
  const ProcessMark process_;

  absl::Mutex growth_mutex_;
  bool growing_ ABSL_GUARDED_BY(growth_mutex_) = false;  // A thread is pinning.

  mutable Mutex mutex_;
  Tlsf chunks_ ABSL_GUARDED_BY(mutex_);
  Slabs slabs_ ABSL_GUARDED_BY(mutex_);
  Index oldest_ ABSL_GUARDED_BY(mutex_) = Tlsf::kNone;  // Retired, in the order of release.
  Index newest_ ABSL_GUARDED_BY(mutex_) = Tlsf::kNone;
  // Of those, the one that collect_some() asks next; none: the oldest.
  Index asked_next_ ABSL_GUARDED_BY(mutex_) = Tlsf::kNone;
  std::uint64_t last_retired_ ABSL_GUARDED_BY(mutex_) = 0;
  Stats stats_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace ebb
