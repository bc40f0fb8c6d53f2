// Does carving a pinned pool cost less than 100 ns a block, given back and lent? Baseline:
// malloc. Each call by itself, and bytes: pool_traces_bench.

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <memory>
#include <random>
#include <vector>

#include <benchmark/benchmark.h>

#include "allocator/device_arena.h"
#include "allocator/pinned_pool.h"

namespace {

using ebb::Fence;
using ebb::PinnedPool;

constexpr std::size_t kBlocks = 10'000;

// Sizes of saved tensors, from 512 bytes to 64 KiB, each octave as likely.
std::vector<std::size_t> sizes(std::size_t count) {
  std::mt19937 random(1);
  std::uniform_real_distribution<double> log2(9, 16);
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
BENCHMARK(pool_replaces_one_of_10000);

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
BENCHMARK(pool_with_fences_replaces_one_of_10000);

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
