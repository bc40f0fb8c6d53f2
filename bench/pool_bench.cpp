// Does carving a pinned pool cost less than 100 ns a block, and how many bytes does it take
// for those that were asked for? Baselines: malloc, and a pool of powers of two.

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <map>
#include <memory>
#include <random>
#include <vector>

#include <benchmark/benchmark.h>

#include "absl/synchronization/mutex.h"

#include "allocator/device_arena.h"
#include "allocator/pinned_pool.h"

namespace {

using ebb::Fence;
using ebb::PinnedPool;

constexpr std::size_t kBlocks = 10'000;

// Debian builds Abseil with its search for deadlocks on, which triples the cost of a lock.
// Programs that care turn it off, as here; both are measured.
void watch_for_deadlocks(bool on) {
  absl::SetMutexDeadlockDetectionMode(on ? absl::OnDeadlockCycle::kAbort
                                         : absl::OnDeadlockCycle::kIgnore);
}

// Sizes of saved tensors, from 512 bytes to 64 KiB, each octave as likely.
std::vector<std::size_t> sizes(std::size_t count, double largest_log2 = 16) {
  std::mt19937 random(1);
  std::uniform_real_distribution<double> log2(9, largest_log2);
  std::vector<std::size_t> all(count);
  for (std::size_t& bytes : all) bytes = static_cast<std::size_t>(std::exp2(log2(random)));
  return all;
}

// Which of the live blocks goes next.
std::vector<std::size_t> victims(std::size_t count) {
  std::mt19937 random(2);
  std::vector<std::size_t> all(count);
  for (std::size_t& victim : all) victim = random() % kBlocks;
  return all;
}

void pool_replaces_one_of_10000(benchmark::State& state) {
  watch_for_deadlocks(state.range(0) != 0);
  const auto memory = ebb::make_unbacked_memory();
  PinnedPool pool(*memory, std::size_t{1} << 32);
  pool.reserve(std::size_t{1} << 32);
  const auto bytes = sizes(1 << 16);
  const auto order = victims(1 << 16);
  std::vector<PinnedPool::Block> live(kBlocks);
  for (std::size_t i = 0; i < kBlocks; ++i) live[i] = pool.allocate(bytes[i]);
  std::size_t i = 0;
  for ([[maybe_unused]] auto iteration : state) {
    i = (i + 1) & 0xFFFF;
    PinnedPool::Block& block = live[order[i]];
    block.release({});
    block = pool.allocate(bytes[i]);
  }
  if (!std::all_of(live.begin(), live.end(), [](const auto& block) { return !!block; })) {
    state.SkipWithError("the pool was full");
  }
}
BENCHMARK(pool_replaces_one_of_10000)->ArgName("deadlock_watch")->Arg(0)->Arg(1);

void malloc_replaces_one_of_10000(benchmark::State& state) {
  const auto bytes = sizes(1 << 16);
  const auto order = victims(1 << 16);
  std::vector<void*> live(kBlocks);
  for (std::size_t i = 0; i < kBlocks; ++i) live[i] = std::malloc(bytes[i]);
  std::size_t i = 0;
  for ([[maybe_unused]] auto iteration : state) {
    i = (i + 1) & 0xFFFF;
    void*& block = live[order[i]];
    std::free(block);
    block = std::malloc(bytes[i]);
    benchmark::DoNotOptimize(block);
  }
  for (void* block : live) std::free(block);
}
BENCHMARK(malloc_replaces_one_of_10000);

// As in a step: blocks go back with a fence that is reached later.
class Clock final : public ebb::EventSource {
 public:
  bool reached(std::uint64_t ticket) const noexcept override { return ticket <= now; }
  void await(std::uint64_t) const noexcept override {}

  std::uint64_t now = 0;
};

void pool_with_fences_replaces_one_of_10000(benchmark::State& state) {
  watch_for_deadlocks(state.range(0) != 0);
  const auto memory = ebb::make_unbacked_memory();
  Clock clock;
  PinnedPool pool(*memory, std::size_t{1} << 32);
  pool.reserve(std::size_t{1} << 32);
  const auto bytes = sizes(1 << 16);
  const auto order = victims(1 << 16);
  std::vector<PinnedPool::Block> live(kBlocks);
  for (std::size_t i = 0; i < kBlocks; ++i) live[i] = pool.allocate(bytes[i]);
  std::uint64_t ticket = 0;
  for ([[maybe_unused]] auto iteration : state) {
    ++ticket;
    clock.now = ticket < 64 ? 0 : ticket - 64;
    PinnedPool::Block& block = live[order[ticket & 0xFFFF]];
    block.release(Fence(ebb::Event(clock, ticket)));
    block = pool.allocate(bytes[ticket & 0xFFFF]);
  }
  clock.now = ~std::uint64_t{0};
}
BENCHMARK(pool_with_fences_replaces_one_of_10000)
    ->ArgName("deadlock_watch")
    ->Arg(0)
    ->Arg(1);

// Replaces one of 1,000 blocks, sizes from 512 bytes to 256 KiB, for ever: how many bytes a
// pool has to have for it, over the most that were asked for at a time. The pool grows by
// what is missing, as it would at the borders of steps.
void waste(benchmark::State& state) {
  constexpr std::size_t kLive = 1'000;
  constexpr std::size_t kSteps = 50'000;
  const auto bytes = sizes(kSteps, 18);
  double pool_ratio = 0;
  double powers_ratio = 0;
  for ([[maybe_unused]] auto iteration : state) {
    const auto memory = ebb::make_unbacked_memory();
    PinnedPool pool(*memory, std::size_t{1} << 40);
    std::vector<PinnedPool::Block> live(kLive);
    std::vector<std::size_t> held(kLive);
    std::map<std::size_t, std::size_t> free_powers;  // Blocks that are free, by size.
    std::size_t powers_bytes = 0;
    std::mt19937 random(3);
    for (std::size_t i = 0; i < kSteps; ++i) {
      const std::size_t victim = random() % kLive;
      live[victim].release({});
      live[victim] = pool.allocate(bytes[i]);
      if (!live[victim]) {
        pool.reserve(pool.stats().pinned_bytes + (std::size_t{8} << 20));
        live[victim] = pool.allocate(bytes[i]);
      }
      if (held[victim] != 0) ++free_powers[held[victim]];
      held[victim] = std::bit_ceil(bytes[i]);
      std::size_t& spare = free_powers[held[victim]];
      if (spare > 0) {
        --spare;
      } else {
        powers_bytes += held[victim];
      }
    }
    const auto peak = static_cast<double>(pool.stats().peak_requested_bytes);
    pool_ratio = static_cast<double>(pool.stats().pinned_bytes) / peak;
    powers_ratio = static_cast<double>(powers_bytes) / peak;
  }
  state.counters["pool_over_requested"] = pool_ratio;
  state.counters["powers_of_two_over_requested"] = powers_ratio;
}
BENCHMARK(waste)->Unit(benchmark::kMillisecond);

// What a stream is after is a comparison here, so that the arena is what is measured.
class OneStream final : public ebb::StreamOrder {
 public:
  bool ordered_after(ebb::StreamId, const ebb::Event&) const noexcept override {
    return true;
  }
};

void arena_replaces_one_of_1000(benchmark::State& state) {
  constexpr std::size_t kLive = 500;  // With as many holes between them.
  const OneStream order;
  Clock clock;
  ebb::DeviceArena arena(order, 0, std::size_t{1} << 40);
  const auto bytes = sizes(1 << 16);
  const auto victim = victims(1 << 16);
  std::vector<std::uintptr_t> live(kLive);
  for (std::size_t i = 0; i < kLive; ++i) {
    live[i] = arena.allocate(bytes[i], ebb::StreamId{0})->address;
  }
  std::uint64_t i = 0;
  for ([[maybe_unused]] auto iteration : state) {
    ++i;
    std::uintptr_t& address = live[victim[i & 0xFFFF] % kLive];
    arena.free(address, Fence(ebb::Event(clock, i)));
    address = arena.allocate(bytes[i & 0xFFFF], ebb::StreamId{0})->address;
  }
  state.counters["reserved_over_peak_lent"] =
      static_cast<double>(arena.stats().reserved_bytes) /
      static_cast<double>(arena.stats().peak_lent_bytes);
}
BENCHMARK(arena_replaces_one_of_1000);

}  // namespace
