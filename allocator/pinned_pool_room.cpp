#include <algorithm>
#include <deque>

#include "allocator/pinned_pool_impl.h"

namespace ebb {
namespace {

// Neighbours that are free, or will be: which of them have room for a block, and were all
// given back the earliest.
class EarliestRoom {
 public:
  using Index = Tlsf::Index;

  EarliestRoom(const Tlsf& chunks, std::size_t bytes) : chunks_(chunks), bytes_(bytes) {}

  // Looks through the slab that begins with `chunk`: at each end of a window, at the
  // shortest one that ends there.
  void look_at(Index chunk) {
    Index first = Tlsf::kNone;
    std::size_t sum = 0;
    std::deque<Index> latest;  // Of the window, each later than those behind it.
    for (; chunk != Tlsf::kNone; chunk = chunks_[chunk].after) {
      if (chunks_[chunk].state == Tlsf::Chunk::State::kTaken) {  // Lent.
        first = Tlsf::kNone;
        sum = 0;
        latest.clear();
        continue;
      }
      if (first == Tlsf::kNone) first = chunk;
      sum += chunks_[chunk].bytes();
      while (!latest.empty() && order(latest.back()) <= order(chunk)) latest.pop_back();
      latest.push_back(chunk);
      while (sum - chunks_[first].bytes() >= bytes_) {
        sum -= chunks_[first].bytes();
        if (latest.front() == first) latest.pop_front();
        first = chunks_[first].after;
      }
      if (sum >= bytes_ && (last_ == Tlsf::kNone || order(latest.front()) < order_)) {
        order_ = order(latest.front());
        first_ = first;
        last_ = chunk;
      }
    }
  }

  // What all of them wait for, if there is such a room.
  std::optional<Fence> fence() const {
    if (last_ == Tlsf::kNone) return std::nullopt;
    Fence all;
    for (Index chunk = first_;; chunk = chunks_[chunk].after) {
      if (!chunks_[chunk].is_free()) all.add(chunks_.use(chunk).last_use);
      if (chunk == last_) return all;
    }
  }

 private:
  std::uint64_t order(Index chunk) const {
    return chunks_[chunk].is_free() ? 0 : chunks_.use(chunk).order;
  }

  const Tlsf& chunks_;
  const std::size_t bytes_;
  Index first_ = Tlsf::kNone;
  Index last_ = Tlsf::kNone;
  std::uint64_t order_ = 0;
};

}  // namespace

std::optional<Fence> PinnedPool::Impl::room_for(std::size_t bytes) {
  check_process();
  const std::optional<std::size_t> size = in_granules(bytes);
  if (!size) return std::nullopt;
  const MutexLock lock(mutex_);
  collect_all();
  if (chunks_.has(*size)) return Fence();
  EarliestRoom room(chunks_, *size);
  for (const Slab& slab : slabs_) room.look_at(slab.first);
  return room.fence();
}

}  // namespace ebb
