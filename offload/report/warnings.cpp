#include "offload/report/warnings.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "allocator/bytes_text.h"

namespace ebb::offload {
namespace {

// A gain of less is none that anybody asked for.
constexpr double kGain = 0.02;
// Copies that share the link both ways make it look slower by less.
constexpr double kLinkOff = 0.2;

std::string asked(const Report& report, const char* flag) {
  const auto found = report.config.find(flag);
  const bool given = found != report.config.end() && found->is_string();
  return given ? found->get<std::string>() : "none";
}

bool host_was_full(const EngineFigures& engine) {
  return engine.no_room_bytes + engine.no_room_recomputed_bytes > 0;
}

// The budget that would have to be raised: of a run's two, the lower one holds.
const char* host_flag(const Report& report) {
  const auto node = report.config.find("node-host-budget");
  const bool holds = node != report.config.end() && node->is_number() &&
                     report.host.budget_bytes == node->get<std::size_t>();
  return holds ? "--node-host-budget" : "--host-budget";
}

// What became of what host memory had no room for.
std::string no_room(const Report& report) {
  const EngineFigures& engine = report.engine;
  const std::size_t kept = engine.no_room_bytes;
  const std::size_t recomputed = engine.no_room_recomputed_bytes;
  std::string text =
      absl::StrCat("host memory had no room for ", bytes_text(kept + recomputed));
  if (recomputed > 0) {
    absl::StrAppend(&text, ", of which ", bytes_text(kept), " stayed on the device and ",
                    bytes_text(recomputed), " were computed again");
  }
  return absl::StrCat(text, "; give it more with ", host_flag(report));
}

const Tally& kept(const EngineFigures& engine, Kept why) {
  return engine.kept[static_cast<std::size_t>(why)];
}

std::string why_nothing(const Report& report) {
  const EngineFigures& engine = report.engine;
  if (host_was_full(engine)) return no_room(report);
  if (engine.kept_bytes + engine.recomputed_bytes == 0) return "nothing was saved";
  const Tally& small = kept(engine, Kept::kSmall);
  if (small.tensors == 0) {
    return "nothing of what was saved is of the kind that the policy moves; try --offload "
           "saved";
  }
  return absl::StrCat("all ", small.tensors, " tensors that may go, ",
                      bytes_text(small.bytes),
                      " together, are below the minimum size; "
                      "lower --min-offload-bytes to ",
                      engine.largest_small_bytes,
                      ", the size of the largest, or take a larger --batch or --seq");
}

// What the device held at its peak, and what would lower that.
std::string why_no_gain(const Report& report) {
  const bool offload = asked(report, "offload") != "none";
  if (offload && host_was_full(report.engine)) return no_room(report);
  const BytesByPurpose& at_peak = report.device.memory.at_peak;
  const auto most = static_cast<std::size_t>(
      std::max_element(at_peak.bytes.begin(), at_peak.bytes.end()) - at_peak.bytes.begin());
  const auto purpose = static_cast<Purpose>(most);
  std::string text =
      absl::StrCat("most of it is ", name(purpose), ", ", bytes_text(at_peak.bytes[most]),
                   " of ", bytes_text(report.device.memory.peak_bytes));
  if (purpose != Purpose::kActivations) {
    return absl::StrCat(text,
                        ", which neither policy moves: there is something to gain from "
                        "more --layers, --batch or --seq only");
  }
  if (asked(report, "checkpoint") == "none") {
    return absl::StrCat(text, ": add --checkpoint every:1");
  }
  return absl::StrCat(text,
                      ", and what one segment or the loss needs at once decides it: take a "
                      "smaller --batch with --accumulate, or shorter segments (every:1)");
}

std::string done(const Report& report) {
  if (report.engine.d2h_bytes > 0) {
    return absl::StrCat(bytes_text(report.engine.d2h_bytes), " were moved");
  }
  return absl::StrCat("layers were recomputed (--checkpoint ", asked(report, "checkpoint"),
                      ")");
}

void add_replanned(const char* direction, const LinkPlan& plan,
                   std::vector<Warning>& warnings) {
  if (plan.replans == 0 || plan.measured <= 0) return;
  if (std::abs(plan.measured / plan.planned - 1) < kLinkOff) return;
  warnings.push_back(
      {"link_replanned",
       absl::StrFormat(
           "the link %s is %s than planned, %s/s instead of %s/s (%.2f times): "
           "copies were planned anew after step %d%s",
           direction, plan.measured < plan.planned ? "slower" : "faster",
           bytes_text(static_cast<std::size_t>(plan.measured)),
           bytes_text(static_cast<std::size_t>(plan.planned)), plan.measured / plan.planned,
           plan.step,
           plan.replans > 1 ? absl::StrCat(", ", plan.replans, " times in all") : "")});
}

}  // namespace

std::vector<Warning> find_warnings(const Report& report) {
  std::vector<Warning> warnings;
  const bool offload = asked(report, "offload") != "none";
  const bool checkpoint = asked(report, "checkpoint") != "none";
  // Always, whatever else there is to say: tools look for the code.
  if (host_was_full(report.engine)) {
    warnings.push_back(
        {"host_full", absl::StrCat("not all was offloaded: ", no_room(report))});
  }
  if (report.time.steps == 0 || (!offload && !checkpoint)) return warnings;
  add_replanned("to the host", report.engine.d2h_plan, warnings);
  add_replanned("from the host", report.engine.h2d_plan, warnings);
  const bool nothing = offload && report.engine.offloaded_bytes == 0;
  if (nothing) {
    warnings.push_back({"nothing_offloaded",
                        absl::StrCat("nothing was offloaded: ", why_nothing(report))});
  }
  if (report.engine.d2h_bytes > 0 &&
      report.engine.revived_bytes == report.engine.d2h_bytes) {
    warnings.push_back(
        {"all_revived",
         absl::StrCat("all that was moved, ", bytes_text(report.engine.d2h_bytes),
                      ", was needed again before it had left the device, so --offload "
                      "gained nothing: ",
                      host_was_full(report.engine)
                          ? no_room(report)
                          : "there is something to gain from more --layers")});
  }
  const std::size_t peak = report.device.memory.peak_bytes;
  const auto without = report.device.peak_without_bytes;
  const bool gained =
      !without || static_cast<double>(peak) < (1 - kGain) * static_cast<double>(*without);
  if (!gained && (checkpoint || !nothing)) {
    const bool higher = peak > *without;
    warnings.push_back(
        {higher ? "peak_higher" : "peak_unchanged",
         absl::StrCat(done(report), ", but the peak did not move: ", bytes_text(peak),
                      ", without ", bytes_text(*without), "; ", why_no_gain(report))});
  }
  return warnings;
}

}  // namespace ebb::offload
