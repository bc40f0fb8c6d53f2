// The soak: thousands of steps of random events under the offload engine, with every
// gradient compared bit for bit, and memory that has to end as flat as it began.
//
// A small transformer is trained. Each step draws an event: graphs that interleave or stay
// alive for many steps, exceptions in forward, recompute and backward, double backward,
// evaluation, other streams, another engine, and so on. A second device without engine or
// checkpointing computes the same gradients. Whenever no graph is alive, every byte of
// activations has to be back: on the device, in the pinned pool, and in the engine's books.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "offload/engine/engine.h"
#include "runtime/device/check/check_device.h"
#include "runtime/device/device.h"

namespace ebb::bench {

// What a step may do. All but kForwardOnly end in a comparison of gradients.
enum class SoakEvent : std::uint8_t {
  kStep,             // Forward and backward.
  kAccumulate,       // Micro-batches, of which the last is smaller.
  kInterleaved,      // Forward A, forward B, backward B, forward C, backward A.
  kHeld,             // A graph stays alive for many steps; others come and go.
  kRetained,         // Backward more than once, with retain_graph.
  kDoubleBackward,   // The gradient of a gradient, through checkpointed segments.
  kForwardOnly,      // A graph without a backward.
  kEvaluation,       // Without gradients, in the middle of a step.
  kDroppedOutput,    // Part of a graph's output is used by nobody.
  kThrowsInForward,  // Exceptions of a job's own op. The step is done again.
  kThrowsInRecompute,
  kThrowsInBackward,
  kWrittenInPlace,  // A saved weight is written before backward: an error by name.
  kNewStream,       // The job changes to a stream that it has just made.
  kNewEngine,       // The engine goes while graphs are alive; another one comes.
  kTrimmedPool,     // The pinned pool is given back, and taken anew.
};
inline constexpr std::size_t kSoakEvents = 16;
// As in "throws_in_forward".
const char* name(SoakEvent event) noexcept;

template <typename T>
using BySoakEvent = std::array<T, kSoakEvents>;

// Bytes and counts at the end of a step.
struct SoakMemory {
  std::size_t device_bytes = 0;           // That tensors hold, on no clock.
  std::size_t device_reserved_bytes = 0;  // Of addresses.
  std::size_t host_bytes = 0;  // Of the pinned pool: lent, or waiting for a fence.
  std::size_t host_pinned_bytes = 0;
  std::size_t engine_blocks = 0;
  std::size_t engine_backwards = 0;  // Under way, or over and not learned from.
  std::size_t engine_learned = 0;    // Orders of use that it remembers.
  std::size_t resident_bytes = 0;    // Of the process; 0 where that is not known.
};

// The steps from `first_step` on for a tenth of the run, those with no graph alive.
struct SoakWindow {
  std::int64_t first_step = 0;  // From 1.
  std::int64_t samples = 0;
  SoakMemory least;  // Of each figure by itself.
  SoakMemory most;
};

struct SoakFigures {
  std::int64_t steps = 0;
  BySoakEvent<std::int64_t> events{};
  std::int64_t graphs = 0;
  std::int64_t graphs_alive_at_once = 0;  // At most.
  std::int64_t exceptions = 0;            // Thrown on purpose, and seen.
  std::int64_t refusals = 0;  // Steps that found no memory: left out, and training goes on.
  std::int64_t steps_compared = 0;
  std::int64_t gradients_compared = 0;  // Tensors.
  offload::EngineFigures engine;        // Of all engines together.
  device::OrderFigures order;           // Of the checker, if there is one.
  std::vector<SoakWindow> windows;
  double resident_growth_bytes_per_step = 0;  // Over the second half: least squares.
  double last_loss = 0;
  double virtual_seconds = 0;  // On the device's clock.
  double wall_seconds = 0;

  // There are problems, and more of the device's or the host's memory would solve them all.
  bool short_of_memory = false;
  // What went wrong, each in words; the first 20.
  std::vector<std::string> problems;
  bool passed() const noexcept { return problems.empty(); }
};

struct SoakOptions {
  std::int64_t steps = 2000;
  std::uint64_t seed = 1;
  offload::Policy policy = offload::Policy::kSaved;
  std::size_t min_offload_bytes = 1024;
  std::size_t host_budget_bytes = std::size_t{16} << 20;  // Of the pinned pool.
  // More over the second half is a problem. Generous: exact are the other figures.
  std::size_t most_resident_growth_bytes = std::size_t{64} << 20;
  // How likely an event is, against the others.
  BySoakEvent<double> weights = {4, 2, 2, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
  // `device`, if it is one: its figures are reported, and a violation is a problem.
  const device::CheckDevice* checker = nullptr;
  // After each step, with the figures so far. What it throws ends the soak.
  std::function<void(const SoakFigures&)> progress;
};

// Runs the soak. `device` has no hooks and no reclaimer of its own; a device budget is its
// limit. `reference` has the same kernels and no limit; both are real, not dry. What is
// wrong is reported in the figures; an unexpected exception ends the soak and is a problem
// too. Throws Error{kInvalidArgument} for options that make no sense, and whatever
// `progress` throws. All memory taken on both devices is given back.
SoakFigures run_soak(device::Device& device, device::Device& reference,
                     const SoakOptions& options);

}  // namespace ebb::bench
