// Pinned host memory as a store.

#pragma once

#include <cstddef>
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
  std::optional<Fence> next_room(std::size_t bytes) override;
  bool grow(std::size_t bytes) override;
  std::string fullness() const override;

 private:
  class Block;

  transfer::Link& link_;
  PinnedPool& pool_;
};

}  // namespace ebb::offload
