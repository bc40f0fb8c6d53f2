#include "offload/report/report.h"

#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "absl/strings/str_format.h"

namespace ebb::offload {
namespace {

using nlohmann::ordered_json;

template <typename T>
ordered_json value_or_null(const std::optional<T>& value) {
  return value ? ordered_json(*value) : ordered_json(nullptr);
}

// JSON has no NaN and no infinity.
ordered_json finite_or_null(double value) {
  return std::isfinite(value) ? ordered_json(value) : ordered_json(nullptr);
}

ordered_json nine_digits(double value) {
  if (!std::isfinite(value)) return nullptr;
  return std::strtod(absl::StrFormat("%.9g", value).c_str(), nullptr);
}

ordered_json losses(const std::vector<double>& loss) {
  ordered_json list = ordered_json::array();
  for (const double value : loss) list.push_back(nine_digits(value));
  return list;
}

ordered_json by_purpose(const BytesByPurpose& bytes, bool host) {
  ordered_json result = ordered_json::object();
  for (std::size_t i = 0; i < kPurposes; ++i) {
    const auto purpose = static_cast<Purpose>(i);
    if (purpose == Purpose::kStaging && !host) continue;
    result[name(purpose)] = bytes[purpose];
  }
  return result;
}

ordered_json device_json(const Report::DeviceFigures& device) {
  return {{"name", device.name},
          {"budget_bytes", value_or_null(device.budget_bytes)},
          {"peak_bytes", device.memory.peak_bytes},
          {"peak_activation_bytes", device.memory.peak_activation_bytes},
          {"peak_without_bytes", value_or_null(device.peak_without_bytes)},
          {"by_purpose", by_purpose(device.memory.at_peak, false)}};
}

// kept_bytes by reason.
ordered_json kept_json(const EngineFigures& engine) {
  static constexpr std::array<const char*, kKeptReasons> kNames{
      "policy", "elsewhere", "small", "in_use", "no_room"};
  ordered_json result = ordered_json::object();
  for (std::size_t i = 0; i < kKeptReasons; ++i) {
    result[kNames[i]] = {{"tensors", engine.kept[i].tensors},
                         {"bytes", engine.kept[i].bytes}};
  }
  return result;
}

ordered_json activations_json(const EngineFigures& engine) {
  return {{"saved_bytes", engine.kept_bytes + engine.offloaded_bytes +
                              engine.recomputed_bytes + engine.shared_bytes},
          {"kept_bytes", engine.kept_bytes},
          {"offloaded_bytes", engine.offloaded_bytes},
          {"recomputed_bytes", engine.recomputed_bytes},
          {"compressed_bytes", 0},
          {"shared_bytes", engine.shared_bytes},
          {"kept", kept_json(engine)}};
}

ordered_json host_json(const Report::Host& host, const EngineFigures& engine) {
  return {{"budget_bytes", value_or_null(host.budget_bytes)},
          {"pinned_bytes", host.pool.pinned_bytes},
          {"peak_requested_bytes", host.pool.peak_requested_bytes},
          {"pin_calls_in_steps", host.pin_calls_in_steps},
          {"by_purpose", by_purpose(host.pool.peak_by_purpose, true)},
          {"no_room",
           {{"waits", engine.room_waits},
            {"kept_bytes", engine.no_room_bytes},
            {"recomputed_bytes", engine.no_room_recomputed_bytes}}}};
}

// What a direction of the link was thought to do, and what plans are made with at the end.
ordered_json plan_json(const LinkPlan& plan) {
  return {{"planned_bytes_per_second", finite_or_null(plan.planned)},
          {"measured_bytes_per_second", finite_or_null(plan.measured)},
          {"replans", plan.replans},
          {"step", plan.step}};
}

ordered_json transfers_json(const Report& report) {
  const auto rate = [](const LinkFigures& link) {
    return link.busy_seconds > 0
               ? ordered_json(static_cast<double>(link.bytes) / link.busy_seconds)
               : ordered_json(nullptr);
  };
  return {{"d2h_bytes", report.engine.d2h_bytes},
          {"h2d_bytes", report.engine.h2d_bytes},
          {"revived_bytes", report.engine.revived_bytes},
          {"dropped_bytes", report.engine.dropped_bytes},
          {"refetched_bytes", report.engine.refetched_bytes},
          {"d2h_bytes_per_second", rate(report.d2h)},
          {"h2d_bytes_per_second", rate(report.h2d)},
          {"d2h_plan", plan_json(report.engine.d2h_plan)},
          {"h2d_plan", plan_json(report.engine.h2d_plan)}};
}

// Means over micro-steps are whole bytes where all are alike.
ordered_json bytes_json(double bytes) {
  return bytes == std::floor(bytes) ? ordered_json(static_cast<std::uint64_t>(bytes))
                                    : ordered_json(bytes);
}

ordered_json bound_json(const Bound& bound) {
  return {{"seconds", bound.seconds},
          {"f", bound.forward_seconds},
          {"r", bound.recompute_seconds},
          {"b", bound.backward_seconds},
          {"o", bound.optimizer_seconds},
          {"D", bytes_json(bound.sent_bytes)},
          {"H", bytes_json(bound.fetched_bytes)},
          {"W", bytes_json(bound.kept_bytes)},
          {"d2h", finite_or_null(bound.d2h_bytes_per_second)},
          {"h2d", finite_or_null(bound.h2d_bytes_per_second)},
          {"duplex", finite_or_null(bound.duplex_bytes_per_second)}};
}

ordered_json stall_json(const StepTime& step) {
  ordered_json result = ordered_json::object();
  for (std::size_t i = 0; i < step.stall.size(); ++i) {
    result[name(static_cast<device::StallCause>(i))] = step.stall[i];
  }
  return result;
}

ordered_json time_json(const Report& report) {
  const StepTime& step = report.time.step;
  ordered_json time = {{"step_seconds", step.step},
                       {"step_seconds_without", value_or_null(report.step_seconds_without)},
                       {"compute_seconds", step.compute},
                       {"recompute_seconds", step.recompute}};
  const bool known = report.virtual_clock && report.time.steps > 0;
  time["bound"] = known ? bound_json(report.time.bound) : ordered_json(nullptr);
  time["stall_seconds"] = known ? stall_json(step) : ordered_json(nullptr);
  return time;
}

ordered_json gradients_json(const Report::Gradients& gradients) {
  ordered_json checksums = ordered_json::array();
  for (const std::uint64_t sum : gradients.checksum) {
    checksums.push_back(checksum_text(sum));
  }
  return {{"checksum", std::move(checksums)},
          {"verified", gradients.verified},
          {"bit_equal", gradients.bit_equal},
          {"max_abs_difference", finite_or_null(gradients.max_abs_difference)}};
}

ordered_json warnings_json(const std::vector<Warning>& warnings) {
  ordered_json list = ordered_json::array();
  for (const Warning& warning : warnings) {
    list.push_back({{"code", warning.code}, {"message", warning.message}});
  }
  return list;
}

}  // namespace

std::string checksum_text(std::uint64_t checksum) {
  return absl::StrFormat("%016x", checksum);
}

ordered_json to_json(const Report& report) {
  ordered_json json = {{"version", 1},
                       {"config", report.config},
                       {"environment",
                        {{"version", report.environment.version},
                         {"commit", report.environment.commit},
                         {"cpu", report.environment.cpu},
                         {"threads", report.environment.threads}}},
                       {"model", report.model},
                       {"world_size", report.world_size},
                       {"rank", report.rank},
                       {"steps", report.steps},
                       {"tokens_per_step", report.tokens_per_step},
                       {"loss", losses(report.loss)},
                       {"clock", report.virtual_clock ? "virtual" : "wall"},
                       {"wall_step_seconds", value_or_null(report.wall_step_seconds)},
                       {"device", device_json(report.device)},
                       {"activations", activations_json(report.engine)},
                       {"host", host_json(report.host, report.engine)},
                       {"nvme", {{"written_bytes", 0}, {"read_bytes", 0}}},
                       {"transfers", transfers_json(report)},
                       {"time", time_json(report)},
                       {"prefetch",
                        {{"hits", report.engine.hits},
                         {"late", report.engine.late},
                         {"missed", report.engine.missed}}},
                       {"gradients", gradients_json(report.gradients)},
                       {"order",
                        {{"checked", report.order.checked},
                         {"accesses", report.order.accesses},
                         {"violations", report.order.violations}}},
                       {"plan", nullptr},
                       {"stages", report.stages},
                       {"timeline", report.timeline},
                       {"warnings", warnings_json(report.warnings)}};
  if (report.error) {
    json["error"] = {{"code", report.error->code},
                     {"message", report.error->message},
                     {"smallest_device_budget_bytes",
                      value_or_null(report.error->smallest_device_budget_bytes)},
                     {"smallest_host_budget_bytes",
                      value_or_null(report.error->smallest_host_budget_bytes)},
                     {"resource", resource_json(report.error->resource)}};
  }
  return json;
}

nlohmann::ordered_json resource_json(Error::Resource resource) {
  switch (resource) {
    case Error::Resource::kDeviceMemory:
      return "device_memory";
    case Error::Resource::kHostMemory:
      return "host_memory";
    case Error::Resource::kOther:
      break;
  }
  return nullptr;
}

std::string to_text(const Report& report) { return to_json(report).dump(1) + "\n"; }

}  // namespace ebb::offload
