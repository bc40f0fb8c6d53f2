#include "bindings/cli/train/stress.h"

#include <unistd.h>

#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

#include "allocator/host_limits.h"
#include "bench/soak/soak.h"
#include "bindings/cli/exit_code.h"
#include "bindings/cli/progress.h"
#include "bindings/cli/train/failure.h"
#include "bindings/cli/train/preflight.h"
#include "bindings/cli/train/stress_report.h"
#include "kernels/cpu/cpu_kernels.h"
#include "runtime/device/check/check_device.h"
#include "runtime/device/sim/sim_device.h"
#include "runtime/io/atomic_file.h"

namespace ebb::cli {
namespace {

using nlohmann::ordered_json;

struct Outcome {
  bench::SoakFigures figures;
  std::optional<Refusal> failure;
};

std::unique_ptr<device::Device> make_device(const config::RunConfig& config,
                                            const device::CheckDevice*& checker) {
  device::SimOptions options;
  options.profile = config.profile;
  options.profile.capacity_bytes = std::nullopt;  // The limit alone counts.
  options.order = config.order;
  options.limit_bytes = device_budget_bytes(config);
  auto device = device::make_sim_device(options, cpu_kernels());
  if (!config.check) return device;
  auto checking =
      device::make_check_device(std::move(device), {.throw_on_violation = false});
  checker = checking.get();
  return checking;
}

Outcome soak(const config::RunConfig& config, const Interrupt& interrupt, std::FILE* err) {
  Outcome outcome;
  try {
    const device::CheckDevice* checker = nullptr;
    const auto device = make_device(config, checker);
    device::SimOptions plain;
    plain.profile = device::load_profile("free");
    plain.order.kind = device::Order::Kind::kEager;
    const auto reference = device::make_sim_device(plain, cpu_kernels());
    Progress progress(err, isatty(fileno(err)) != 0, config.steps);
    bench::SoakOptions options;
    options.steps = config.steps;
    options.seed = config.seed;
    options.policy = config.offload == config::OffloadPolicy::kInputs
                         ? offload::Policy::kInputs
                         : offload::Policy::kSaved;
    options.min_offload_bytes =
        config.min_offload_bytes.value_or(options.min_offload_bytes);
    options.host_budget_bytes =
        config.host_budget_bytes.value_or(options.host_budget_bytes);
    options.checker = checker;
    options.progress = [&](const bench::SoakFigures& so_far) {
      outcome.figures = so_far;  // What was done until an end that nobody expected.
      interrupt.check("in the soak");
      progress.update(so_far.steps, so_far.last_loss);
    };
    outcome.figures = bench::run_soak(*device, *reference, options);
    if (!outcome.figures.passed()) {
      outcome.failure = Refusal{.code = absl::StatusCode::kInternal,
                                .message = outcome.figures.problems.front()};
    }
  } catch (const std::exception& error) {
    outcome.failure = failure(error);
  }
  return outcome;
}

ordered_json report(const config::RunConfig& config, const Environment& environment,
                    const Outcome& outcome) {
  ordered_json asked = {{"stress", true}};
  ordered_json all = config::to_json(config);
  for (const char* flag :
       {"steps", "seed", "threads", "device", "device-budget", "host-budget",
        "min-offload-bytes", "offload", "check", "order"}) {
    asked[flag] = all[flag];
  }
  ordered_json json = {{"version", 1},
                       {"config", std::move(asked)},
                       {"environment",
                        {{"version", environment.version},
                         {"commit", environment.commit},
                         {"cpu", environment.cpu},
                         {"threads", config.threads}}},
                       {"stress", to_json(outcome.figures)}};
  if (outcome.failure) {
    json["error"] = {{"code", absl::StatusCodeToString(outcome.failure->code)},
                     {"message", outcome.failure->message}};
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
    outcome = soak(config, interrupt, output.err);
  }
  if (outcome.failure) say(output.err, outcome.failure->message);
  const std::string text = report(config, environment, outcome).dump(1) + "\n";
  if (!config.report.empty()) io::write_atomically(config.report, text);
  const std::string result = config.json ? text : to_text(outcome.figures);
  if (config.json || outcome.figures.steps > 0) std::fputs(result.c_str(), output.out);
  std::fflush(output.out);
  return outcome.failure ? kFailed : kSuccess;
}

}  // namespace ebb::cli
