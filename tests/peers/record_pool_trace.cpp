// Records what a training job asks of the pinned pool: GPT-2 (124M) on a dry device, every
// saved tensor offloaded. Fences stand where the host, which runs ahead, finds them
// reached. The format is that of bench/pool_trace.h.
//
// Usage: record_pool_trace repeating|varying STEPS >FILE
//   repeating: 4 x 1024 tokens a step
//   varying: two micro-batches a step of 4 sequences as long as packing made them

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <list>
#include <random>
#include <string_view>
#include <utility>

#include "allocator/error.h"
#include "allocator/pinned_pool.h"
#include "kernels/cpu/cpu_kernels.h"
#include "offload/engine/engine.h"
#include "offload/store/host/host_store.h"
#include "runtime/device/sim/profile.h"
#include "runtime/device/sim/sim_device.h"
#include "runtime/nn/gpt2.h"
#include "runtime/train/micro_batch.h"

namespace {

namespace offload = ebb::offload;
using ebb::Tensor;

constexpr std::int64_t kBatch = 4;
constexpr std::int64_t kPositions = 1024;
constexpr std::int64_t kShortest = 64;

// Writes down what goes through it. One thread at a time.
class RecordingStore final : public offload::Store {
 public:
  explicit RecordingStore(offload::Store& store) : store_(store) {}

  std::unique_ptr<offload::StoredBlock> put(std::uintptr_t device, std::size_t bytes,
                                            const ebb::Fence& after) override {
    write_reached();
    auto block = store_.put(device, bytes, after);
    EBB_CHECK(block != nullptr, kInternal, "the pool is too small to record with");
    std::printf("+ %zu\n", bytes);
    return std::make_unique<Block>(*this, std::move(block), next_++);
  }
  ebb::Fence fence_before_put() override { return store_.fence_before_put(); }
  std::optional<ebb::Fence> next_room(std::size_t bytes) override {
    return store_.next_room(bytes);
  }
  bool grow(std::size_t bytes) override { return store_.grow(bytes); }
  std::string fullness() const override { return store_.fullness(); }

  void end_step() {
    write_reached();
    std::puts("=");
  }

 private:
  class Block final : public offload::StoredBlock {
   public:
    Block(RecordingStore& log, std::unique_ptr<offload::StoredBlock> block,
          std::uint64_t number)
        : log_(log), block_(std::move(block)), number_(number) {
      last_use_.add(block_->stored());
    }
    ~Block() override {
      block_.reset();
      log_.released(number_, std::move(last_use_));
    }

    ebb::Event stored() const noexcept override { return block_->stored(); }
    ebb::Event fetch(std::uintptr_t device, const ebb::Fence& after,
                     ebb::transfer::Priority priority) override {
      const ebb::Event end = block_->fetch(device, after, priority);
      last_use_.add(end);
      return end;
    }

   private:
    RecordingStore& log_;
    std::unique_ptr<offload::StoredBlock> block_;
    const std::uint64_t number_;
    ebb::Fence last_use_;
  };

  void released(std::uint64_t number, ebb::Fence last_use) {
    write_reached();
    std::printf("- %llu\n", static_cast<unsigned long long>(number));
    retired_.emplace_back(number, std::move(last_use));
  }
  void write_reached() {
    retired_.remove_if([](const auto& block) {
      if (!block.second.done()) return false;
      std::printf("! %llu\n", static_cast<unsigned long long>(block.first));
      return true;
    });
  }

  offload::Store& store_;
  std::uint64_t next_ = 0;
  std::list<std::pair<std::uint64_t, ebb::Fence>> retired_;
};

void record(bool varying, int steps) {
  ebb::device::SimOptions sim;
  sim.profile = ebb::device::load_profile("a100-pcie4");
  sim.profile.capacity_bytes = std::nullopt;
  sim.dry = true;
  const auto device = ebb::device::make_sim_device(sim, ebb::cpu_kernels());
  constexpr std::size_t kPlenty = std::size_t{1} << 38;
  ebb::PinnedPool pool(device->host_memory(), kPlenty);
  pool.reserve(kPlenty);
  ebb::transfer::Link link(*device);
  offload::HostStore host(link, pool);
  RecordingStore store(host);
  offload::Engine engine(*device, store, {});
  const ebb::nn::Gpt2 model(*device, ebb::nn::gpt2_config("gpt2"), 1);
  ebb::train::make_gradients(model.parameters());

  std::mt19937 random(1);
  std::uniform_int_distribution<std::int64_t> lengths(kShortest, kPositions);
  const int micro_batches = varying ? 2 : 1;
  std::printf(
      "# GPT-2 124M, %s; %s\n",
      varying ? "2 micro-batches of 4 sequences of 64 to 1024 tokens" : "batch 4 x 1024",
      "recorded by tests/peers/record_pool_trace.cpp");
  for (int step = 0; step < steps; ++step) {
    ebb::train::begin_gradients(model.parameters());
    for (int i = 0; i < micro_batches; ++i) {
      const std::int64_t seq = varying ? lengths(random) : kPositions;
      const auto ids = [&] {
        return Tensor::empty(*device, {kBatch, seq}, ebb::DType::kI32);
      };
      ebb::train::MicroBatch micro;
      micro.batch.tokens = ids();
      micro.batch.targets = ids();
      (void)ebb::train::run_micro_batch(model, micro, {}, &engine);
    }
    device->synchronize();
    engine.end_step();
    store.end_step();
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view kind = argc == 3 ? argv[1] : "";
  const int steps = argc == 3 ? std::atoi(argv[2]) : 0;
  if ((kind != "repeating" && kind != "varying") || steps < 1) {
    std::fputs("usage: record_pool_trace repeating|varying STEPS >FILE\n", stderr);
    return 2;
  }
  try {
    record(kind == "varying", steps);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "record_pool_trace: %s\n", error.what());
    return 1;
  }
}
