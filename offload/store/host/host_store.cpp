#include "offload/store/host/host_store.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "allocator/error.h"

namespace ebb::offload {

class HostStore::Block final : public StoredBlock {
 public:
  Block(transfer::Link& link, PinnedPool::Block memory) noexcept
      : link_(link), memory_(std::move(memory)) {}
  ~Block() override {
    if (!fetched_) link_.d2h.cancel(stored_);  // What was never read, nobody will.
    memory_.release(std::move(last_use_));
  }

  void put(std::uintptr_t device, const Fence& after) {
    stored_ = link_.d2h.submit(
        {.name = kPutOp,
         .device = device,
         .host = memory_.data(),
         .bytes = memory_.size(),
         .after = {{{after, {device::StallCause::kHost, "store.put"}}, {}}}});
    last_use_.add(stored_);
  }

  Event stored() const noexcept override { return stored_; }

  Event fetch(std::uintptr_t device, const Fence& after,
              transfer::Priority priority) override {
    const Event end = link_.h2d.submit(
        {.name = kFetchOp,
         .device = device,
         .host = memory_.data(),
         .bytes = memory_.size(),
         .after = {{{after, {device::StallCause::kHost, "store.fetch"}},
                    {Fence(stored_), {device::StallCause::kD2HBacklog, "store.stored"}}}}},
        priority);
    last_use_.add(end);
    fetched_ = true;
    return end;
  }

 private:
  transfer::Link& link_;
  PinnedPool::Block memory_;
  Event stored_;
  bool fetched_ = false;
  Fence last_use_;
};

std::unique_ptr<StoredBlock> HostStore::put(std::uintptr_t device, std::size_t bytes,
                                            const Fence& after) {
  PinnedPool::Block memory = pool_.allocate(bytes);
  if (!memory) return nullptr;
  auto block = std::make_unique<Block>(link_, std::move(memory));
  block->put(device, after);
  return block;
}

std::optional<Fence> HostStore::next_room(std::size_t bytes) {
  return pool_.room_for(bytes);
}

std::string HostStore::fullness() const {
  const PinnedPool::Stats stats = pool_.stats();
  const bool capped = stats.limit_bytes < std::numeric_limits<std::size_t>::max();
  return absl::StrCat(
      "of ", capped ? absl::StrCat(stats.limit_bytes, " bytes of") : "all the machine's",
      " host memory, ", stats.pinned_bytes, " bytes are pinned and ", stats.requested_bytes,
      " in use");
}

bool HostStore::grow(std::size_t bytes) {
  pool_.collect();
  const std::size_t wanted = pool_.stats().pinned_bytes + bytes;
  const std::size_t allowed = std::min(wanted, pool_.most_reserved());
  try {
    pool_.reserve(allowed);
    return allowed == wanted;
  } catch (const Error& error) {
    if (error.code() != absl::StatusCode::kResourceExhausted) throw;
    return false;
  }
}

}  // namespace ebb::offload
