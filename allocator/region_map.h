// The addresses of an arena as adjacent regions, lent or free.
//
// Mechanism only: who gets which region is the arena's to choose. A free region keeps the
// fence of the work that may still use it. A maximal row of adjacent free regions is a
// hole; holes are listed by address. Neighbours in a hole are merged where that loses
// nothing: both are done, or all their events are of one source, of which the later ticket
// covers both.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "allocator/event.h"

namespace ebb {

// Not thread-safe.
class RegionMap {
 public:
  using Index = std::uint32_t;
  static constexpr Index kNone = ~Index{0};

  struct Region {
    std::size_t offset = 0;
    std::size_t bytes = 0;
    Index before = kNone;  // Its neighbours by address.
    Index after = kNone;
    bool lent = false;
    std::uint64_t freed = 0;  // The higher, the later it was given back.
    // Of a free region: what may still use it. Of a lent one: what might when it was lent.
    Fence last_use;

   private:
    friend class RegionMap;
    Index older_ = kNone;  // The free regions that have a fence, by age.
    Index newer_ = kNone;
    bool queued_ = false;
  };

  struct Hole {
    std::size_t offset;
    std::size_t bytes;
    Index first;
  };

  const Region& operator[](Index region) const { return regions_[region]; }

  std::size_t end() const noexcept { return end_; }  // The high-water mark.
  Index tail() const noexcept { return tail_; }      // The region that ends there, if any.

  // Lowest first. Valid until the next change.
  std::span<const Hole> holes() const noexcept { return holes_; }

  // Makes sure that the next append() and lend() allocate nothing.
  void prepare();

  // Moves the high-water mark up by a free region without a fence.
  Index append(std::size_t bytes) noexcept;

  // Lends `bytes` bytes from the start of the free region `first`; they end in its hole.
  // `prior` is kept as the last_use of the lent region.
  Index lend(Index first, std::size_t bytes, const Fence& prior) noexcept;

  // An empty `last_use` leaves what the region kept from before it was lent.
  void give_back(Index region, const Fence& last_use) noexcept;

  // Clears the fences of the oldest regions as far as they are done, and merges.
  void settle() noexcept;

 private:
  Index make(std::size_t offset, std::size_t bytes) noexcept;
  void drop(Index region) noexcept;
  void link(Index before, Index region, Index after) noexcept;
  void queue(Index region) noexcept;
  void unqueue(Index region) noexcept;

  bool is_free(Index region) const noexcept {
    return region != kNone && !regions_[region].lent;
  }
  Index merge_around(Index region) noexcept;
  bool merge_with_next(Index region) noexcept;
  void join_hole(Index region) noexcept;
  // The first hole that ends above `offset`.
  std::vector<Hole>::iterator hole_above(std::size_t offset) noexcept;

  std::vector<Region> regions_;
  std::vector<Index> spare_;  // The unused ones of regions_.
  std::vector<Hole> holes_;   // Lowest first. Its capacity is that of regions_.
  std::size_t end_ = 0;
  Index tail_ = kNone;
  Index oldest_ = kNone;
  Index newest_ = kNone;
  std::uint64_t frees_ = 0;
};

}  // namespace ebb
