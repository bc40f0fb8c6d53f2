// What does training cost a pinned pool: how many bytes for those that are asked for,
// against a pool of powers of two, and how many nanoseconds a block, alone and beside other
// threads?
//
// Usage: pool_traces_bench FOLDER_OF_TRACES [OPERATIONS_OF_THE_RANDOM_TRACES]

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <functional>
#include <string>
#include <thread>

#include "bench/pool_latency.h"
#include "bench/pool_trace.h"
#include "bench/pool_waste.h"

namespace {

using namespace ebb::bench;

constexpr std::size_t kOperations = 10'000'000;
constexpr std::size_t kThreads = 8;

void print_waste(const std::string& name, const std::function<PoolEvents()>& events) {
  const PoolWaste ours = waste_of_pinned_pool(events());
  const PoolWaste powers = waste_of_powers_of_two(events());
  std::printf("%-24s %6zu %12.1f %9.3f %13.3f %15zu\n", name.c_str(), ours.steps,
              static_cast<double>(ours.requested_bytes) / (1 << 20), ours.ratio(),
              powers.ratio(), ours.last_growth);
}

void print_latency(std::size_t threads, std::size_t fence_lag, std::size_t rounds) {
  PoolLoad load;
  load.threads = threads;
  load.fence_lag = fence_lag;
  load.rounds = rounds;
  const PoolLatency latency = measure_pool_latency(load);
  std::printf("%7zu %9zu", threads, fence_lag);
  for (const Percentiles& call : {latency.allocate, latency.release}) {
    for (const double seconds : {call.p50_seconds, call.p99_seconds, call.p999_seconds}) {
      std::printf(" %9.0f", 1e9 * seconds);
    }
  }
  std::printf(" %7.0f\n", 1e9 * latency.clock_seconds);
}

void print_tables(const std::filesystem::path& folder, std::size_t operations) {
  std::printf("%-24s %6s %12s %9s %13s %15s\n", "reserved / requested", "steps", "peak MiB",
              "our pool", "powers of two", "last growth at");
  for (const char* name : {"gpt2", "packed", "resnet"}) {
    print_waste(name, [&] {
      return events_of(read_pool_trace(folder / (std::string("pool_") + name + ".txt")));
    });
  }
  for (const std::size_t blocks : {10'000U, 5'000U, 1'000U}) {
    RandomTrace random;
    random.operations = operations;
    random.blocks = blocks;
    print_waste("random, " + std::to_string(blocks) + " blocks",
                [&] { return random_pool_events(random); });
  }
  std::printf("\n10,000 blocks, %u processors; ns, without the clock's own\n",
              std::thread::hardware_concurrency());
  std::printf("%7s %9s %9s %9s %9s %9s %9s %9s %7s\n", "threads", "fence lag", "alloc p50",
              "p99", "p99.9", "free p50", "p99", "p99.9", "clock");
  for (const std::size_t fence_lag : {0U, 64U}) {
    for (const std::size_t threads : {std::size_t{1}, kThreads}) {
      print_latency(threads, fence_lag, operations / 10);
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  const long long operations = argc > 2 ? std::atoll(argv[2]) : kOperations;
  if (argc < 2 || argc > 3 || operations < 1000) {
    std::fputs("usage: pool_traces_bench FOLDER_OF_TRACES [OPERATIONS]\n", stderr);
    return 2;
  }
  try {
    print_tables(argv[1], static_cast<std::size_t>(operations));
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "pool_traces_bench: %s\n", error.what());
    return 1;
  }
}
