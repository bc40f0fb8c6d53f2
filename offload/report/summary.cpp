#include "offload/report/summary.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

namespace ebb::offload {
namespace {

void line(std::string& text, const char* label, const std::string& value) {
  absl::StrAppendFormat(&text, "  %-14s %s\n", label, value);
}

std::string percent(double part, double whole) {
  return absl::StrFormat("%+.1f %%", 100 * (part / whole - 1));
}

std::string device_line(const Report& report) {
  const auto& device = report.device;
  std::string text =
      absl::StrCat("peak ", bytes_text(static_cast<double>(device.memory.peak_bytes)));
  if (device.budget_bytes) {
    absl::StrAppend(&text, " of ", bytes_text(static_cast<double>(*device.budget_bytes)));
  }
  absl::StrAppend(&text, ", activations ",
                  bytes_text(static_cast<double>(device.memory.peak_activation_bytes)));
  if (device.peak_without_bytes) {
    absl::StrAppend(&text, "; without: peak ",
                    bytes_text(static_cast<double>(*device.peak_without_bytes)));
  }
  return text;
}

std::string moved_line(const EngineFigures& engine) {
  std::string text =
      absl::StrCat(bytes_text(static_cast<double>(engine.d2h_bytes)), " to the host, ",
                   bytes_text(static_cast<double>(engine.h2d_bytes)), " back");
  if (engine.revived_bytes > 0) {
    absl::StrAppend(&text, ", ", bytes_text(static_cast<double>(engine.revived_bytes)),
                    " needed while still there");
  }
  if (engine.dropped_bytes > 0) {
    absl::StrAppend(&text, ", ", bytes_text(static_cast<double>(engine.dropped_bytes)),
                    " not needed again");
  }
  if (engine.refetched_bytes > 0) {
    absl::StrAppend(&text, ", ", bytes_text(static_cast<double>(engine.refetched_bytes)),
                    " fetched twice");
  }
  return text;
}

std::string time_line(const Report& report) {
  const double step = report.time.step.step;
  std::string text = absl::StrCat(
      seconds_text(step), report.virtual_clock ? " (virtual clock)" : " (wall clock)");
  if (report.step_seconds_without && *report.step_seconds_without > 0) {
    absl::StrAppend(&text, "; without: ", seconds_text(*report.step_seconds_without), " (",
                    percent(step, *report.step_seconds_without), ")");
  }
  const double bound = report.time.bound.seconds;
  if (report.virtual_clock && bound > 0) {
    absl::StrAppend(&text, "; bound: ", seconds_text(bound), " (", percent(step, bound),
                    ")");
  }
  return text;
}

std::string stall_line(const StepTime& step) {
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < step.stall.size(); ++i) {
    if (step.stall[i] <= 0) continue;
    const auto cause = static_cast<device::StallCause>(i);
    parts.push_back(absl::StrCat(name(cause), " ", seconds_text(step.stall[i])));
  }
  return parts.empty() ? "none" : absl::StrJoin(parts, ", ");
}

std::string gradients_line(const Report::Gradients& gradients) {
  if (!gradients.verified) return "not compared (--verify-gradients)";
  if (gradients.bit_equal) return "verified: equal bit for bit to the plain run's";
  return absl::StrFormat("WRONG: they differ from the plain run's by up to %g",
                         gradients.max_abs_difference);
}

std::string order_line(const Report::Order& order) {
  if (!order.checked) return "not checked (--check)";
  return absl::StrCat(order.accesses, " accesses checked, ", order.violations,
                      " violations");
}

bool offload_asked(const Report& report) {
  const auto asked = report.config.find("offload");
  return asked != report.config.end() && asked->is_string() && *asked != "none";
}

std::string no_room(const EngineFigures& engine) {
  return absl::StrCat("host memory had no room for ",
                      bytes_text(static_cast<double>(engine.no_room_bytes)),
                      "; give it more with --host-budget");
}

std::string why_nothing(const EngineFigures& engine) {
  if (engine.no_room_bytes > 0) return no_room(engine);
  if (engine.kept_bytes + engine.recomputed_bytes == 0) return "nothing was saved";
  return "every tensor that may go is smaller than the minimum size (--min-offload-bytes), "
         "or none was saved";
}

// What the device held most of at its peak.
std::string why_no_gain(const Report& report) {
  const BytesByPurpose& at_peak = report.device.memory.at_peak;
  const auto most = static_cast<std::size_t>(
      std::max_element(at_peak.bytes.begin(), at_peak.bytes.end()) - at_peak.bytes.begin());
  return absl::StrCat("most of it is ", name(static_cast<Purpose>(most)), ", ",
                      bytes_text(static_cast<double>(at_peak.bytes[most])), " of ",
                      bytes_text(static_cast<double>(report.device.memory.peak_bytes)));
}

std::string warnings(const Report& report) {
  if (!offload_asked(report)) return {};
  if (report.engine.offloaded_bytes == 0) {
    return absl::StrCat("  WARNING: nothing was offloaded: ", why_nothing(report.engine),
                        ".\n");
  }
  // Within 2 % is no gain that anybody asked for.
  const auto without = report.device.peak_without_bytes;
  if (without && static_cast<double>(report.device.memory.peak_bytes) >
                     0.98 * static_cast<double>(*without)) {
    return absl::StrCat(
        "  WARNING: ", bytes_text(static_cast<double>(report.engine.d2h_bytes)),
        " were moved, but the peak did not: ",
        report.engine.no_room_bytes > 0 ? no_room(report.engine) : why_no_gain(report),
        ".\n");
  }
  if (report.engine.no_room_bytes > 0) {
    return absl::StrCat("  WARNING: not all was offloaded: ", no_room(report.engine),
                        ".\n");
  }
  return {};
}

std::string refused(const RefusedRun& error) {
  std::string text = absl::StrCat("  FAILED: ", error.message, "\n");
  if (error.smallest_device_budget_bytes) {
    line(text, "would fit",
         absl::StrCat("--device-budget ", *error.smallest_device_budget_bytes, " (",
                      bytes_text(static_cast<double>(*error.smallest_device_budget_bytes)),
                      ")"));
  }
  return text;
}

}  // namespace

std::string bytes_text(double bytes) {
  constexpr std::array<std::pair<const char*, double>, 4> kUnits = {
      {{"TiB", 0x1p40}, {"GiB", 0x1p30}, {"MiB", 0x1p20}, {"KiB", 0x1p10}}};
  for (const auto& [unit, size] : kUnits) {
    if (bytes < size) continue;
    const double count = bytes / size;
    return absl::StrFormat("%.*f %s", count < 10 ? 2 : count < 100 ? 1 : 0, count, unit);
  }
  return absl::StrFormat("%.0f B", bytes);
}

std::string seconds_text(double seconds) {
  if (seconds >= 1) return absl::StrFormat("%.3g s", seconds);
  if (seconds >= 1e-3) return absl::StrFormat("%.3g ms", seconds * 1e3);
  return absl::StrFormat("%.3g us", seconds * 1e6);
}

std::string summary(const Report& report) {
  std::string text =
      absl::StrCat(report.model, " on ", report.device.name, ", ", report.steps, " steps");
  if (!report.loss.empty()) {
    absl::StrAppendFormat(&text, ": loss %.4f -> %.4f", report.loss.front(),
                          report.loss.back());
  }
  text += "\n";
  if (report.error) {
    text += refused(*report.error);
    if (report.time.steps == 0) return text;
  }
  line(text, "device memory", device_line(report));
  line(text, "moved", moved_line(report.engine));
  line(text, "step time", time_line(report));
  if (report.virtual_clock) line(text, "stalls a step", stall_line(report.time.step));
  if (report.engine.blocks > 0) {
    line(text, "prefetch",
         absl::StrCat(report.engine.hits, " there in time, ", report.engine.late, " late, ",
                      report.engine.missed, " not foreseen"));
  }
  line(text, "gradients", gradients_line(report.gradients));
  line(text, "order", order_line(report.order));
  return text + warnings(report);
}

}  // namespace ebb::offload
