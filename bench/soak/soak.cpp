#include "bench/soak/soak.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <exception>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "allocator/error.h"
#include "bench/soak/soak_memory.h"
#include "bench/soak/soak_programme.h"

namespace ebb::bench {
namespace {

constexpr std::size_t kMostProblems = 20;

void check(const device::Device& device, const device::Device& reference,
           const SoakOptions& options) {
  EBB_CHECK(options.steps > 0, kInvalidArgument, "a soak of ", options.steps, " steps");
  EBB_CHECK(&device != &reference, kInvalidArgument,
            "the soak compares two devices, and was given one twice");
  EBB_CHECK(!device.capability().dry && !reference.capability().dry, kInvalidArgument,
            "a dry device computes no gradients that a soak could compare");
  const bool sensible = std::all_of(options.weights.begin(), options.weights.end(),
                                    [](double w) { return w >= 0 && std::isfinite(w); });
  // Those that need a quiet step are not enough.
  const bool any = options.weights[static_cast<std::size_t>(SoakEvent::kStep)] > 0;
  EBB_CHECK(sensible && any, kInvalidArgument,
            "weights of events are from 0 on, and that of a plain step is not 0");
}

class Soak {
 public:
  Soak(device::Device& device, device::Device& reference, const SoakOptions& options)
      : device_(device),
        options_(options),
        programme_(device, reference, options, figures_),
        watch_(options.steps, programme_.memory()),
        began_(device.now()) {}

  SoakFigures run() {
    while (figures_.steps < options_.steps && step()) {
      if (options_.progress) options_.progress(figures_);
    }
    finish();
    return std::move(figures_);
  }

 private:
  using Clock = std::chrono::steady_clock;

  // False: nothing can follow.
  bool step() {
    const std::int64_t number = figures_.steps + 1;
    bool going = true;
    try {
      const std::vector<std::string> wrong = programme_.step(number);
      if (!wrong.empty()) {
        problem(number, absl::StrCat("gradients differ from the reference's: ",
                                     absl::StrJoin(wrong, ", ")));
      }
      if (programme_.quiet()) look_at_memory(number);
    } catch (const std::exception& error) {
      problem(number, absl::StrCat("an exception that nobody expected: ", error.what()));
      going = false;
    } catch (const Trap::Sprung&) {
      problem(number, "an op threw that was not told to");
      going = false;
    }
    ++figures_.steps;
    update();
    return going;
  }

  void look_at_memory(std::int64_t number) {
    SoakMemory memory = programme_.memory();
    memory.resident_bytes = resident_bytes();
    const std::string wrong = watch_.add(number, memory);
    if (!wrong.empty()) {
      problem(number, absl::StrCat("no graph is alive, and there are ", wrong));
    }
  }

  void update() {
    figures_.engine = programme_.engine_figures();
    figures_.last_loss = programme_.last_loss();
    figures_.virtual_seconds = device_.now() - began_;
    const std::chrono::duration<double> wall = Clock::now() - wall_began_;
    figures_.wall_seconds = wall.count();
    if (options_.checker == nullptr) return;
    const std::uint64_t before = figures_.order.violations;
    figures_.order = options_.checker->order();
    if (figures_.order.violations > before) {
      problem(figures_.steps, absl::StrCat(figures_.order.violations - before,
                                           " accesses without an order, such as: ",
                                           options_.checker->violations().front()));
    }
  }

  void finish() {
    figures_.windows = watch_.windows();
    figures_.resident_growth_bytes_per_step = watch_.resident_growth_bytes_per_step();
    const std::string growth = watch_.growth(options_.most_resident_growth_bytes);
    if (!growth.empty()) problem(figures_.steps, growth);
    if (!std::isfinite(figures_.last_loss)) {
      problem(figures_.steps, "the loss is no number");
    }
    // More memory solves what follows, and nothing that was seen before.
    const bool sound = figures_.problems.empty();
    // A soak that did nothing has shown nothing.
    if (2 * figures_.refusals > figures_.steps) {
      figures_.short_of_memory = sound;
      problem(figures_.steps, absl::StrCat(figures_.refusals,
                                           " steps found no memory: give the soak a larger "
                                           "device budget or host budget"));
    }
    if (options_.policy != offload::Policy::kKeep && figures_.engine.d2h_bytes == 0) {
      const bool full = figures_.engine.no_room_bytes > 0;
      figures_.short_of_memory = sound && (figures_.short_of_memory || full);
      problem(figures_.steps,
              full ? "nothing was moved: give the soak a larger host budget"
                   : "nothing was moved: lower the size from which tensors are offloaded");
    }
  }

  void problem(std::int64_t number, const std::string& text) {
    if (figures_.problems.size() == kMostProblems) return;
    figures_.problems.push_back(
        absl::StrCat("step ", number, " (", name(programme_.event()), "): ", text));
  }

  device::Device& device_;
  const SoakOptions& options_;
  const Clock::time_point wall_began_ = Clock::now();
  SoakFigures figures_;
  SoakProgramme programme_;
  MemoryWatch watch_;
  const double began_;
};

}  // namespace

const char* name(SoakEvent event) noexcept {
  switch (event) {
    case SoakEvent::kStep:
      return "step";
    case SoakEvent::kAccumulate:
      return "accumulate";
    case SoakEvent::kInterleaved:
      return "interleaved";
    case SoakEvent::kHeld:
      return "held";
    case SoakEvent::kRetained:
      return "retained";
    case SoakEvent::kDoubleBackward:
      return "double_backward";
    case SoakEvent::kForwardOnly:
      return "forward_only";
    case SoakEvent::kEvaluation:
      return "evaluation";
    case SoakEvent::kDroppedOutput:
      return "dropped_output";
    case SoakEvent::kThrowsInForward:
      return "throws_in_forward";
    case SoakEvent::kThrowsInRecompute:
      return "throws_in_recompute";
    case SoakEvent::kThrowsInBackward:
      return "throws_in_backward";
    case SoakEvent::kWrittenInPlace:
      return "written_in_place";
    case SoakEvent::kNewStream:
      return "new_stream";
    case SoakEvent::kNewEngine:
      return "new_engine";
    case SoakEvent::kTrimmedPool:
      return "trimmed_pool";
  }
  return "unknown";
}

SoakFigures run_soak(device::Device& device, device::Device& reference,
                     const SoakOptions& options) {
  check(device, reference, options);
  return Soak(device, reference, options).run();
}

}  // namespace ebb::bench
