#include "bindings/cli/train/train_command.h"

#include <unistd.h>

#include <cstddef>
#include <cstdlib>
#include <exception>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"

#include "allocator/bytes_text.h"
#include "allocator/error.h"
#include "allocator/host_limits.h"
#include "bindings/cli/environment.h"
#include "bindings/cli/exit_code.h"
#include "bindings/cli/interrupt.h"
#include "bindings/cli/progress.h"
#include "bindings/cli/train/failure.h"
#include "bindings/cli/train/learned.h"
#include "bindings/cli/train/machine_limits.h"
#include "bindings/cli/train/preflight.h"
#include "bindings/cli/train/refusal.h"
#include "bindings/cli/train/run.h"
#include "bindings/cli/train/run_report.h"
#include "bindings/cli/train/stress.h"
#include "bindings/config/run_config.h"
#include "kernels/cpu/cpu_kernels.h"
#include "offload/report/report.h"
#include "offload/report/summary.h"
#include "runtime/io/atomic_file.h"
#include "runtime/train/text_data.h"

namespace ebb::cli {
namespace {

std::optional<std::string> environment_variable(const char* name) {
  const char* const value = std::getenv(name);
  if (value == nullptr) return std::nullopt;
  return value;
}

config::RunConfig read_config(const config::Settings& flags,
                              const Environment& environment) {
  config::RunConfig config = config::make_run_config(
      config::merged({.flags = flags,
                      .environment = config::environment_settings(environment_variable),
                      .file = {}}),
      environment.cores);
  if (config.data.empty() && !config.stress) config.data = shipped_text();
  return config;
}

// What was asked for, read and checked; nothing has been done yet.
struct Request {
  Environment environment;
  config::RunConfig config;
  std::optional<train::TextData> data;  // None under stress.
};

Request read_request(const config::Settings& flags) {
  Request request;
  request.environment = read_environment();
  request.config = read_config(flags, request.environment);
  const config::RunConfig& config = request.config;
  if (!config.stress) {
    request.data = train::TextData::load(config.data, config.seq, config.model.vocabulary);
  }
  if (!config.report.empty()) io::check_writable(config.report);
  return request;
}

// Why not all of the host budget is used.
std::string why_less(const config::RunConfig& config, const Clearance& clearance) {
  const Compared sizes =
      compared(*clearance.host_budget_bytes, config.host_budget_bytes.value_or(0));
  return absl::StrCat(
      "the run does not fit its device budget with all of its host budget, ", sizes.has,
      ", and does with ", sizes.needs, ": it uses no more; a larger ",
      config.host_budget_flag, " or --device-budget may serve it better");
}

// One request carried out, from the preflight to the report.
class TrainCommand {
 public:
  TrainCommand(Request request, const Output& output)
      : request_(std::move(request)),
        output_(output),
        report_(begin_report(request_.config, request_.environment)) {}

  int run();

 private:
  const config::RunConfig& config() const { return request_.config; }
  int refuse(const Refusal& refusal);
  int carry_out(const Clearance& clearance);
  void take_steps(Run& run, std::vector<train::StepResult>& steps);
  void write_report();
  // Those that were not said yet.
  void say_warnings();

  Request request_;
  const Output output_;
  const Interrupt interrupt_;  // Before any other thread.
  offload::Report report_;
  std::size_t said_ = 0;  // Of its warnings.
};

void TrainCommand::say_warnings() {
  for (; said_ < report_.warnings.size(); ++said_) {
    say(output_.err, absl::StrCat("warning: ", report_.warnings[said_].message));
  }
}

void TrainCommand::write_report() {
  if (!config().report.empty()) {
    io::write_atomically(config().report, offload::to_text(report_));
  }
}

int TrainCommand::refuse(const Refusal& refusal) {
  report_.error = {.code = absl::StatusCodeToString(refusal.code),
                   .message = refusal.message,
                   .smallest_device_budget_bytes = refusal.smallest_device_budget_bytes,
                   .smallest_host_budget_bytes = refusal.smallest_host_budget_bytes,
                   .resource = refusal.resource};
  say_warnings();
  say(output_.err, refusal.message);
  if (config().json) std::fputs(offload::to_text(report_).c_str(), output_.out);
  write_report();
  return kFailed;
}

void TrainCommand::take_steps(Run& run, std::vector<train::StepResult>& steps) {
  Progress progress(output_.err, isatty(fileno(output_.err)) != 0, config().steps);
  for (std::int64_t step = 0; step < config().steps; ++step) {
    interrupt_.check("in training");
    steps.push_back(run.step());
    if (!config().dry) progress.update(step + 1, steps.back().loss);
  }
}

int TrainCommand::carry_out(const Clearance& clearance) {
  const bool dry = config().dry;
  const HostLimits limits = read_host_limits();
  if (const auto refusal = machine_refusal(config(), clearance, limits)) {
    return refuse(*refusal);
  }
  const DeviceAddresses addresses = device_addresses(config(), clearance, limits);
  if (addresses.limited) {
    report_.warnings.push_back(
        {"address_space",
         absl::StrCat("the simulated device takes addresses for ",
                      bytes_text(*addresses.device_limit_bytes),
                      " only, as RLIMIT_AS (ulimit -v) leaves no more; to raise it: ",
                      how_to_map_more())});
    say_warnings();
  }
  config::RunConfig limited = config();
  if (clearance.host_budget_bytes) {
    limited.host_budget_bytes = clearance.host_budget_bytes;
    report_.warnings.push_back({"host_budget_lowered", why_less(config(), clearance)});
    say_warnings();
  }
  Run run(limited,
          {.dry = dry,
           .device_limit_bytes = addresses.device_limit_bytes,
           .device_budget_bytes = device_budget_bytes(config()),
           .reference_limit_bytes = addresses.reference_limit_bytes,
           .host_reserve_bytes = clearance.host_reserve_bytes,
           .record = true},
          dry ? nullptr : &*request_.data);
  std::vector<train::StepResult> steps;
  try {
    take_steps(run, steps);
  } catch (const std::exception&) {  // What was done until then is worth knowing.
    fill_report(report_, run, steps, clearance.without);
    throw;
  }
  fill_report(report_, run, steps, clearance.without);
  say_warnings();
  if (const std::string wrong = what_went_wrong(run); !wrong.empty()) {
    return refuse({.code = absl::StatusCode::kInternal, .message = wrong});
  }
  write_report();
  std::string result;
  if (config().json) {
    result = offload::to_text(report_);
  } else {
    if (!dry) result = to_text(look_at_learned(run.model(), *request_.data, config()));
    result += offload::summary(report_);
  }
  std::fputs(result.c_str(), output_.out);
  std::fflush(output_.out);
  return kSuccess;
}

int TrainCommand::run() {
  try {
    set_cpu_threads(config().threads);
    say_warnings();
    if (const auto refusal = host_budget_refusal(config(), read_host_limits())) {
      return refuse(*refusal);
    }
    const Verdict verdict = preflight(config(), interrupt_);
    if (const auto* refusal = std::get_if<Refusal>(&verdict)) return refuse(*refusal);
    return carry_out(std::get<Clearance>(verdict));
  } catch (const std::exception& error) {
    return refuse(failure(error, read_host_limits(), config().host_budget_flag));
  }
}

}  // namespace

int train(const config::Settings& flags, const Output& output) {
  std::optional<Request> request;
  try {
    request = read_request(flags);
  } catch (const Error& error) {
    say(output.err, sentence(error));
    return error.code() == absl::StatusCode::kInvalidArgument ? kWrongRequest : kFailed;
  }
  const std::string host_budget_flag = request->config.host_budget_flag;
  try {
    if (request->config.stress) {
      const Interrupt interrupt;
      return stress(request->config, request->environment, interrupt, output);
    }
    return TrainCommand(std::move(*request), output).run();
  } catch (const std::exception& error) {  // The report could not be written.
    say(output.err, failure(error, read_host_limits(), host_budget_flag).message);
    return kFailed;
  }
}

}  // namespace ebb::cli
