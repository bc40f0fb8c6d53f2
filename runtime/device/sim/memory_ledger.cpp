#include "runtime/device/sim/memory_ledger.h"

#include <cassert>
#include <utility>

namespace ebb::device {

MemoryLedger::MemoryLedger() : intervals_(1) {}

MemoryLedger::Block MemoryLedger::add(std::size_t bytes, Purpose purpose) {
  Block block = 0;
  if (unused_blocks_.empty()) {
    block = static_cast<Block>(blocks_.size());
    blocks_.emplace_back();
    // So that giving back and becoming idle need no memory.
    unused_blocks_.reserve(blocks_.capacity());
    intervals_.reserve(blocks_.capacity() + 1);
    unused_intervals_.reserve(blocks_.capacity() + 1);
  } else {
    block = unused_blocks_.back();
    unused_blocks_.pop_back();
  }
  blocks_[block] = {bytes, purpose};
  lent_[purpose] += bytes;
  return block;
}

void MemoryLedger::submit(Block block) noexcept {
  Entry& entry = blocks_[block];
  ++entry.in_flight;
  // It will be touched again, so it was live all the time.
  if (entry.interval != 0) remove(std::exchange(entry.interval, 0));
}

void MemoryLedger::start(Block block) noexcept {
  Entry& entry = blocks_[block];
  if (entry.live) return;
  entry.live = true;
  live_[entry.purpose] += entry.bytes;
  live_total_ += entry.bytes;
  if (is_activation(entry.purpose)) live_activations_ += entry.bytes;
  if (entry.sent) live_sent_ += entry.bytes;
  note();
}

void MemoryLedger::end(Block block) {
  Entry& entry = blocks_[block];
  assert(entry.in_flight > 0 && entry.live);
  if (--entry.in_flight > 0) return;
  if (entry.freed) {
    take_off(entry);
    drop(block);
  } else {
    entry.interval = append({live_total_, live_, live_activations_});
  }
}

void MemoryLedger::free(Block block) noexcept {
  Entry& entry = blocks_[block];
  entry.freed = true;
  lent_[entry.purpose] -= entry.bytes;
  if (entry.in_flight > 0) return;
  if (entry.live) {
    for (Link i = entry.interval; i != 0; i = intervals_[i].next) {
      Peak& peak = intervals_[i].peak;
      if (peak.bytes > 0) {
        peak.bytes -= entry.bytes;
        peak.at_peak[entry.purpose] -= entry.bytes;
      }
      if (is_activation(entry.purpose) && peak.activation_bytes > 0) {
        peak.activation_bytes -= entry.bytes;
      }
    }
    remove(std::exchange(entry.interval, 0));
    take_off(entry);
  }
  drop(block);
}

void MemoryLedger::withdraw(Block block) {
  Entry& entry = blocks_[block];
  assert(entry.in_flight > 0);
  if (entry.in_flight > 1 || entry.live) {
    if (entry.in_flight > 1) {
      --entry.in_flight;
    } else {
      end(block);
    }
    return;
  }
  --entry.in_flight;
  if (entry.freed) drop(block);
}

void MemoryLedger::mark_sent(Block block) noexcept {
  Entry& entry = blocks_[block];
  if (entry.sent) return;
  entry.sent = true;
  if (entry.live) live_sent_ += entry.bytes;
}

MemoryLedger::Peak MemoryLedger::peak() const noexcept {
  Peak result = intervals_[0].peak;
  for (Link i = intervals_[0].next; i != 0; i = intervals_[i].next) {
    merge(result, intervals_[i].peak);
  }
  return result;
}

void MemoryLedger::reset_peak() noexcept {
  intervals_[0].peak = {};
  for (Link i = intervals_[0].next; i != 0; i = intervals_[i].next) intervals_[i].peak = {};
  note();
}

void MemoryLedger::merge(Peak& into, const Peak& other) noexcept {
  if (other.bytes > into.bytes) {
    into.bytes = other.bytes;
    into.at_peak = other.at_peak;
  }
  if (other.activation_bytes > into.activation_bytes) {
    into.activation_bytes = other.activation_bytes;
  }
}

MemoryLedger::Link MemoryLedger::append(const Peak& peak) {
  Link link = 0;
  if (unused_intervals_.empty()) {
    link = static_cast<Link>(intervals_.size());
    intervals_.emplace_back();
  } else {
    link = unused_intervals_.back();
    unused_intervals_.pop_back();
  }
  intervals_[link] = {last_, 0, peak};
  intervals_[last_].next = link;
  last_ = link;
  return link;
}

// The interval becomes part of the one before it.
void MemoryLedger::remove(Link link) noexcept {
  const Interval& interval = intervals_[link];
  merge(intervals_[interval.previous].peak, interval.peak);
  intervals_[interval.previous].next = interval.next;
  if (interval.next != 0) {
    intervals_[interval.next].previous = interval.previous;
  } else {
    last_ = interval.previous;
  }
  unused_intervals_.push_back(link);
}

void MemoryLedger::note() noexcept {
  Peak& peak = intervals_[last_].peak;
  if (live_total_ > peak.bytes) {
    peak.bytes = live_total_;
    peak.at_peak = live_;
  }
  if (live_activations_ > peak.activation_bytes) peak.activation_bytes = live_activations_;
}

void MemoryLedger::take_off(const Entry& entry) noexcept {
  live_[entry.purpose] -= entry.bytes;
  live_total_ -= entry.bytes;
  if (is_activation(entry.purpose)) live_activations_ -= entry.bytes;
  if (entry.sent) live_sent_ -= entry.bytes;
}

void MemoryLedger::drop(Block block) noexcept { unused_blocks_.push_back(block); }

}  // namespace ebb::device
