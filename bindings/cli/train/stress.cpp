#include "bindings/cli/train/stress.h"

#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

#include "allocator/bytes_text.h"
#include "allocator/error.h"
#include "allocator/host_limits.h"
#include "bench/soak/soak.h"
#include "bindings/cli/exit_code.h"
#include "bindings/cli/progress.h"
#include "bindings/cli/train/failure.h"
#include "bindings/cli/train/machine_limits.h"
#include "bindings/cli/train/preflight.h"
#include "bindings/cli/train/refusal.h"
#include "bindings/cli/train/stress_budget.h"
#include "bindings/cli/train/stress_report.h"
#include "kernels/cpu/cpu_kernels.h"
#include "offload/report/report.h"
#include "runtime/device/check/check_device.h"
#include "runtime/device/sim/sim_device.h"
#include "runtime/io/atomic_file.h"

namespace ebb::cli {
namespace {

using nlohmann::ordered_json;

struct Outcome {
  bench::SoakFigures figures;
  std::optional<Refusal> failure;

  bool short_of_memory() const {
    // What the soak saw until then comes first: it may be worse.
    if (!figures.problems.empty()) return figures.short_of_memory;
    return failure && failure->code == absl::StatusCode::kResourceExhausted;
  }
  SoakEnd end() const {
    if (!failure) return SoakEnd::kPass;
    return failure->code == absl::StatusCode::kCancelled ? SoakEnd::kInterrupted
                                                         : SoakEnd::kFail;
  }
};

std::unique_ptr<device::Device> make_device(const config::RunConfig& config,
                                            std::size_t limit_bytes,
                                            const device::CheckDevice*& checker) {
  device::SimOptions options;
  options.profile = config.profile;
  options.profile.capacity_bytes = std::nullopt;  // The limit alone counts.
  options.order = config.order;
  options.limit_bytes = limit_bytes;
  auto device = device::make_sim_device(options, cpu_kernels());
  if (!config.check) return device;
  auto checking =
      device::make_check_device(std::move(device), {.throw_on_violation = false});
  checker = checking.get();
  return checking;
}

using AfterStep = std::function<void(const bench::SoakFigures&)>;

Outcome soak(const config::RunConfig& config, const StressBudgets& budgets,
             std::int64_t steps, const AfterStep& after_step) {
  Outcome outcome;
  try {
    const device::CheckDevice* checker = nullptr;
    const auto device = make_device(config, budgets.device_bytes, checker);
    device::SimOptions plain;
    plain.profile = device::load_profile("free");
    plain.order.kind = device::Order::Kind::kEager;
    plain.limit_bytes = kMostStressBytes;
    const auto reference = device::make_sim_device(plain, cpu_kernels());
    bench::SoakOptions options;
    options.steps = steps;
    options.seed = config.seed;
    options.policy = config.offload == config::OffloadPolicy::kInputs
                         ? offload::Policy::kInputs
                         : offload::Policy::kSaved;
    options.min_offload_bytes =
        config.min_offload_bytes.value_or(options.min_offload_bytes);
    options.host_budget_bytes = budgets.host_bytes;
    options.checker = checker;
    options.progress = [&](const bench::SoakFigures& so_far) {
      outcome.figures = so_far;  // What was done until an end that nobody expected.
      after_step(so_far);
    };
    outcome.figures = bench::run_soak(*device, *reference, options);
    if (!outcome.figures.passed()) {
      outcome.failure = Refusal{.code = absl::StatusCode::kInternal,
                                .message = outcome.figures.problems.front()};
    }
  } catch (const std::exception& error) {
    outcome.failure = failure(error, read_host_limits(), config.host_budget_flag);
  }
  return outcome;
}

Outcome soak_or_say_why(const config::RunConfig& config, const Interrupt& interrupt,
                        std::FILE* err) {
  StressBudgets budgets;
  budgets.device_bytes =
      std::min(device_budget_bytes(config).value_or(kMostStressBytes), kMostStressBytes);
  budgets.host_bytes =
      std::min(config.host_budget_bytes.value_or(budgets.host_bytes), kMostStressBytes);
  Outcome outcome;
  {
    Progress progress(err, isatty(fileno(err)) != 0, config.steps);
    outcome = soak(config, budgets, config.steps, [&](const bench::SoakFigures& so_far) {
      interrupt.check("in the soak");
      progress.update(so_far.steps, so_far.last_loss);
    });
  }
  if (outcome.failure && outcome.short_of_memory()) {
    try {
      outcome.failure = too_small(
          config, budgets, *outcome.failure,
          [&](const StressBudgets& larger, std::int64_t steps) {
            // Steps that find no memory are left out, up to a half of all.
            const auto go_on = [&](const bench::SoakFigures& so_far) {
              interrupt.check("in the soak");
              EBB_CHECK(so_far.problems.empty() && 2 * so_far.refusals <= steps,
                        kResourceExhausted, "too little memory");
            };
            const Outcome tried = soak(config, larger, steps, go_on);
            if (tried.end() == SoakEnd::kInterrupted) interrupt.check("in the soak");
            const bool passed = tried.end() == SoakEnd::kPass;
            say(err, absl::StrCat("looking for the smallest budget: ", steps, " steps ",
                                  passed ? "work" : "do not work", " with ",
                                  bytes_text(larger.device_bytes), " of device memory and ",
                                  bytes_text(larger.host_bytes), " of host memory"));
            return passed;
          });
    } catch (const std::exception& error) {
      outcome.failure = failure(error, read_host_limits(), config.host_budget_flag);
    }
  }
  return outcome;
}

ordered_json report(const config::RunConfig& config, const Environment& environment,
                    const Outcome& outcome) {
  ordered_json asked = {{"stress", true}};
  ordered_json all = config::to_json(config);
  for (const char* flag :
       {"steps", "seed", "threads", "device", "device-budget", "host-budget",
        "node-host-budget", "min-offload-bytes", "offload", "check", "order"}) {
    asked[flag] = all[flag];
  }
  ordered_json json = {{"version", 1},
                       {"config", std::move(asked)},
                       {"environment",
                        {{"version", environment.version},
                         {"commit", environment.commit},
                         {"cpu", environment.cpu},
                         {"threads", config.threads}}},
                       {"stress", to_json(outcome.figures, outcome.end())}};
  if (outcome.failure) {
    const auto size = [](const std::optional<std::size_t>& bytes) {
      return bytes ? ordered_json(*bytes) : ordered_json(nullptr);
    };
    const Refusal& failed = *outcome.failure;
    json["error"] = {
        {"code", absl::StatusCodeToString(failed.code)},
        {"message", failed.message},
        {"smallest_device_budget_bytes", size(failed.smallest_device_budget_bytes)},
        {"smallest_host_budget_bytes", size(failed.smallest_host_budget_bytes)},
        {"resource", offload::resource_json(failed.resource)}};
  }
  return json;
}

}  // namespace

int stress(const config::RunConfig& config, const Environment& environment,
           const Interrupt& interrupt, const Output& output) {
  Outcome outcome;
  outcome.failure = host_budget_refusal(config, read_host_limits());
  if (!outcome.failure) {
    set_cpu_threads(config.threads);
    outcome = soak_or_say_why(config, interrupt, output.err);
  }
  if (outcome.failure) say(output.err, outcome.failure->message);
  const std::string text = report(config, environment, outcome).dump(1) + "\n";
  if (!config.report.empty()) io::write_atomically(config.report, text);
  const std::string result = config.json ? text : to_text(outcome.figures, outcome.end());
  if (config.json || outcome.figures.steps > 0) std::fputs(result.c_str(), output.out);
  std::fflush(output.out);
  return outcome.failure ? kFailed : kSuccess;
}

}  // namespace ebb::cli
