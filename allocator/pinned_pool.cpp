#include "allocator/pinned_pool.h"

#include <algorithm>
#include <cassert>
#include <deque>
#include <list>

#include "absl/synchronization/mutex.h"

#include "allocator/error.h"
#include "allocator/tlsf.h"

namespace ebb {
namespace {

static_assert(PinnedPool::kGranularityBytes == Tlsf::kGranularityBytes);

constexpr std::size_t kPageBytes = 4096;
constexpr std::size_t kPieceBytes = std::size_t{64} << 30;  // That one call registers.

std::size_t round_up(std::size_t bytes, std::size_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

std::size_t round_down(std::size_t bytes, std::size_t unit) { return bytes / unit * unit; }

std::size_t in_granules(std::size_t bytes) {
  constexpr std::size_t kUnit = PinnedPool::kGranularityBytes;
  return std::max(round_up(bytes, kUnit), kUnit);
}

// Neighbours that are free, or will be: which of them have room for a block, and were all
// given back the earliest.
class EarliestRoom {
 public:
  using Chunk = Tlsf::Chunk;

  explicit EarliestRoom(std::size_t bytes) : bytes_(bytes) {}

  // Looks through the slab that begins with `chunk`: at each end of a window, at the
  // shortest one that ends there.
  void look_at(const Chunk* chunk) {
    const Chunk* first = nullptr;
    std::size_t sum = 0;
    std::deque<const Chunk*> latest;  // Of the window, each later than those behind it.
    for (; chunk != nullptr; chunk = chunk->after) {
      if (!chunk->free && chunk->retired == 0) {  // Lent.
        first = nullptr;
        sum = 0;
        latest.clear();
        continue;
      }
      if (first == nullptr) first = chunk;
      sum += chunk->bytes;
      while (!latest.empty() && order(*latest.back()) <= order(*chunk)) latest.pop_back();
      latest.push_back(chunk);
      for (; sum - first->bytes >= bytes_; first = first->after) {
        sum -= first->bytes;
        if (latest.front() == first) latest.pop_front();
      }
      if (sum >= bytes_ && (last_ == nullptr || order(*latest.front()) < order_)) {
        order_ = order(*latest.front());
        first_ = first;
        last_ = chunk;
      }
    }
  }

  // What all of them wait for, if there is such a room.
  std::optional<Fence> fence() const {
    if (last_ == nullptr) return std::nullopt;
    Fence all;
    for (const Chunk* chunk = first_;; chunk = chunk->after) {
      if (!chunk->free) all.add(chunk->last_use);
      if (chunk == last_) return all;
    }
  }

 private:
  static std::uint64_t order(const Chunk& chunk) { return chunk.free ? 0 : chunk.retired; }

  const std::size_t bytes_;
  const Chunk* first_ = nullptr;
  const Chunk* last_ = nullptr;
  std::uint64_t order_ = 0;
};

}  // namespace

class PinnedPool::Impl {
 public:
  using Chunk = Tlsf::Chunk;

  Impl(HostMemory& memory, std::size_t limit_bytes) : memory_(memory), limit_(limit_bytes) {
    stats_.limit_bytes = limit_bytes;
  }
  ~Impl();

  void reserve(std::size_t bytes) ABSL_LOCKS_EXCLUDED(mutex_);
  std::size_t trim() noexcept ABSL_LOCKS_EXCLUDED(mutex_);
  Block allocate(std::size_t bytes, Purpose purpose) ABSL_LOCKS_EXCLUDED(mutex_);
  void give_back(Chunk* chunk, Fence&& last_use) noexcept ABSL_LOCKS_EXCLUDED(mutex_);
  Fence oldest_retired() const ABSL_LOCKS_EXCLUDED(mutex_);
  std::optional<Fence> room_for(std::size_t bytes) ABSL_LOCKS_EXCLUDED(mutex_);
  void collect() noexcept ABSL_LOCKS_EXCLUDED(mutex_);
  Stats stats() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  // Memory that one call pinned. A list of them, because splicing cannot fail.
  struct Slab {
    std::byte* data;
    std::size_t bytes;
    Chunk* first;  // Null while the slab is not in use.
  };
  using Slabs = std::list<Slab>;

  std::size_t claim(std::size_t bytes) ABSL_LOCKS_EXCLUDED(mutex_);
  Slabs pin(std::size_t bytes) ABSL_LOCKS_EXCLUDED(mutex_);
  void unpin(const Slabs& slabs) noexcept ABSL_LOCKS_EXCLUDED(mutex_);
  void settle(Slabs pinned) ABSL_LOCKS_EXCLUDED(mutex_);

  void retire(Chunk* chunk) noexcept ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void unretire(Chunk* chunk) noexcept ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void collect_oldest() noexcept ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void collect_all() noexcept ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void put(Chunk* chunk) noexcept ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  HostMemory& memory_;
  const std::size_t limit_;

  mutable absl::Mutex mutex_;
  bool settled_ ABSL_GUARDED_BY(mutex_) = true;  // No thread is pinning.
  Tlsf chunks_ ABSL_GUARDED_BY(mutex_);
  Slabs slabs_ ABSL_GUARDED_BY(mutex_);
  Chunk* oldest_ ABSL_GUARDED_BY(mutex_) = nullptr;  // Retired, in the order of release.
  Chunk* newest_ ABSL_GUARDED_BY(mutex_) = nullptr;
  std::uint64_t last_retired_ ABSL_GUARDED_BY(mutex_) = 0;
  Stats stats_ ABSL_GUARDED_BY(mutex_);
};

PinnedPool::Impl::~Impl() {
  Chunk* retired = nullptr;
  Slabs slabs;
  {
    absl::MutexLock lock(&mutex_);
    assert(stats_.lent_bytes == 0 && "a block outlived its pool");
    retired = oldest_;
    slabs.swap(slabs_);
  }
  for (; retired != nullptr; retired = retired->next) retired->last_use.wait();
  unpin(slabs);
}

void PinnedPool::Impl::reserve(std::size_t bytes) {
  const std::size_t missing = claim(bytes);
  if (missing == 0) return;
  Slabs pinned;
  try {
    pinned = pin(missing);
  } catch (...) {
    settle({});
    throw;
  }
  settle(std::move(pinned));
}

// Claims the right to pin what is missing to `bytes`, until settle(). Nobody else pins
// meanwhile, but blocks are lent and given back.
std::size_t PinnedPool::Impl::claim(std::size_t bytes) {
  absl::MutexLock lock(&mutex_);
  mutex_.Await(absl::Condition(&settled_));
  if (bytes <= stats_.pinned_bytes) return 0;
  EBB_CHECK(bytes <= round_down(limit_, kPageBytes), kResourceExhausted, "cannot reserve ",
            bytes, " bytes of pinned host memory: the cap is ", limit_, " bytes, of which ",
            stats_.pinned_bytes, " are pinned; raise the host budget, or offload less");
  settled_ = false;
  return round_up(bytes, kPageBytes) - stats_.pinned_bytes;
}

PinnedPool::Impl::Slabs PinnedPool::Impl::pin(std::size_t bytes) {
  memory_.check_room(bytes);
  Slabs pinned;
  try {
    for (std::size_t missing = bytes; missing > 0;) {
      const std::size_t piece = std::min(missing, kPieceBytes);
      pinned.push_back({nullptr, piece, nullptr});
      pinned.back().data = memory_.pin(piece);
      missing -= piece;
    }
  } catch (...) {
    if (!pinned.empty() && pinned.back().data == nullptr) pinned.pop_back();
    unpin(pinned);
    throw;
  }
  return pinned;
}

void PinnedPool::Impl::unpin(const Slabs& slabs) noexcept {
  for (const Slab& slab : slabs) memory_.unpin(slab.data, slab.bytes);
}

// Ends the claim, and takes what was pinned into use.
void PinnedPool::Impl::settle(Slabs pinned) {
  try {
    absl::MutexLock lock(&mutex_);
    settled_ = true;
    while (!pinned.empty()) {
      Slab& slab = pinned.front();
      slab.first = chunks_.add(slab.data, slab.bytes);
      stats_.pinned_bytes += slab.bytes;
      ++stats_.pin_calls;
      ++stats_.slabs;
      slabs_.splice(slabs_.end(), pinned, pinned.begin());
    }
  } catch (...) {
    unpin(pinned);
    throw;
  }
}

std::size_t PinnedPool::Impl::trim() noexcept {
  Slabs whole;
  {
    absl::MutexLock lock(&mutex_);
    collect_all();
    for (auto it = slabs_.begin(); it != slabs_.end();) {
      const auto slab = it++;
      if (!Tlsf::is_whole(*slab->first)) continue;
      chunks_.remove(slab->first);
      whole.splice(whole.end(), slabs_, slab);
    }
  }
  unpin(whole);
  std::size_t bytes = 0;
  for (const Slab& slab : whole) bytes += slab.bytes;
  // Only now, so that the cap holds at every moment.
  absl::MutexLock lock(&mutex_);
  stats_.pinned_bytes -= bytes;
  stats_.slabs -= whole.size();
  return bytes;
}

PinnedPool::Block PinnedPool::Impl::allocate(std::size_t bytes, Purpose purpose) {
  if (bytes > round_down(limit_, kGranularityBytes)) return {};  // round_up() may overflow.
  const std::size_t rounded = in_granules(bytes);
  absl::MutexLock lock(&mutex_);
  collect_oldest();
  Chunk* chunk = chunks_.take(rounded);
  if (chunk == nullptr) {
    collect_all();
    chunk = chunks_.take(rounded);
  }
  if (chunk == nullptr) return {};
  chunk->requested_bytes = bytes;
  chunk->purpose = purpose;
  stats_.lent_bytes += rounded;
  stats_.requested_bytes += bytes;
  stats_.peak_requested_bytes =
      std::max(stats_.peak_requested_bytes, stats_.requested_bytes);
  stats_.peak_taken_bytes =
      std::max(stats_.peak_taken_bytes, stats_.lent_bytes + stats_.retired_bytes);
  std::size_t& now = stats_.requested_by_purpose[purpose];
  now += bytes;
  std::size_t& peak = stats_.peak_by_purpose[purpose];
  peak = std::max(peak, now);
  return {*this, chunk, chunk->data, bytes};
}

void PinnedPool::Impl::give_back(Chunk* chunk, Fence&& last_use) noexcept {
  const bool done = last_use.done();
  absl::MutexLock lock(&mutex_);
  stats_.lent_bytes -= chunk->bytes;
  if (done) {
    put(chunk);
  } else {
    chunk->last_use = std::move(last_use);
    retire(chunk);
  }
}

Fence PinnedPool::Impl::oldest_retired() const {
  absl::MutexLock lock(&mutex_);
  return oldest_ == nullptr ? Fence() : oldest_->last_use;
}

std::optional<Fence> PinnedPool::Impl::room_for(std::size_t bytes) {
  if (bytes > round_down(limit_, kGranularityBytes)) return std::nullopt;
  const std::size_t rounded = in_granules(bytes);
  absl::MutexLock lock(&mutex_);
  collect_all();
  if (chunks_.has(rounded)) return Fence();
  EarliestRoom room(rounded);
  for (const Slab& slab : slabs_) room.look_at(slab.first);
  return room.fence();
}

void PinnedPool::Impl::collect() noexcept {
  absl::MutexLock lock(&mutex_);
  collect_all();
}

PinnedPool::Stats PinnedPool::Impl::stats() const {
  absl::MutexLock lock(&mutex_);
  return stats_;
}

void PinnedPool::Impl::retire(Chunk* chunk) noexcept {
  stats_.retired_bytes += chunk->bytes;
  chunk->retired = ++last_retired_;
  chunk->previous = newest_;
  chunk->next = nullptr;
  (newest_ == nullptr ? oldest_ : newest_->next) = chunk;
  newest_ = chunk;
}

void PinnedPool::Impl::unretire(Chunk* chunk) noexcept {
  stats_.retired_bytes -= chunk->bytes;
  (chunk->previous == nullptr ? oldest_ : chunk->previous->next) = chunk->next;
  (chunk->next == nullptr ? newest_ : chunk->next->previous) = chunk->previous;
  chunk->last_use = {};
  chunk->retired = 0;
  put(chunk);
}

// Fences end roughly in the order of release, so that this finds most of what is done in
// constant time. collect_all() is for when that is not enough.
void PinnedPool::Impl::collect_oldest() noexcept {
  while (oldest_ != nullptr && oldest_->last_use.done()) unretire(oldest_);
}

void PinnedPool::Impl::collect_all() noexcept {
  for (Chunk* chunk = oldest_; chunk != nullptr;) {
    Chunk* next = chunk->next;
    if (chunk->last_use.done()) unretire(chunk);
    chunk = next;
  }
}

void PinnedPool::Impl::put(Chunk* chunk) noexcept {
  stats_.requested_bytes -= chunk->requested_bytes;
  stats_.requested_by_purpose[chunk->purpose] -= chunk->requested_bytes;
  chunks_.put(chunk);
}

PinnedPool::PinnedPool(HostMemory& memory, std::size_t limit_bytes)
    : impl_(std::make_unique<Impl>(memory, limit_bytes)) {}
PinnedPool::~PinnedPool() = default;

void PinnedPool::reserve(std::size_t bytes) { impl_->reserve(bytes); }
std::size_t PinnedPool::trim() noexcept { return impl_->trim(); }
PinnedPool::Block PinnedPool::allocate(std::size_t bytes, Purpose purpose) {
  return impl_->allocate(bytes, purpose);
}
Fence PinnedPool::oldest_retired() const { return impl_->oldest_retired(); }
std::optional<Fence> PinnedPool::room_for(std::size_t bytes) {
  return impl_->room_for(bytes);
}
void PinnedPool::collect() noexcept { impl_->collect(); }
PinnedPool::Stats PinnedPool::stats() const { return impl_->stats(); }

void PinnedPool::Block::release(Fence last_use) noexcept {
  if (pool_ == nullptr) return;
  pool_->give_back(static_cast<Tlsf::Chunk*>(chunk_), std::move(last_use));
  pool_ = nullptr;
  data_ = nullptr;
  bytes_ = 0;
}

}  // namespace ebb
