#include "bench/pool_latency.h"

#include <algorithm>
#include <atomic>
#include <barrier>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <random>
#include <thread>
#include <vector>

#include "allocator/error.h"
#include "allocator/pinned_pool.h"

namespace ebb::bench {
namespace {

using Clock = std::chrono::steady_clock;
using Nanoseconds = std::vector<std::uint32_t>;

constexpr double kSmallestLog2 = 9;
constexpr double kLargestLog2 = 28;

// Work that ends when the thread that submitted it says so.
class Work final : public EventSource {
 public:
  void end(std::uint64_t ticket) { ended_.store(ticket, std::memory_order_release); }

  bool reached(std::uint64_t ticket) const noexcept override {
    return ticket <= ended_.load(std::memory_order_acquire);
  }
  void await(std::uint64_t ticket) const noexcept override {
    while (!reached(ticket)) std::this_thread::yield();
  }

 private:
  std::atomic<std::uint64_t> ended_{0};
};

std::uint32_t between(Clock::time_point start, Clock::time_point end) {
  const auto ns = std::chrono::duration_cast<std::chrono::nanoseconds>(end - start).count();
  return static_cast<std::uint32_t>(std::clamp<std::int64_t>(ns, 0, UINT32_MAX));
}

// The clock counts in ticks of several nanoseconds, so that many times are equal: they are
// taken to lie evenly around the value that they share.
double percentile(const Nanoseconds& sorted, double share) {
  const double rank = share * static_cast<double>(sorted.size());
  const std::uint32_t value =
      sorted[std::min(static_cast<std::size_t>(rank), sorted.size() - 1)];
  const auto [first, last] = std::equal_range(sorted.begin(), sorted.end(), value);
  const double below = first == sorted.begin() ? value : *std::prev(first);
  const double above = last == sorted.end() ? value : *last;
  const double from = (below + value) / 2;
  const double to = (value + above) / 2;
  const double part = (rank - static_cast<double>(first - sorted.begin())) /
                      static_cast<double>(last - first);
  return 1e-9 * (from + part * (to - from));
}

double clock_seconds() {
  Nanoseconds all(100'000);
  for (std::uint32_t& ns : all) {
    const auto start = Clock::now();
    ns = between(start, Clock::now());
  }
  std::sort(all.begin(), all.end());
  return percentile(all, 0.5);
}

Percentiles percentiles(const std::vector<Nanoseconds>& threads, double clock) {
  Nanoseconds all;
  for (const Nanoseconds& one : threads) all.insert(all.end(), one.begin(), one.end());
  std::sort(all.begin(), all.end());
  const auto at = [&](double share) {
    return std::max(0.0, percentile(all, share) - clock);
  };
  return {at(0.5), at(0.99), at(0.999)};
}

// What one thread does. Sizes and victims are drawn before the clock runs.
class Worker {
 public:
  Worker(PinnedPool& pool, Work& work, const PoolLoad& load, unsigned seed)
      : pool_(pool), work_(work), lag_(load.fence_lag), live_(load.blocks / load.threads) {
    const std::size_t rounds = load.rounds / load.threads;
    std::mt19937_64 random(seed);
    std::uniform_real_distribution<double> log2(kSmallestLog2, kLargestLog2);
    const auto size = [&] { return static_cast<std::size_t>(std::exp2(log2(random))); };
    for (std::size_t i = 0; i < rounds; ++i) {
      sizes_.push_back(size());
      victims_.push_back(random() % live_.size());
    }
    for (PinnedPool::Block& block : live_) block = pool_.allocate(size());
    allocate_.resize(rounds);
    release_.resize(rounds);
  }
  ~Worker() { work_.end(sizes_.size() + 1); }

  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  void run() {
    for (std::size_t i = 0; i < sizes_.size(); ++i) {
      PinnedPool::Block& block = live_[victims_[i]];
      if (lag_ > 0 && i + 1 > lag_) work_.end(i + 1 - lag_);
      const auto start = Clock::now();
      block.release(lag_ == 0 ? Fence() : Fence(Event(work_, i + 1)));
      const auto between_calls = Clock::now();
      block = pool_.allocate(sizes_[i]);
      const auto end = Clock::now();
      release_[i] = between(start, between_calls);
      allocate_[i] = between(between_calls, end);
      EBB_CHECK(block, kInternal, "the pool of the benchmark is too small");
    }
  }

  const Nanoseconds& allocate_times() const { return allocate_; }
  const Nanoseconds& release_times() const { return release_; }

 private:
  PinnedPool& pool_;
  Work& work_;
  const std::size_t lag_;
  std::vector<PinnedPool::Block> live_;
  std::vector<std::size_t> sizes_;
  std::vector<std::size_t> victims_;
  Nanoseconds allocate_;
  Nanoseconds release_;
};

}  // namespace

PoolLatency measure_pool_latency(const PoolLoad& load) {
  EBB_CHECK(load.threads > 0 && load.blocks >= load.threads && load.rounds >= load.threads,
            kInvalidArgument, "each thread needs a block and a round");
  const auto memory = make_unbacked_memory();
  constexpr std::size_t kLargest = std::size_t{1} << 28;
  const std::size_t room =
      (load.blocks + load.fence_lag * load.threads + 64) * kLargest / 4;
  std::vector<Work> work(load.threads);
  PinnedPool pool(*memory, room);
  pool.reserve(room);
  std::vector<std::unique_ptr<Worker>> workers;
  for (unsigned i = 0; i < load.threads; ++i) {
    workers.push_back(std::make_unique<Worker>(pool, work[i], load, i + 1));
  }
  {
    std::barrier together(static_cast<std::ptrdiff_t>(load.threads));
    std::vector<std::jthread> threads;
    for (const auto& worker : workers) {
      threads.emplace_back([&] {
        together.arrive_and_wait();
        worker->run();
      });
    }
  }
  PoolLatency result;
  result.clock_seconds = clock_seconds();
  std::vector<Nanoseconds> allocate;
  std::vector<Nanoseconds> release;
  for (const auto& worker : workers) {
    allocate.push_back(worker->allocate_times());
    release.push_back(worker->release_times());
  }
  result.allocate = percentiles(allocate, result.clock_seconds);
  result.release = percentiles(release, result.clock_seconds);
  return result;
}

}  // namespace ebb::bench
