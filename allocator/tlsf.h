// Carves memory into chunks by two-level segregated fit.
//
// Masmano et al., "TLSF: a new dynamic memory allocator for real-time systems", ECRTS 2004.
// Sizes fall into classes, 32 to each power of two; two levels of bitmaps find a class that
// has a free chunk in constant time. We differ in three ways: the bookkeeping is apart from
// the memory, which may have none behind it; of the first chunks of a class the smallest
// that fits is taken; and a request that no class is sure to hold looks through its own
// class to the end, so that what fits is always found.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "allocator/event.h"
#include "allocator/purpose.h"

namespace ebb {

// Not thread-safe.
class Tlsf {
 public:
  static constexpr std::size_t kGranularityBytes = 512;

  struct alignas(64) Chunk {
    std::byte* data = nullptr;
    std::size_t bytes = 0;
    Chunk* before = nullptr;  // Its neighbours by address, in the same slab.
    Chunk* after = nullptr;
    Chunk* previous = nullptr;  // In the list that it is in: its class's while it is free,
    Chunk* next = nullptr;      // the user's while it is not.
    bool free = false;

    // For the user, while it is not free.
    Purpose purpose{};
    std::size_t requested_bytes = 0;
    Fence last_use;
    std::uint64_t retired = 0;  // Rises with each one that waits for its fence; 0: lent.
  };

  // Adds a slab, and returns its first chunk, which stays its first until remove(). `bytes`
  // is a multiple of the granularity, above 0.
  Chunk* add(std::byte* data, std::size_t bytes);

  // Whether nothing of the slab that begins with `first` is taken.
  static bool is_whole(const Chunk& first) noexcept {
    return first.free && first.after == nullptr;
  }

  // Whether take(bytes) would find a chunk.
  bool has(std::size_t bytes) const noexcept { return find(bytes) != nullptr; }

  // Takes a whole slab out again.
  void remove(Chunk* first) noexcept;

  // A chunk of `bytes` bytes (a multiple of the granularity, above 0), or null if no free
  // chunk is as long. Allocates only if there are more chunks than ever before.
  [[nodiscard]] Chunk* take(std::size_t bytes);

  // Frees what take() returned, and joins it with its free neighbours.
  void put(Chunk* chunk) noexcept;

  // How many chunks there is room to describe: it grows as take() allocates.
  std::size_t made() const noexcept { return made_; }

 private:
  static constexpr unsigned kSecondBits = 5;
  static constexpr unsigned kSeconds = 1U << kSecondBits;
  static constexpr unsigned kFirsts = 64 - kSecondBits;

  struct Class {
    unsigned first;
    unsigned second;
  };
  static Class class_of(std::size_t bytes) noexcept;

  Chunk* find(std::size_t bytes) const noexcept;
  Chunk* first_above(Class size) const noexcept;
  void insert(Chunk* chunk) noexcept;
  void erase(Chunk* chunk) noexcept;

  void make_spare(std::size_t chunks);
  Chunk* make() noexcept;
  void drop(Chunk* chunk) noexcept;

  std::uint64_t firsts_ = 0;                      // Which rows of classes_ have a chunk.
  std::array<std::uint32_t, kFirsts> seconds_{};  // Which classes of a row.
  std::array<std::array<Chunk*, kSeconds>, kFirsts> classes_{};

  std::vector<std::vector<Chunk>> chunks_;  // None of them moves.
  std::size_t made_ = 0;                    // Chunks in chunks_.
  Chunk* spare_ = nullptr;                  // The unused ones, linked by next.
};

}  // namespace ebb
