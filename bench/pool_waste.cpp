#include "bench/pool_waste.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"

#include "allocator/error.h"
#include "allocator/pinned_pool.h"

namespace ebb::bench {
namespace {

using Kind = PoolEvent::Kind;

// The ends of all blocks' last copies, in any order: each fence has one event only, so that
// nobody asks which of two is later.
class Marks final : public EventSource {
 public:
  void reach(std::uint64_t block) {
    if (block >= reached_.size()) reached_.resize(block + 1);
    reached_[block] = true;
  }
  void reach_all() { all_ = true; }

  bool reached(std::uint64_t block) const noexcept override {
    return all_ || (block < reached_.size() && reached_[block]);
  }
  void await(std::uint64_t) const noexcept override {}  // The trace says when.

 private:
  std::vector<bool> reached_;
  bool all_ = false;
};

// Bytes now, and at most.
struct Level {
  std::size_t now = 0;
  std::size_t peak = 0;

  void add(std::size_t bytes) {
    now += bytes;
    peak = std::max(peak, now);
  }
};

class OnPinnedPool {
 public:
  ~OnPinnedPool() { marks_.reach_all(); }

  void take(const PoolEvent& event) {
    switch (event.kind) {
      case Kind::kAllocate:
        return allocate(event.value);
      case Kind::kRelease:
        return held_.at(event.value).block.release(Fence(Event(marks_, event.value)));
      case Kind::kReached:
        marks_.reach(event.value);
        return end(held_.extract(event.value).mapped());
      case Kind::kStep:
        return step();
    }
  }

  PoolWaste result() {
    result_.requested_bytes = requested_.peak;
    result_.reserved_bytes = pool_.stats().pinned_bytes;
    return result_;
  }

 private:
  struct Held {
    std::size_t bytes;
    PinnedPool::Block block;
    bool served;
  };

  void allocate(std::size_t bytes) {
    Held held{bytes, pool_.allocate(bytes), false};
    held.served = static_cast<bool>(held.block);
    requested_.add(bytes);
    if (!held.served) {
      missing_.add(bytes);
      if (result_.steps > 0) result_.unserved_bytes += bytes;
    }
    held_.emplace(next_++, std::move(held));
  }
  void end(const Held& held) {
    requested_.now -= held.bytes;
    if (!held.served) missing_.now -= held.bytes;
  }
  void step() {
    ++result_.steps;
    if (missing_.peak > 0) {
      pool_.reserve(pool_.stats().pinned_bytes + missing_.peak);
      result_.last_growth = result_.steps;
    }
    missing_.peak = 0;  // What is still on the device has room now.
  }

  const std::unique_ptr<HostMemory> memory_ = make_unbacked_memory();
  Marks marks_;
  PinnedPool pool_{*memory_, std::numeric_limits<std::size_t>::max()};
  absl::flat_hash_map<std::uint64_t, Held> held_;
  std::uint64_t next_ = 0;
  Level requested_;
  Level missing_;
  PoolWaste result_;
};

class OnPowersOfTwo {
 public:
  void take(const PoolEvent& event) {
    switch (event.kind) {
      case Kind::kAllocate: {
        requested_.add(event.value);
        std::size_t& free = free_[std::bit_ceil(event.value)];
        if (free > 0) {
          --free;
        } else {
          result_.reserved_bytes += std::bit_ceil(event.value);
          result_.last_growth = result_.steps + 1;
        }
        bytes_.emplace(next_++, event.value);
        return;
      }
      case Kind::kReached: {
        const std::size_t bytes = bytes_.extract(event.value).mapped();
        requested_.now -= bytes;
        ++free_[std::bit_ceil(bytes)];
        return;
      }
      case Kind::kRelease:
        return;
      case Kind::kStep:
        ++result_.steps;
        return;
    }
  }

  PoolWaste result() {
    result_.requested_bytes = requested_.peak;
    return result_;
  }

 private:
  std::map<std::size_t, std::size_t> free_;  // Blocks, by size.
  absl::flat_hash_map<std::uint64_t, std::size_t> bytes_;
  std::uint64_t next_ = 0;
  Level requested_;
  PoolWaste result_;
};

template <typename Policy>
PoolWaste replay(const PoolEvents& events) {
  Policy policy;
  while (const std::optional<PoolEvent> event = events()) policy.take(*event);
  return policy.result();
}

}  // namespace

PoolWaste waste_of_pinned_pool(const PoolEvents& events) {
  return replay<OnPinnedPool>(events);
}

PoolWaste waste_of_powers_of_two(const PoolEvents& events) {
  return replay<OnPowersOfTwo>(events);
}

}  // namespace ebb::bench
