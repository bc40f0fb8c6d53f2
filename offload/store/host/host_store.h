// Pinned host memory as a store.

#pragma once

#include <cstddef>
#include <deque>
#include <memory>

#include "allocator/pinned_pool.h"
#include "offload/store/store.h"

namespace ebb::offload {

// `link` and `pool` outlive the store.
class HostStore final : public Store {
 public:
  HostStore(transfer::Link& link, PinnedPool& pool) : link_(link), pool_(pool) {}

  std::unique_ptr<StoredBlock> put(std::uintptr_t device, std::size_t bytes,
                                   const Fence& after) override;
  Fence fence_before_put() override;
  std::optional<Fence> next_room(std::size_t bytes) override;
  bool grow(std::size_t bytes) override;
  std::string fullness() const override;

 private:
  class Block;
  // A block that was given back.
  struct Left {
    std::size_t bytes = 0;
    Event end;  // Of its last copy.
  };

  void given_back(std::size_t bytes, const Event& end) noexcept;
  void forget_ended() noexcept;  // In order.
  void forget_ended_out_of_order() noexcept;
  std::size_t most_left_bytes() const noexcept;

  transfer::Link& link_;
  PinnedPool& pool_;
  std::size_t lent_bytes_ = 0;     // In blocks,
  std::size_t most_bytes_ = 0;     // and at most so far.
  std::size_t largest_bytes_ = 0;  // Of a block.
  // Those whose copies may not have ended, in the order of give-back. Fetches end about so.
  std::deque<Left> left_;
  std::size_t left_bytes_ = 0;
};

}  // namespace ebb::offload
