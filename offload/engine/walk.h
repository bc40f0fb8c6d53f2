// One backward: the blocks that it will use, in order, and how far it has got.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "offload/engine/block.h"
#include "offload/engine/lookahead.h"
#include "runtime/device/device.h"

namespace ebb::offload {

// A use as it was: when compute got there, and the end of the fetch that it then waited for
// (a done event if none).
struct Use {
  Event reached;
  Event fetched;
  bool ahead = false;  // It was fetched ahead.
};

// What there is to learn from a backward. By position in the order of use, but for `uses`.
struct WalkRecord {
  std::vector<std::size_t> sizes;  // Of the blocks.
  // From which use on there is room for the block, and those before it, beside what runs.
  std::vector<std::ptrdiff_t> not_before;
  Event began;
  std::vector<Use> uses;  // As they came:
  bool in_order = true;   // in the order that was announced.
};

// One thread at a time.
class Walk {
 public:
  // `id` is never used again. A block that comes twice is listed at its first use.
  Walk(std::uint64_t id, std::span<Block* const> order, const Event& began = {});

  std::uint64_t id() const noexcept { return id_; }
  bool lists(const Block& block) const noexcept { return block.walk == id_; }

  // The use of a listed block has come.
  void ask(Block& block);
  // And that is how it was.
  void note(const Use& use) { record_.uses.push_back(use); }
  // The next block to fetch, or null. fetched() says that it is there, or under way, now.
  Block* next();
  void fetched(Block& block);
  // The block has lost its device memory before its use: it is fetched later.
  void lost(Block& block) noexcept;
  // The same, because what runs after the last use had no room beside it: nor will it have
  // when this backward comes again.
  void gave_up(Block& block) noexcept;
  // Whether what runs from here on has room beside the block and those before it.
  bool has_room(const Block& block) const noexcept {
    return now_ >= record_.not_before[block.position];
  }
  // Whether it has to be under way by the next use, if those before it are (see Lookahead).
  bool wants(const Block& block) const noexcept {
    return lookahead_.wants(now_, block.position);
  }
  // What earlier backwards taught. `not_before` is as long as the order.
  void plan(std::vector<std::ptrdiff_t> not_before) noexcept {
    record_.not_before = std::move(not_before);
  }
  void plan(Lookahead lookahead) noexcept { lookahead_ = std::move(lookahead); }
  // The block is no more.
  void forget(Block& block) noexcept;
  // Of the blocks fetched ahead, the one used last: the first to do without. Null: none.
  Block* farthest_ahead() noexcept;

  // A block that was used, will be again, and is in nobody's hands meanwhile. Null: none.
  Block* idle() noexcept;

  // Bytes on the device, or on their way, before their use.
  std::size_t ahead_bytes() const noexcept { return ahead_bytes_; }
  // The last use asked for in order; -1: none.
  std::ptrdiff_t now() const noexcept { return now_; }

  // Calls visit(block) for each block that is still there and not asked for.
  template <typename Visit>
  void for_each_left(Visit visit) {
    for (Block* block : order_) {
      if (block != nullptr && !block->asked) visit(*block);
    }
  }

  const WalkRecord& record() const noexcept { return record_; }
  // It is over.
  WalkRecord take_record() noexcept { return std::move(record_); }

 private:
  void set_ahead(Block& block, bool ahead) noexcept;

  const std::uint64_t id_;
  WalkRecord record_;
  Lookahead lookahead_;
  std::vector<Block*> order_;
  std::size_t next_ = 0;
  std::ptrdiff_t now_ = -1;
  std::size_t ahead_bytes_ = 0;
};

}  // namespace ebb::offload
