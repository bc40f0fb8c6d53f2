// The addresses of an arena as adjacent regions, lent or free.
//
// Mechanism only: who gets which region is the arena's to choose. A free region keeps the
// fence of the work that may still use it. A maximal row of adjacent free regions is a
// hole; holes are indexed by size. Neighbours in a hole are merged where that loses
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
    Index older = kNone;  // The free regions that have a fence, by age.
    Index newer = kNone;
    bool queued = false;
    std::size_t hole_bytes = 0;  // Of the first region of a hole.
    Index hole_last = kNone;     // Of the first region of a hole.
    Index hole_first = kNone;    // Of the last region of a hole.
  };

  struct Hole {
    std::size_t bytes;
    std::size_t offset;
    Index first;

    friend bool operator<(const Hole& a, const Hole& b) {
      return a.bytes != b.bytes ? a.bytes < b.bytes : a.offset < b.offset;
    }
  };

  const Region& operator[](Index region) const { return regions_[region]; }

  std::size_t end() const noexcept { return end_; }  // The high-water mark.
  Index tail() const noexcept { return tail_; }      // The region that ends there, if any.

  // Smallest first, then lowest first. Valid until the next change.
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
  void add_hole(Index first, Index last, std::size_t bytes) noexcept;
  void remove_hole(Index first) noexcept;
  void join_hole(Index region) noexcept;

  std::vector<Region> regions_;
  std::vector<Index> spare_;  // The unused ones of regions_.
  std::vector<Hole> holes_;   // Sorted. Its capacity is that of regions_.
  std::size_t end_ = 0;
  Index tail_ = kNone;
  Index oldest_ = kNone;
  Index newest_ = kNone;
  std::uint64_t frees_ = 0;
};

}  // namespace ebb
