// The blocks by the storages that their bytes lie in.

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/container/inlined_vector.h"

#include "offload/engine/block.h"

namespace ebb::offload {

// Owns the blocks. A storage's bytes are found by its number and version, whether they were
// sent from there or fetched to it: in either case no byte belongs to two blocks.
class BlockMap {
 public:
  struct Match {
    Block* block = nullptr;
    Span span;                    // What it has, in the storage that was asked for,
    std::size_t block_begin = 0;  // and where that is in its own.
    bool original = false;        // Those two are one.
  };
  using Matches = absl::InlinedVector<Match, 1>;

  // The blocks with any of the bytes, by where they begin.
  Matches find(std::uint64_t storage, std::uint64_t version, const Span& span) const;

  // A block over `span` of `storage` as it is, in the store as `pieces`; with whatever
  // `parts` (blocks of that storage that overlap it, each on no other device memory than
  // that, if on any) have become one with it. If it throws, for want of memory, all is as
  // before; but Abseil's tables cannot bear that while they grow.
  Block& join(const tensor::StorageRef& storage, const Span& span, Pieces pieces,
              const Matches& parts);

  // `block` was fetched: `block.device` has its bytes too.
  void add_copy(Block& block);

  void erase(Block& block) noexcept;

  std::size_t size() const noexcept { return blocks_.size(); }

 private:
  using Key = std::pair<std::uint64_t, std::uint64_t>;  // Storage, version.

  // Where a place comes, or is, among a storage's entries.
  static Matches::iterator position(Matches& entries, std::size_t begin) noexcept;
  void insert(const Place& place, Block& block, bool original);
  void remove(const Place& place) noexcept;
  // The place is one of `block` from now on.
  void hand_over(const Place& place, Block& block) noexcept;

  absl::flat_hash_set<std::unique_ptr<Block>> blocks_;
  absl::flat_hash_map<Key, Matches> entries_;  // Disjoint, by begin.
};

}  // namespace ebb::offload
