// Runs a random tape on the offload engine, on a device and a host with budgets.

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "allocator/error.h"
#include "allocator/pinned_pool.h"
#include "offload/engine/engine.h"
#include "offload/report/step_record.h"
#include "offload/store/host/host_store.h"
#include "runtime/device/check/check_device.h"
#include "runtime/device/sim/sim_device.h"
#include "tests/support/random_tape.h"
#include "tests/support/tape_pass.h"

namespace ebb::test {

struct PlayOptions {
  bool dry = true;
  bool check = false;
  device::Order order = {};
  std::optional<std::size_t> device_bytes = {};  // None: no limit.
  std::optional<std::size_t> host_bytes = {};    // None: enough.
  int steps = 6;
  offload::EngineOptions engine{.policy = offload::Policy::kSaved, .min_offload_bytes = {}};
};

struct Played {
  std::string no_room;  // Why a step ran out of memory; empty: none did.
  std::vector<offload::StepTime> times;
  std::vector<offload::Bound> bounds;
  double end = 0;                // On the device's clock.
  device::MemoryFigures memory;  // When every graph is over.
  offload::EngineFigures engine;
  PinnedPool::Stats pool;
  std::size_t wrong_words = 0;
  std::uint64_t violations = 0;

  bool fits() const { return no_room.empty(); }
  // Of the steps after the first, as the report has it: time / lower bound.
  double over_bound() const {
    double time = 0;
    double bound = 0;
    for (std::size_t i = times.size() > 1 ? 1 : 0; i < times.size(); ++i) {
      time += times[i].step;
      bound += bounds[i].seconds;
    }
    return bound > 0 ? time / bound : 1;
  }
};

class TapePlayer final : private device::OpObserver {
 public:
  // `tape` outlives it.
  TapePlayer(const Tape& tape, const PlayOptions& options)
      : tape_(&tape),
        options_(options),
        device_(make_device()),
        pool_(device_->host_memory(), pool_bytes()),
        link_(*device_),
        store_(link_, pool_),
        engine_(*device_, store_, options.engine),
        pass_(tape, *device_, engine_) {
    pool_.reserve(pool_bytes());
    device_->set_observer(this);
  }
  ~TapePlayer() override { device_->set_observer(nullptr); }

  // Another tape from now on, for so many steps: the engine remembers.
  void replace(const Tape& tape, int steps) {
    tape_ = &tape;
    pass_.replace(tape);
    options_.steps = steps;
  }

  Played play() {
    Played result;
    for (int step = 0; step < options_.steps && result.fits(); ++step) {
      play_step(step_++, result);
    }
    result.end = device_->now();
    result.memory = device_->memory().figures();
    result.engine = engine_.figures();
    pool_.collect();
    result.pool = pool_.stats();
    result.wrong_words = pass_.wrong_words();
    if (checker_ != nullptr) result.violations = checker_->order().violations;
    return result;
  }
  // Of the last step.
  const offload::StepOps& ops() const { return ops_; }

 private:
  std::unique_ptr<device::Device> make_device() {
    device::SimOptions sim;
    sim.profile = tape_->profile;
    sim.order = options_.order;
    sim.dry = options_.dry;
    sim.limit_bytes = options_.device_bytes;
    auto device = device::make_sim_device(sim, kernels_);
    if (!options_.check) return device;
    auto checked = device::make_check_device(
        std::move(device), {.throw_on_violation = true, .poison_freed = true});
    checker_ = checked.get();
    return checked;
  }
  std::size_t pool_bytes() const {
    constexpr std::size_t kPage = 4096;
    const std::size_t enough = 2 * tape_->saved_bytes() + (std::size_t{1} << 20);
    return (options_.host_bytes.value_or(enough) + kPage - 1) / kPage * kPage;
  }

  void play_step(std::uint64_t step, Played& result) {
    constexpr std::uint64_t kMostMicroSteps = 8;
    ops_.clear();
    try {
      for (std::uint64_t micro = 0; micro < tape_->micro_steps; ++micro) {
        pass_.forward(step * kMostMicroSteps + micro);
        pass_.backward(step * kMostMicroSteps + micro);
      }
    } catch (const Error& error) {
      if (error.code() != absl::StatusCode::kResourceExhausted) throw;
      result.no_room = error.what();
      pass_.abandon();
    }
    device_->synchronize();
    engine_.end_step();
    const std::vector<offload::SentBlock> blocks = engine_.take_sent_blocks();
    if (!result.fits()) return;
    const std::size_t budget =
        options_.device_bytes.value_or(device_->memory().figures().peak_activation_bytes);
    result.times.push_back(offload::step_time(ops_));
    result.bounds.push_back(offload::step_bound(
        offload::bound_input(ops_, blocks, budget, device_->capability())));
  }

  void on_op(const device::OpRecord& record) override { ops_.push_back(record); }

  const Tape* tape_;
  PlayOptions options_;
  const Kernels kernels_{};
  device::CheckDevice* checker_ = nullptr;
  const std::unique_ptr<device::Device> device_;
  PinnedPool pool_;
  transfer::Link link_;
  offload::HostStore store_;
  offload::Engine engine_;
  TapePass pass_;
  offload::StepOps ops_;
  std::uint64_t step_ = 0;
};

inline Played play(const Tape& tape, const PlayOptions& options) {
  return TapePlayer(tape, options).play();
}

// The smallest device budget, to 1 %, with which the tape runs; it runs with `enough`. The
// order in which memory is given out can make a budget between two that do fail: not below
// `from` then.
inline std::size_t smallest_budget(const Tape& tape, std::size_t enough,
                                   std::size_t from = 0) {
  std::size_t least = from;
  std::size_t most = enough;
  while (most - least > std::max<std::size_t>(4096, most / 128)) {
    const std::size_t middle = least + (most - least) / 2;
    (play(tape, {.device_bytes = middle}).fits() ? most : least) = middle;
  }
  return most;
}

}  // namespace ebb::test
