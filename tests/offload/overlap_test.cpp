// Is the link hidden, or kept busy, on the devices that people have? Whole training steps
// of models of real size, dry.

#include <algorithm>
#include <memory>
#include <optional>
#include <string>

#include "gtest/gtest.h"

#include "allocator/error.h"
#include "kernels/cpu/cpu_kernels.h"
#include "offload/engine/engine.h"
#include "offload/report/run_recorder.h"
#include "offload/store/host/host_store.h"
#include "runtime/device/sim/sim_device.h"
#include "runtime/nn/gpt2.h"
#include "runtime/train/trainer.h"

namespace ebb::offload {
namespace {

struct Shape {
  std::string name;
  nn::Gpt2Config model;
  std::int64_t batch = 8;
  std::int64_t seq = 256;
};

Shape gpt2_xl() { return {"gpt2_xl", nn::gpt2_config("gpt2-xl")}; }

// Long sequences, a large vocabulary: 32 layers of 4096.
Shape long_llama() {
  nn::Gpt2Config model = nn::gpt2_config("gpt2");
  model.layers = 32;
  model.hidden = 4096;
  model.heads = 32;
  model.vocabulary = 128256;
  model.positions = 8192;
  return {"hidden_4096", model, 1, 8192};
}

struct Outcome {
  TimeFigures time;
  EngineFigures engine;
  std::size_t peak_activation_bytes = 0;
  std::size_t reserved_bytes = 0;
  std::size_t largest_block_bytes = 0;

  double limit() const {
    return std::max(1.02 * (time.step.compute + time.step.recompute),
                    1.05 * time.bound.seconds);
  }
};

// Three dry steps on a copy of the profile that has memory enough for the state.
Outcome run(const std::string& profile, const Shape& shape, Policy policy,
            std::optional<std::size_t> budget_bytes = std::nullopt) {
  device::SimOptions options;
  options.profile = device::load_profile(profile);
  options.profile.capacity_bytes = std::nullopt;
  options.limit_bytes = budget_bytes;
  options.dry = true;
  std::optional<RunRecorder> listener;  // Outlives the device.
  const auto device = device::make_sim_device(options, cpu_kernels());
  PinnedPool pool(device->host_memory(), std::size_t{1} << 50);
  transfer::Link link(*device);
  HostStore store(link, pool);
  Engine engine(*device, store, {.policy = policy, .min_offload_bytes = {}});
  const nn::Gpt2 model(*device, shape.model, 1);
  train::TrainOptions train;
  train.batch = shape.batch;
  train.seq = shape.seq;
  if (policy == Policy::kInputs) {
    for (std::int64_t layer = 0; layer < shape.model.layers; ++layer) {
      train.segments.push_back({layer, layer});
    }
  }
  pool.reserve(std::size_t{1} << 40);
  train::Trainer trainer(*device, pool, model, nullptr, train, &engine, nullptr);
  RunRecorder& recorder = listener.emplace(device->capability());
  device->set_observer(&recorder);
  Outcome outcome;
  for (int step = 0; step < 3; ++step) {
    recorder.begin_step();
    trainer.step();
    engine.end_step();
    const std::vector<SentBlock> blocks = engine.take_sent_blocks();
    for (const SentBlock& block : blocks) {
      outcome.largest_block_bytes = std::max(outcome.largest_block_bytes, block.bytes);
    }
    const device::MemoryFigures memory = device->memory().figures();
    const std::size_t state = memory.live.total() - memory.live.activations();
    recorder.end_step(blocks,
                      budget_bytes ? *budget_bytes - state : memory.peak_activation_bytes);
  }
  device->set_observer(nullptr);
  outcome.time = recorder.figures();
  outcome.engine = engine.figures();
  outcome.peak_activation_bytes = device->memory().figures().peak_activation_bytes;
  outcome.reserved_bytes = device->memory().figures().peak_reserved_bytes;
  return outcome;
}

class OverlapTest : public testing::TestWithParam<const char*> {};

void expect_hidden_or_busy(const char* profile, const Shape& shape) {
  const Outcome plain = run(profile, shape, Policy::kKeep);
  for (const Policy policy : {Policy::kInputs, Policy::kSaved}) {
    const Outcome outcome = run(profile, shape, policy);
    EXPECT_LE(outcome.time.step.step, outcome.limit()) << profile << " " << shape.name;
    EXPECT_GE(outcome.time.step.step, outcome.time.bound.seconds * (1 - 1e-9));
    EXPECT_LE(outcome.peak_activation_bytes, plain.peak_activation_bytes / 4);
    EXPECT_GE(static_cast<double>(outcome.engine.h2d_bytes),
              0.8 * static_cast<double>(outcome.engine.d2h_bytes));
    EXPECT_EQ(outcome.engine.d2h_bytes, outcome.engine.h2d_bytes +
                                            outcome.engine.revived_bytes +
                                            outcome.engine.dropped_bytes);
  }
}

TEST_P(OverlapTest, HidesTheLinkOrKeepsItBusyForGpt2Xl) {
  expect_hidden_or_busy(GetParam(), gpt2_xl());
}

TEST_P(OverlapTest, HidesTheLinkOrKeepsItBusyForLongSequences) {
  expect_hidden_or_busy(GetParam(), long_llama());
}

TEST_P(OverlapTest, HoldsUnderAnyBudgetFromTheSmallestAndTwoOfTheLargestBlocks) {
  const Shape shape = gpt2_xl();
  const Outcome free = run(GetParam(), shape, Policy::kSaved);
  const auto fits = [&](std::size_t budget) {
    try {
      run(GetParam(), shape, Policy::kSaved, budget);
      return true;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), absl::StatusCode::kResourceExhausted);
      return false;
    }
  };
  std::size_t most = free.reserved_bytes;
  std::size_t least = 0;
  while (most - least > (std::size_t{4} << 20)) {
    const std::size_t middle = least + (most - least) / 2;
    (fits(middle) ? most : least) = middle;
  }
  for (std::size_t budget = most + 2 * free.largest_block_bytes;
       budget < free.reserved_bytes + 2 * free.largest_block_bytes;
       budget += free.largest_block_bytes / 2) {
    const Outcome outcome = run(GetParam(), shape, Policy::kSaved, budget);
    EXPECT_LE(outcome.time.step.step, outcome.limit()) << budget << " " << most;
  }
}

INSTANTIATE_TEST_SUITE_P(Profiles, OverlapTest,
                         testing::Values("t4-pcie3", "a100-pcie4", "h100-pcie5", "gh200",
                                         "gb300"));

}  // namespace
}  // namespace ebb::offload
