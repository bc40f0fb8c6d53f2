// What a training job asks of a pinned pool, event by event: read from files that were
// recorded from real training, or drawn at random.

#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <vector>

namespace ebb::bench {

struct PoolEvent {
  enum class Kind : std::uint8_t {
    kAllocate,  // `value` bytes, for the next block: they are numbered from 0.
    kRelease,   // Block `value` is given back with a fence,
    kReached,   // which is reached later.
    kStep,      // A step ends.
  };
  Kind kind;
  std::uint64_t value = 0;
};

// One line an event: "+ BYTES", "- BLOCK", "! BLOCK", "="; "#" begins a comment. Throws
// Error{kInvalidArgument}, which names the line, for anything else, and for a block that is
// given back or reached before its time.
std::vector<PoolEvent> read_pool_trace(const std::filesystem::path& file);

// Gives one event after the other, then nothing.
using PoolEvents = std::function<std::optional<PoolEvent>()>;

PoolEvents events_of(std::vector<PoolEvent> trace);

struct RandomTrace {
  std::size_t operations = 10'000'000;  // Blocks lent and blocks given back.
  std::size_t blocks = 10'000;          // Lent at a time.
  std::size_t most_fence_lag = 256;     // Fences are reached so many operations later, or
                                        // sooner: out of order.
  std::size_t step_operations = 10'000;
  std::uint64_t seed = 1;
};

// Replaces a random block by another for ever; sizes are log-uniform from 512 B to 256 MiB.
PoolEvents random_pool_events(const RandomTrace& trace);

}  // namespace ebb::bench
