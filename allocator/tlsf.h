// Carves memory into chunks by two-level segregated fit.
//
// Masmano et al., "TLSF: a new dynamic memory allocator for real-time systems", ECRTS 2004.
// Sizes fall into classes, 64 to each power of two; two levels of bitmaps find a class that
// has a free chunk in constant time. We differ in three ways: the bookkeeping is apart from
// the memory, which may have none behind it; of the first chunks of a class the smallest
// that fits is taken; and a request that no class is sure to hold looks through its own
// class to the end, so that what fits is always found.
//
// What a search touches is two chunks to a cache line, named by 32-bit numbers, because at
// thousands of chunks the time goes into fetching them.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "allocator/event.h"
#include "allocator/purpose.h"

namespace ebb {

// Not thread-safe.
class Tlsf {
 public:
  static constexpr std::size_t kGranularityBytes = 512;

  // Stays the chunk's until it is put back and joined with a neighbour.
  using Index = std::uint32_t;
  static constexpr Index kNone = std::numeric_limits<Index>::max();

  struct alignas(32) Chunk {
    std::byte* data = nullptr;
    std::uint32_t granules = 0;
    Index before = kNone;  // Its neighbours by address, in the same slab.
    Index after = kNone;
    Index previous = kNone;  // In the list that it is in: its class's while it is free, the
    Index next = kNone;      // user's while it is not.
    enum class State : std::uint8_t { kFree, kTaken, kRetired } state = State::kTaken;

    // For the user, while it is not free, as is kRetired.
    Purpose purpose{};
    std::uint16_t slack_bytes = 0;  // That nobody asked for.

    bool is_free() const noexcept { return state == State::kFree; }
    std::size_t bytes() const noexcept { return granules * kGranularityBytes; }
  };

  // For the user, while a chunk is retired.
  struct Use {
    std::uint64_t order = 0;
    Fence last_use;
  };

  // Adds a slab, and returns its first chunk, which stays its first until remove(). `bytes`
  // is a multiple of the granularity, above 0. Throws Error{kInvalidArgument} at 2 TiB.
  Index add(std::byte* data, std::size_t bytes);

  // Whether nothing of the slab that begins with `first` is taken.
  bool is_whole(Index first) const noexcept {
    return chunks_[first].is_free() && chunks_[first].after == kNone;
  }

  // Takes a whole slab out again.
  void remove(Index first) noexcept;

  // A chunk of `bytes` bytes (a multiple of the granularity, above 0), or kNone if no free
  // chunk is as long. Allocates only if there are more chunks than ever before.
  [[nodiscard]] Index take(std::size_t bytes);

  // Whether take(bytes) would find a chunk.
  bool has(std::size_t bytes) const noexcept;

  // Frees what take() returned, retired or not, and joins it with its free neighbours.
  void put(Index chunk) noexcept;

  // References hold until the next add() or take().
  Chunk& operator[](Index chunk) noexcept { return chunks_[chunk]; }
  const Chunk& operator[](Index chunk) const noexcept { return chunks_[chunk]; }
  Use& use(Index chunk) noexcept { return uses_[chunk]; }
  const Use& use(Index chunk) const noexcept { return uses_[chunk]; }

  // How many chunks there is room to describe: it grows as take() allocates.
  std::size_t made() const noexcept { return chunks_.size(); }

 private:
  static constexpr unsigned kSecondBits = 6;
  static constexpr unsigned kSeconds = 1U << kSecondBits;
  static constexpr unsigned kFirsts = 32 - kSecondBits + 1;

  struct Class {
    unsigned first;
    unsigned second;
  };
  static Class class_of(std::uint32_t granules) noexcept;

  Index find(std::uint32_t granules) const noexcept;
  Index smallest(Index chunk, std::uint32_t granules, std::size_t at_most) const noexcept;
  Index first_above(Class size) const noexcept;
  void insert(Index chunk) noexcept;
  void erase(Index chunk) noexcept;
  void absorb_next(Index chunk) noexcept;

  // How many chunks a slab may be cut into before take() has to allocate.
  static std::size_t planned(std::size_t slab_bytes) noexcept;
  void make_spare(std::size_t chunks);
  Index make() noexcept;
  void drop(Index chunk) noexcept;

  std::uint64_t firsts_ = 0;                      // Which rows of classes_ have a chunk.
  std::array<std::uint64_t, kFirsts> seconds_{};  // Which classes of a row.
  std::array<std::array<Index, kSeconds>, kFirsts> classes_{};  // Of those only.

  std::vector<Chunk> chunks_;
  std::vector<Use> uses_;    // As many as chunks_.
  Index spare_ = kNone;      // Chunks that are not used, linked by next.
  std::size_t planned_ = 0;  // For all slabs that are there.
};

}  // namespace ebb
