// Hands out device addresses in stream order.
//
// Memory is given back before the work that uses it has ended, together with the fence of
// that work. Whoever is given it next waits for the fence on its stream, on the device: the
// host does not wait. What is free in a stream's own order is preferred to fresh addresses,
// and these to bytes with events to wait for, as few as can be; the lowest that fits is
// taken. So a run gives the same addresses under any limit that it does not reach. The
// arena knows addresses only; which bytes are live at what time is the device's to say.

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "absl/container/flat_hash_map.h"

#include "allocator/event.h"
#include "allocator/region_map.h"

namespace ebb {

// Says what order streams already have. The device knows.
class StreamOrder {
 public:
  virtual ~StreamOrder() = default;

  // Whether whatever is submitted to `stream` from now on runs after `event`.
  virtual bool ordered_after(StreamId stream, const Event& event) const noexcept = 0;
};

// Not thread-safe: a device serialises its calls. `order` outlives the arena.
class DeviceArena {
 public:
  static constexpr std::size_t kGranularityBytes = 512;

  struct Grant {
    std::uintptr_t address;
    Fence wait_for;  // What the stream is not ordered after yet. Usually empty.
  };

  struct Stats {
    std::size_t limit_bytes = 0;
    std::size_t reserved_bytes =
        0;                       // The highest address handed out so far, less the base.
    std::size_t lent_bytes = 0;  // Rounded to the granularity.
    std::size_t peak_lent_bytes = 0;
  };

  // Hands out addresses from `base` (a multiple of the granularity) to `base +
  // limit_bytes`.
  DeviceArena(const StreamOrder& order, std::uintptr_t base, std::size_t limit_bytes);

  // Memory that `stream` uses first, or nothing if it does not fit whatever is waited for.
  // A request for 0 bytes takes one granule. Deterministic: equal calls give equal
  // addresses.
  [[nodiscard]] std::optional<Grant> allocate(std::size_t bytes, StreamId stream);

  // Takes back what allocate() returned at `address`. Work in flight may use it until
  // `last_use`.
  void free(std::uintptr_t address, const Fence& last_use) noexcept;

  Stats stats() const noexcept;

 private:
  using Index = RegionMap::Index;

  // Where a request goes: from the start of a free region on, or from the high-water mark
  // if `first` is none. It may reach beyond the mark.
  struct Place {
    Index first = RegionMap::kNone;
    std::size_t offset = 0;
  };
  struct Harm;

  std::optional<Place> find_ordered(std::size_t bytes, StreamId stream) const noexcept;
  std::optional<Place> find_fresh(std::size_t bytes, StreamId stream) const noexcept;
  std::optional<Place> find_least_harm(std::size_t bytes, StreamId stream) const;
  std::optional<Harm> harm(Index first, std::size_t bytes, StreamId stream) const;
  bool is_ordered(const Event& event, StreamId stream) const noexcept;
  bool is_ordered(const Fence& fence, StreamId stream) const noexcept;

  const StreamOrder& order_;
  const std::uintptr_t base_;
  Stats stats_;
  RegionMap regions_;
  absl::flat_hash_map<std::size_t, Index> lent_;  // By offset.
};

}  // namespace ebb
