#include "bindings/cli/train/run_report.h"

#include <utility>

#include "absl/strings/str_cat.h"

#include "offload/report/timeline.h"
#include "offload/report/warnings.h"

namespace ebb::cli {
namespace {

// The mean after the first step, which warms caches up.
std::optional<double> mean_wall_seconds(const std::vector<train::StepResult>& steps) {
  if (steps.empty()) return std::nullopt;
  if (steps.size() == 1) return steps.front().wall_seconds;
  double sum = 0;
  for (std::size_t i = 1; i < steps.size(); ++i) sum += steps[i].wall_seconds;
  return sum / static_cast<double>(steps.size() - 1);
}

}  // namespace

offload::Report begin_report(const config::RunConfig& config,
                             const Environment& environment) {
  offload::Report report;
  report.config = config::to_json(config);
  report.environment = {.version = environment.version,
                        .commit = environment.commit,
                        .cpu = environment.cpu,
                        .threads = config.threads};
  report.model = config.model_name;
  report.tokens_per_step = config.batch * config.accumulate * config.seq;
  report.virtual_clock = !config.profile.free;
  report.device.name = config.device;
  report.device.budget_bytes = device_budget_bytes(config);
  report.host.budget_bytes = config.host_budget_bytes;
  for (const config::Note& note : config.notes()) {
    report.warnings.push_back({note.code, note.message});
  }
  return report;
}

void fill_report(offload::Report& report, Run& run,
                 const std::vector<train::StepResult>& steps, const Without& without) {
  const bool dry = run.device().capability().dry;
  report.steps = static_cast<std::int64_t>(steps.size());
  for (const train::StepResult& step : steps) {
    if (step.loss) report.loss.push_back(*step.loss);
    if (step.checksum) report.gradients.checksum.push_back(*step.checksum);
  }
  if (!dry) report.wall_step_seconds = mean_wall_seconds(steps);
  report.device.memory = run.device().memory().figures();
  report.device.peak_without_bytes = without.peak_bytes;
  report.engine = run.engine().figures();
  report.host.pool = run.pool().stats();
  report.host.pin_calls_in_steps = run.pin_calls_in_steps();
  report.step_seconds_without = without.step_seconds;
  if (const offload::RunRecorder* recorder = run.recorder()) {
    report.time = recorder->figures();
    report.d2h = recorder->d2h();
    report.h2d = recorder->h2d();
    report.timeline = offload::timeline(recorder->last_step());
    report.stages = offload::stages(recorder->last_step(), run.last_sent());
  }
  if (const train::GradientVerifier* verifier = run.verifier()) {
    const train::VerifyFigures& figures = verifier->figures();
    report.gradients.verified = figures.steps > 0;
    report.gradients.bit_equal = figures.bit_equal;
    report.gradients.max_abs_difference = figures.max_abs_difference;
  }
  if (const device::CheckDevice* check = run.check()) {
    const device::OrderFigures order = check->order();
    report.order = {
        .checked = true, .accesses = order.accesses, .violations = order.violations};
  }
  for (offload::Warning& warning : offload::find_warnings(report)) {
    report.warnings.push_back(std::move(warning));
  }
}

std::string what_went_wrong(const Run& run) {
  if (const train::GradientVerifier* verifier = run.verifier()) {
    const train::VerifyFigures& figures = verifier->figures();
    if (!figures.bit_equal) {
      return absl::StrCat("gradients differ from the plain run's, first in ",
                          figures.first_difference, ", by up to ",
                          figures.max_abs_difference);
    }
  }
  if (const device::CheckDevice* check = run.check()) {
    const std::vector<std::string> violations = check->violations();
    if (!violations.empty()) {
      return absl::StrCat(check->order().violations,
                          " accesses were out of order, the first: ", violations.front());
    }
  }
  return {};
}

}  // namespace ebb::cli
