// Counts live and peak device bytes by virtual time.
//
// A block counts from the start of the first op that touches it until the end of the last
// one. Whether an op was the last is known only when the host gives the block back, which
// may be long after: then its bytes are taken off from the end of that op on, peaks
// included. So the ledger keeps the peaks of the time between such possible ends apart: a
// list of intervals, one for each block that is idle and not given back.

#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "allocator/purpose.h"

namespace ebb::device {

// Not thread-safe. Starts and ends come in the order of their times.
class MemoryLedger {
 public:
  using Block = std::uint32_t;

  MemoryLedger();

  // A block is lent; an op that touches it is submitted, starts, ends; the host gives it
  // back.
  Block add(std::size_t bytes, Purpose purpose);
  void submit(Block block) noexcept;
  void start(Block block) noexcept;
  void end(Block block);
  void free(Block block) noexcept;
  // What submit() was told of does not come.
  void withdraw(Block block);
  // From now on its bytes count as sent, too.
  void mark_sent(Block block) noexcept;

  struct Peak {
    std::size_t bytes = 0;
    BytesByPurpose at_peak;
    std::size_t activation_bytes = 0;
  };
  Peak peak() const noexcept;
  void reset_peak() noexcept;

  const BytesByPurpose& live() const noexcept { return live_; }
  std::size_t live_activation_bytes() const noexcept { return live_activations_; }
  std::size_t live_sent_bytes() const noexcept { return live_sent_; }
  const BytesByPurpose& lent() const noexcept { return lent_; }

 private:
  using Link = std::uint32_t;

  struct Entry {
    std::size_t bytes = 0;
    Purpose purpose = Purpose::kActivations;
    bool sent = false;
    bool live = false;
    bool freed = false;
    std::uint32_t in_flight = 0;  // Ops submitted that have not ended.
    Link interval = 0;            // That begins where it became idle; 0: it is not idle.
  };

  // The time from one block's becoming idle to the next one's, and the peaks in it.
  struct Interval {
    Link previous = 0;
    Link next = 0;
    Peak peak;
  };

  static void merge(Peak& into, const Peak& other) noexcept;
  Link append(const Peak& peak);
  void remove(Link interval) noexcept;
  void note() noexcept;
  void take_off(const Entry& entry) noexcept;
  void drop(Block block) noexcept;

  std::vector<Entry> blocks_;
  std::vector<Block> unused_blocks_;
  std::vector<Interval> intervals_;  // [0] is the time before all others.
  std::vector<Link> unused_intervals_;
  Link last_ = 0;
  BytesByPurpose live_;
  BytesByPurpose lent_;
  std::size_t live_total_ = 0;
  std::size_t live_activations_ = 0;
  std::size_t live_sent_ = 0;
};

}  // namespace ebb::device
