#include <algorithm>
#include <utility>

#include "allocator/error.h"
#include "allocator/host_memory.h"
#include "allocator/pinned_pool_impl.h"

namespace ebb {
namespace {

constexpr std::size_t kPieceBytes = std::size_t{64} << 30;  // That one call registers.

}  // namespace

// The right to pin. Nobody else pins meanwhile, but blocks are lent and given back.
class PinnedPool::Impl::Growth {
 public:
  explicit Growth(Impl& pool) : pool_(pool) {
    absl::MutexLock lock(&pool.growth_mutex_);
    const auto may_grow = [&pool]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(pool.growth_mutex_) {
      return !pool.growing_;
    };
    pool.growth_mutex_.Await(absl::Condition(&may_grow));
    pool.growing_ = true;
  }
  ~Growth() {
    absl::MutexLock lock(&pool_.growth_mutex_);
    pool_.growing_ = false;
  }

  Growth(const Growth&) = delete;
  Growth& operator=(const Growth&) = delete;

 private:
  Impl& pool_;
};

void PinnedPool::Impl::reserve(std::size_t bytes) {
  check_process();
  const Growth growth(*this);
  if (const std::size_t more = missing(bytes); more > 0) use(pin(more));
}

std::size_t PinnedPool::Impl::most_reserved() const noexcept {
  return limit_ / kPageBytes * kPageBytes;
}

std::size_t PinnedPool::Impl::missing(std::size_t bytes) const {
  const MutexLock lock(mutex_);
  if (bytes <= stats_.pinned_bytes) return 0;
  if (bytes > most_reserved()) {
    throw Error(
        absl::StatusCode::kResourceExhausted,
        absl::StrCat("cannot reserve ", bytes, " bytes of pinned host memory: the cap is ",
                     limit_, " bytes, of which ", stats_.pinned_bytes,
                     " are pinned; raise the host budget, or offload less"),
        Error::Resource::kHostMemory);
  }
  return (bytes + kPageBytes - 1) / kPageBytes * kPageBytes - stats_.pinned_bytes;
}

PinnedPool::Impl::Slabs PinnedPool::Impl::pin(std::size_t bytes) {
  memory_.check_room(bytes);
  Slabs pinned;
  try {
    for (std::size_t left = bytes; left > 0;) {
      const std::size_t piece = std::min(left, kPieceBytes);
      pinned.push_back({nullptr, piece, Tlsf::kNone});
      pinned.back().data = memory_.pin(piece);
      left -= piece;
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

void PinnedPool::Impl::use(Slabs pinned) {
  try {
    const MutexLock lock(mutex_);
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
  if (process_.in_child()) return 0;
  Slabs whole;
  {
    const MutexLock lock(mutex_);
    collect_all();
    for (auto it = slabs_.begin(); it != slabs_.end();) {
      const auto slab = it++;
      if (!chunks_.is_whole(slab->first)) continue;
      chunks_.remove(slab->first);
      whole.splice(whole.end(), slabs_, slab);
    }
  }
  unpin(whole);
  std::size_t bytes = 0;
  for (const Slab& slab : whole) bytes += slab.bytes;
  // Only now, so that the cap holds at every moment.
  const MutexLock lock(mutex_);
  stats_.pinned_bytes -= bytes;
  stats_.slabs -= whole.size();
  return bytes;
}

}  // namespace ebb
