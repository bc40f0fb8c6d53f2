#include "offload/report/summary.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

#include "allocator/bytes_text.h"

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
  std::string text = absl::StrCat("peak ", bytes_text(device.memory.peak_bytes));
  if (device.budget_bytes) {
    absl::StrAppend(&text, " of ", bytes_text(*device.budget_bytes));
  }
  absl::StrAppend(&text, ", activations ", bytes_text(device.memory.peak_activation_bytes));
  if (device.peak_without_bytes) {
    absl::StrAppend(&text, "; without: peak ", bytes_text(*device.peak_without_bytes));
  }
  return text;
}

std::string moved_line(const EngineFigures& engine) {
  std::string text = absl::StrCat(bytes_text(engine.d2h_bytes), " to the host, ",
                                  bytes_text(engine.h2d_bytes), " back");
  if (engine.revived_bytes > 0) {
    absl::StrAppend(&text, ", ", bytes_text(engine.revived_bytes),
                    " needed while still there");
  }
  if (engine.dropped_bytes > 0) {
    absl::StrAppend(&text, ", ", bytes_text(engine.dropped_bytes), " not needed again");
  }
  if (engine.refetched_bytes > 0) {
    absl::StrAppend(&text, ", ", bytes_text(engine.refetched_bytes), " fetched twice");
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

std::string refused(const RefusedRun& error) {
  std::string text = absl::StrCat("  FAILED: ", error.message, "\n");
  if (error.smallest_device_budget_bytes) {
    line(text, "would fit",
         absl::StrCat("--device-budget ", *error.smallest_device_budget_bytes, " (",
                      bytes_text(*error.smallest_device_budget_bytes), ")"));
  }
  return text;
}

}  // namespace

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
  for (const Warning& warning : report.warnings) {
    absl::StrAppend(&text, "  WARNING: ", warning.message, ".\n");
  }
  return text;
}

}  // namespace ebb::offload
