// What backwards that are over teach those to come.
//
// A backward is known by the sizes of the blocks that it uses, in order. One that never
// came before (layers are left out, some uses change places) learns from the one that is
// most like it: what is in both keeps its time and its room, what is new has none.

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "offload/engine/walk.h"
#include "runtime/device/device.h"

namespace ebb::offload {

struct Judgement {
  std::uint64_t hits = 0;  // Of what was fetched ahead: there at its use, or not.
  std::uint64_t late = 0;
};

// By position in the order of use.
struct Lesson {
  std::vector<double> gaps;  // Seconds of compute before each use; empty: not known.
  std::vector<std::ptrdiff_t> not_before;  // See WalkRecord.
};

// For each position of `order`, the same one of `seen`, in increasing order: greedily, with
// what was left out in either skipped.
std::vector<std::optional<std::size_t>> align(const std::vector<std::size_t>& order,
                                              const std::vector<std::size_t>& seen);

class Learned {
 public:
  // Learns from a walk that is over, as far as the device knows when things ended.
  Judgement learn(const WalkRecord& walk, const device::Device& device);
  // For a backward over blocks of these sizes. None: nothing like it has been seen.
  std::optional<Lesson> find(const std::vector<std::size_t>& sizes) const;
  std::size_t size() const noexcept { return taught_.size(); }

 private:
  static constexpr std::size_t kMaxOrders = 64;

  struct Taught {
    std::size_t hash = 0;  // Of the sizes: most orders are told apart by it.
    std::vector<std::size_t> sizes;
    Lesson lesson;
  };

  // Its place, or the end.
  std::vector<Taught>::const_iterator exactly(std::size_t hash,
                                              const std::vector<std::size_t>& sizes) const;

  std::vector<Taught> taught_;  // The latest one last.
};

}  // namespace ebb::offload
