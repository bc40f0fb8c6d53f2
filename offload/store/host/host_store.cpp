#include "offload/store/host/host_store.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <utility>

#include "allocator/error.h"

namespace ebb::offload {
namespace {

// Blocks. What ended out of order, such as what was never fetched, is looked for among the
// oldest only, before the host waits for them.
constexpr std::size_t kMostLookedAt = 16;

}  // namespace

class HostStore::Block final : public StoredBlock {
 public:
  Block(HostStore& store, PinnedPool::Block memory) noexcept
      : store_(store), link_(store.link_), memory_(std::move(memory)) {}
  ~Block() override {
    if (!fetched_) link_.d2h.cancel(stored_);  // What was never read, nobody will.
    const std::size_t bytes = memory_.size();
    memory_.release(std::move(last_use_));
    store_.given_back(bytes, last_copy_);
  }

  void put(std::uintptr_t device, const Fence& after) {
    stored_ = link_.d2h.submit(
        {.name = kPutOp,
         .device = device,
         .host = memory_.data(),
         .bytes = memory_.size(),
         .after = {{{after, {device::StallCause::kHost, "store.put"}}, {}}}});
    last_use_.add(stored_);
    last_copy_ = stored_;
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
    last_copy_ = end;
    fetched_ = true;
    return end;
  }

 private:
  HostStore& store_;
  transfer::Link& link_;
  PinnedPool::Block memory_;
  Event stored_;
  bool fetched_ = false;
  Fence last_use_;
  Event last_copy_;
};

std::unique_ptr<StoredBlock> HostStore::put(std::uintptr_t device, std::size_t bytes,
                                            const Fence& after) {
  forget_ended();
  PinnedPool::Block memory = pool_.allocate(bytes);
  if (!memory) return nullptr;
  auto block = std::make_unique<Block>(*this, std::move(memory));
  lent_bytes_ += bytes;
  most_bytes_ = std::max(most_bytes_, lent_bytes_);
  largest_bytes_ = std::max(largest_bytes_, bytes);
  block->put(device, after);
  return block;
}

void HostStore::given_back(std::size_t bytes, const Event& end) noexcept {
  lent_bytes_ -= bytes;
  try {
    left_.push_back({bytes, end});
    left_bytes_ += bytes;
  } catch (...) {
    // No memory to note it: then nobody waits for it.
  }
}

void HostStore::forget_ended() noexcept {
  while (!left_.empty() && left_.front().end.done()) {
    left_bytes_ -= left_.front().bytes;
    left_.pop_front();
  }
}

void HostStore::forget_ended_out_of_order() noexcept {
  const auto looked_at =
      left_.begin() + static_cast<std::ptrdiff_t>(std::min(left_.size(), kMostLookedAt));
  const auto running = std::remove_if(left_.begin(), looked_at, [this](const Left& left) {
    if (!left.end.done()) return false;
    left_bytes_ -= left.bytes;
    return true;
  });
  left_.erase(running, looked_at);
}

// No more than the most that was lent at once: so the host is ahead by a micro-batch, and
// memory for two is enough. By then the device has as much to do. Where blocks live one at
// a time the host would wait for each of them: so two blocks, or what the link moves while
// a copy starts, are always left to it.
std::size_t HostStore::most_left_bytes() const noexcept {
  return std::max({most_bytes_, 2 * largest_bytes_, link_.d2h.latency_bytes(),
                   link_.h2d.latency_bytes()});
}

Fence HostStore::fence_before_put() {
  forget_ended();
  const std::size_t most = most_left_bytes();
  if (left_bytes_ > most) forget_ended_out_of_order();
  return left_bytes_ > most ? Fence(left_.front().end) : Fence();
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
