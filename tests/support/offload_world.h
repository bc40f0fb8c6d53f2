// A small device with everything the offload engine needs around it, and a chain of ops
// that saves tensors and uses them again: forward and backward without a tape.
//
//   compute queue: 1 FLOP a nanosecond; links: 1 byte a nanosecond each way; no latencies.

#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"

#include "allocator/pinned_pool.h"
#include "offload/engine/engine.h"
#include "offload/store/host/host_store.h"
#include "runtime/device/check/check_device.h"
#include "runtime/device/sim/sim_device.h"
#include "runtime/tensor/launch.h"
#include "tests/support/drop_waits.h"
#include "tests/support/faulty_device.h"

namespace ebb::test {

constexpr std::size_t kKiB = 1024;
constexpr std::size_t kMiB = 1024 * kKiB;

struct WorldOptions {
  device::Order order = {};
  bool dry = false;
  bool check = true;
  bool throw_on_violation = true;
  bool faults = false;               // Ops and copies may be made to fail when they run.
  const Kernels* kernels = nullptr;  // None: for plain closures only.
  std::size_t limit_bytes = 64 * kMiB;
  std::size_t pool_bytes = 64 * kMiB;
  double d2h_bytes_per_second = 1e9;
  double h2d_bytes_per_second = 1e9;
  double latency_seconds = 0;
  offload::EngineOptions engine{.policy = offload::Policy::kSaved,
                                .min_offload_bytes = std::size_t{1024}};
};

class World {
 public:
  static device::SimOptions sim_options(const WorldOptions& options) {
    device::SimOptions sim;
    sim.profile.name = "world";
    sim.profile.capacity_bytes = std::size_t{1} << 32;
    sim.profile.f32_flops_per_second = 1e9;
    sim.profile.bf16_flops_per_second = 1e9;
    sim.profile.memory_bytes_per_second = 1e15;
    sim.profile.host_submit_seconds = 1e-9;
    sim.profile.d2h = {options.d2h_bytes_per_second, options.latency_seconds};
    sim.profile.h2d = {options.h2d_bytes_per_second, options.latency_seconds};
    sim.profile.network = sim.profile.disk_read = sim.profile.disk_write = {1e9, 0};
    sim.order = options.order;
    sim.dry = options.dry;
    sim.limit_bytes = options.limit_bytes;
    return sim;
  }

  explicit World(const WorldOptions& options = {})
      : options_(options),
        base(make_base(options)),
        faulty(*base, faults),
        device(faulty),
        pool(base->host_memory(), options.pool_bytes),
        link(std::make_unique<transfer::Link>(device)),
        store(std::make_unique<offload::HostStore>(*link, pool)),
        engine(std::make_unique<offload::Engine>(device, *store, options.engine)) {
    pool.reserve(options.pool_bytes);
  }

  // A tensor of `bytes` bytes, written by an op that takes `seconds`: its words count up
  // from a number that belongs to `seed`.
  Tensor make(std::uint64_t seed, std::size_t bytes, double seconds,
              device::Phase phase = device::Phase::kForward) {
    const Tensor tensor =
        Tensor::empty(device, {static_cast<std::int64_t>(bytes / 4)}, DType::kI32);
    write(tensor, seed, seconds, phase);
    return tensor;
  }
  void write(const Tensor& tensor, std::uint64_t seed, double seconds,
             device::Phase phase = device::Phase::kForward) {
    auto* words = static_cast<std::uint32_t*>(tensor.data());
    const auto count = static_cast<std::size_t>(tensor.elements());
    tensor::launch(info("make", seconds, phase), {}, {tensor}, [=](void*) {
      for (std::size_t i = 0; i < count; ++i) words[i] = word(seed, i);
    });
  }

  // An op that takes `seconds` and compares the tensor with what make() wrote, from word
  // `first` on.
  void check(const Tensor& tensor, std::uint64_t seed, double seconds,
             device::Phase phase = device::Phase::kBackward, std::size_t first = 0) {
    const auto* words = static_cast<const std::uint32_t*>(tensor.data());
    const auto count = static_cast<std::size_t>(tensor.elements());
    tensor::launch(info("check", seconds, phase), {tensor}, {}, [=, this](void*) {
      for (std::size_t i = 0; i < count; ++i) {
        wrong_words += words[i] != word(seed, first + i);
      }
    });
  }

  // The end of a step.
  void finish() {
    device.synchronize();
    engine->end_step();
  }

  static autograd::SaveSite site(std::int32_t stage) {
    return {autograd::SaveSite::Kind::kSavedTensor, "check", stage};
  }

 private:
  std::unique_ptr<device::Device> make_base(const WorldOptions& options) {
    device::SimOptions with_faults = sim_options(options);
    if (options.faults) {
      with_faults.fault = [this](const char* op) { return faults.run(op); };
    }
    auto sim = device::make_sim_device(
        with_faults, options.kernels == nullptr ? no_kernels_ : *options.kernels);
    if (!options.check) return sim;
    auto checked = device::make_check_device(
        std::move(sim),
        {.throw_on_violation = options.throw_on_violation, .poison_freed = true});
    checker = checked.get();
    return checked;
  }
  static std::uint32_t word(std::uint64_t seed, std::size_t i) {
    return static_cast<std::uint32_t>(seed * 0x9E3779B9U + i);
  }
  static device::OpInfo info(const char* name, double seconds, device::Phase phase) {
    device::OpInfo info;
    info.name = name;
    info.work.flops = seconds * 1e9;
    info.phase = phase;
    return info;
  }

  const Kernels no_kernels_{};
  const WorldOptions options_;

 public:
  device::CheckDevice* checker = nullptr;  // Null without `check`.
  Faults faults;
  std::unique_ptr<device::Device> base;
  FaultyDevice faulty;
  device::DropWaits device;
  PinnedPool pool;
  std::unique_ptr<transfer::Link> link;
  std::unique_ptr<offload::HostStore> store;
  std::unique_ptr<offload::Engine> engine;
  std::size_t wrong_words = 0;
};

// A saved tensor as a tape holds it.
struct Saved {
  std::unique_ptr<autograd::PackedTensor> packed;  // Or:
  Tensor kept;
  std::uint64_t seed = 0;
};

struct Chain {
  int layers = 8;
  std::size_t bytes = 256 * kKiB;
  double forward_seconds = 1e-3;
  double backward_seconds = 1e-3;
};

inline Saved save(World& world, const Tensor& tensor, std::uint64_t seed,
                  std::int32_t stage) {
  Saved saved;
  saved.packed = world.engine->pack(tensor, World::site(stage)).packed;
  if (saved.packed == nullptr) saved.kept = tensor;
  saved.seed = seed;
  return saved;
}

// Makes and saves a tensor a layer.
inline std::vector<Saved> forward(World& world, const Chain& chain,
                                  std::uint64_t seed = 1) {
  std::vector<Saved> graph;
  for (int layer = 0; layer < chain.layers; ++layer) {
    const std::uint64_t number = seed * 1000 + static_cast<std::uint64_t>(layer);
    const Tensor tensor = world.make(number, chain.bytes, chain.forward_seconds);
    graph.push_back(save(world, tensor, number, layer));
  }
  return graph;
}

// Uses them in reverse order, and gives each up (or keeps them, as retain_graph does).
inline void backward(World& world, std::vector<Saved>& graph, const Chain& chain,
                     bool retain = false) {
  std::vector<autograd::PackedTensor*> order;
  for (auto saved = graph.rbegin(); saved != graph.rend(); ++saved) {
    if (saved->packed) order.push_back(saved->packed.get());
  }
  world.engine->begin_backward(order);
  const auto end = absl::MakeCleanup([&] { world.engine->end_backward(); });
  for (auto saved = graph.rbegin(); saved != graph.rend(); ++saved) {
    const Tensor tensor = saved->packed ? saved->packed->unpack() : saved->kept;
    if (!retain) {
      saved->packed.reset();
      saved->kept = {};
    }
    world.check(tensor, saved->seed, chain.backward_seconds);
    if (retain && saved->packed) saved->packed->used();
  }
}

inline void step(World& world, const Chain& chain, std::uint64_t seed = 1) {
  std::vector<Saved> graph = forward(world, chain, seed);
  backward(world, graph, chain);
  world.finish();
}

}  // namespace ebb::test
