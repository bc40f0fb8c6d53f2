#include "allocator/pinned_pool.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "allocator/error.h"
#include "allocator/pinned_pool_impl.h"

namespace ebb {

static_assert(PinnedPool::kGranularityBytes == Tlsf::kGranularityBytes);

PinnedPool::Impl::Impl(HostMemory& memory, std::size_t limit_bytes)
    : memory_(memory), limit_(limit_bytes) {
  stats_.limit_bytes = limit_bytes;
}

// A child of fork() has no copy of the slabs, and its events are its parent's.
PinnedPool::Impl::~Impl() {
  if (process_.in_child()) return;
  for (bool more = true; more;) next_last_use(more).wait();
  Slabs slabs;
  {
    const MutexLock lock(mutex_);
    assert(stats_.lent_bytes == 0 && "a block outlived its pool");
    slabs.swap(slabs_);
  }
  unpin(slabs);
}

// Takes the oldest block out of those that wait, and says whether there was one.
Fence PinnedPool::Impl::next_last_use(bool& more) noexcept {
  const MutexLock lock(mutex_);
  more = oldest_ != Tlsf::kNone;
  if (!more) return {};
  Fence last_use = std::move(chunks_.use(oldest_).last_use);
  oldest_ = chunks_[oldest_].next;
  return last_use;
}

void PinnedPool::Impl::check_process() const {
  EBB_CHECK(!process_.in_child(), kFailedPrecondition,
            "a pinned pool stays with the process that made it: this is a child of "
            "fork(), which has no copy of pinned memory; make a pool of its own there");
}

std::optional<std::size_t> PinnedPool::Impl::in_granules(std::size_t bytes) const {
  if (bytes > limit_ / kGranularityBytes * kGranularityBytes) return std::nullopt;
  const std::size_t granules = (bytes + kGranularityBytes - 1) / kGranularityBytes;
  return std::max<std::size_t>(granules, 1) * kGranularityBytes;
}

PinnedPool::Block PinnedPool::Impl::allocate(std::size_t bytes, Purpose purpose) {
  check_process();
  const std::optional<std::size_t> size = in_granules(bytes);
  if (!size) return {};
  const MutexLock lock(mutex_);
  collect_oldest();
  Index chunk = chunks_.take(*size);
  if (chunk == Tlsf::kNone) {
    collect_all();
    chunk = chunks_.take(*size);
  }
  if (chunk == Tlsf::kNone) return {};
  chunks_[chunk].slack_bytes = static_cast<std::uint16_t>(*size - bytes);
  chunks_[chunk].purpose = purpose;
  stats_.lent_bytes += *size;
  stats_.requested_bytes += bytes;
  stats_.peak_requested_bytes =
      std::max(stats_.peak_requested_bytes, stats_.requested_bytes);
  stats_.peak_taken_bytes =
      std::max(stats_.peak_taken_bytes, stats_.lent_bytes + stats_.retired_bytes);
  std::size_t& now = stats_.requested_by_purpose[purpose];
  now += bytes;
  std::size_t& peak = stats_.peak_by_purpose[purpose];
  peak = std::max(peak, now);
  return {*this, chunk, chunks_[chunk].data, bytes};
}

// What is done is taken back here rather than in allocate(), which is what a step waits
// for.
void PinnedPool::Impl::give_back(Index chunk, Fence&& last_use) noexcept {
  if (process_.in_child()) return;
  const bool done = last_use.done();
  const MutexLock lock(mutex_);
  stats_.lent_bytes -= chunks_[chunk].bytes();
  if (done) {
    put(chunk);
  } else {
    chunks_.use(chunk).last_use = std::move(last_use);
    retire(chunk);
  }
  collect_oldest();
  collect_some();
}

void PinnedPool::Impl::collect() noexcept {
  if (process_.in_child()) return;
  const MutexLock lock(mutex_);
  collect_all();
}

PinnedPool::Stats PinnedPool::Impl::stats() const {
  check_process();
  const MutexLock lock(mutex_);
  return stats_;
}

void PinnedPool::Impl::retire(Index index) noexcept {
  Tlsf::Chunk& chunk = chunks_[index];
  stats_.retired_bytes += chunk.bytes();
  chunks_.use(index).order = ++last_retired_;
  chunk.state = Tlsf::Chunk::State::kRetired;
  chunk.previous = newest_;
  chunk.next = Tlsf::kNone;
  (newest_ == Tlsf::kNone ? oldest_ : chunks_[newest_].next) = index;
  newest_ = index;
}

void PinnedPool::Impl::unretire(Index index) noexcept {
  Tlsf::Chunk& chunk = chunks_[index];
  stats_.retired_bytes -= chunk.bytes();
  if (asked_next_ == index) asked_next_ = chunk.next;
  (chunk.previous == Tlsf::kNone ? oldest_ : chunks_[chunk.previous].next) = chunk.next;
  (chunk.next == Tlsf::kNone ? newest_ : chunks_[chunk.next].previous) = chunk.previous;
  chunks_.use(index).last_use.clear();
  put(index);
}

// Fences end roughly in the order of release, so that this finds most of what is done. Two
// at a time keep up, as each block is lent and given back, and nobody pays for a whole step
// whose fences end together. collect_all() is for when that is not enough.
void PinnedPool::Impl::collect_oldest() noexcept {
  for (int i = 0; i < 2; ++i) {
    if (oldest_ == Tlsf::kNone || !chunks_.use(oldest_).last_use.done()) return;
    unretire(oldest_);
  }
}

// Finds what is done behind a fence that is not: a few of those that wait, in turn. What is
// left to wait makes others be cut from larger chunks than they need.
void PinnedPool::Impl::collect_some() noexcept {
  Index chunk = asked_next_ == Tlsf::kNone ? oldest_ : asked_next_;
  for (int i = 0; i < 4 && chunk != Tlsf::kNone; ++i) {
    const Index next = chunks_[chunk].next;
    if (chunks_.use(chunk).last_use.done()) unretire(chunk);
    chunk = next;
  }
  asked_next_ = chunk;
}

void PinnedPool::Impl::collect_all() noexcept {
  for (Index chunk = oldest_; chunk != Tlsf::kNone;) {
    const Index next = chunks_[chunk].next;
    if (chunks_.use(chunk).last_use.done()) unretire(chunk);
    chunk = next;
  }
}

void PinnedPool::Impl::put(Index chunk) noexcept {
  const std::size_t bytes = chunks_[chunk].bytes() - chunks_[chunk].slack_bytes;
  stats_.requested_bytes -= bytes;
  stats_.requested_by_purpose[chunks_[chunk].purpose] -= bytes;
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
std::size_t PinnedPool::most_reserved() const noexcept { return impl_->most_reserved(); }
std::optional<Fence> PinnedPool::room_for(std::size_t bytes) {
  return impl_->room_for(bytes);
}
void PinnedPool::collect() noexcept { impl_->collect(); }
PinnedPool::Stats PinnedPool::stats() const { return impl_->stats(); }

void PinnedPool::Block::release(Fence last_use) noexcept {
  if (pool_ == nullptr) return;
  pool_->give_back(chunk_, std::move(last_use));
  pool_ = nullptr;
  data_ = nullptr;
  bytes_ = 0;
}

}  // namespace ebb
