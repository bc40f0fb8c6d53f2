#include "bindings/cli/train/stress_report.h"

#include <cmath>
#include <cstddef>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

#include "allocator/bytes_text.h"

namespace ebb::cli {
namespace {

using bench::SoakEvent;
using bench::SoakFigures;
using bench::SoakMemory;
using bench::SoakWindow;
using nlohmann::ordered_json;

ordered_json memory_json(const SoakMemory& memory) {
  return {{"device_bytes", memory.device_bytes},
          {"device_reserved_bytes", memory.device_reserved_bytes},
          {"host_bytes", memory.host_bytes},
          {"host_pinned_bytes", memory.host_pinned_bytes},
          {"engine_blocks", memory.engine_blocks},
          {"engine_backwards", memory.engine_backwards},
          {"engine_learned", memory.engine_learned},
          {"resident_bytes", memory.resident_bytes}};
}

ordered_json windows_json(const std::vector<SoakWindow>& windows) {
  ordered_json list = ordered_json::array();
  for (const SoakWindow& window : windows) {
    list.push_back({{"first_step", window.first_step},
                    {"samples", window.samples},
                    {"least", memory_json(window.least)},
                    {"most", memory_json(window.most)}});
  }
  return list;
}

ordered_json events_json(const SoakFigures& figures) {
  ordered_json events = ordered_json::object();
  for (std::size_t i = 0; i < bench::kSoakEvents; ++i) {
    events[bench::name(static_cast<SoakEvent>(i))] = figures.events[i];
  }
  return events;
}

ordered_json finite_or_null(double value) {
  return std::isfinite(value) ? ordered_json(value) : ordered_json(nullptr);
}

ordered_json passed(SoakEnd end) {
  if (end == SoakEnd::kInterrupted) return nullptr;
  return end == SoakEnd::kPass;
}

const char* in_words(SoakEnd end) {
  switch (end) {
    case SoakEnd::kPass:
      return "passed";
    case SoakEnd::kInterrupted:
      return "INTERRUPTED";
    case SoakEnd::kFail:
      break;
  }
  return "FAILED";
}

void row(std::string& text, const char* label, const std::string& value) {
  absl::StrAppendFormat(&text, "  %-12s %s\n", label, value);
}

std::string events_text(const SoakFigures& figures) {
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < bench::kSoakEvents; ++i) {
    if (figures.events[i] == 0) continue;
    parts.push_back(
        absl::StrCat(bench::name(static_cast<SoakEvent>(i)), " ", figures.events[i]));
  }
  constexpr std::size_t kOnALine = 5;
  std::string text;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const char* between = i == 0 ? "" : i % kOnALine == 0 ? ",\n               " : ", ";
    absl::StrAppend(&text, between, parts[i]);
  }
  return text;
}

std::string memory_table(const std::vector<SoakWindow>& windows) {
  std::string text = absl::StrFormat(
      "  memory with no graph alive, the most in each tenth of the run:\n"
      "  %10s %12s %12s %12s %12s %8s %12s\n",
      "from step", "device", "reserved", "host", "pinned", "blocks", "process");
  for (const SoakWindow& window : windows) {
    if (window.samples == 0) continue;
    const SoakMemory& most = window.most;
    absl::StrAppendFormat(&text, "  %10d %12s %12s %12s %12s %8d %12s\n", window.first_step,
                          bytes_text(most.device_bytes),
                          bytes_text(most.device_reserved_bytes),
                          bytes_text(most.host_bytes), bytes_text(most.host_pinned_bytes),
                          most.engine_blocks, bytes_text(most.resident_bytes));
  }
  return text;
}

}  // namespace

ordered_json to_json(const SoakFigures& figures, SoakEnd end) {
  const offload::EngineFigures& engine = figures.engine;
  return {{"passed", passed(end)},
          {"problems", figures.problems},
          {"steps", figures.steps},
          {"events", events_json(figures)},
          {"graphs", figures.graphs},
          {"graphs_alive_at_once", figures.graphs_alive_at_once},
          {"exceptions", figures.exceptions},
          {"refusals", figures.refusals},
          {"steps_compared", figures.steps_compared},
          {"gradients_compared", figures.gradients_compared},
          {"offloaded_bytes", engine.offloaded_bytes},
          {"kept_bytes", engine.kept_bytes},
          {"shared_bytes", engine.shared_bytes},
          {"recomputed_bytes", engine.recomputed_bytes},
          {"no_room_bytes", engine.no_room_bytes},
          {"d2h_bytes", engine.d2h_bytes},
          {"h2d_bytes", engine.h2d_bytes},
          {"revived_bytes", engine.revived_bytes},
          {"dropped_bytes", engine.dropped_bytes},
          {"refetched_bytes", engine.refetched_bytes},
          {"accesses", figures.order.accesses},
          {"violations", figures.order.violations},
          {"windows", windows_json(figures.windows)},
          {"resident_growth_bytes_per_step", figures.resident_growth_bytes_per_step},
          {"last_loss", finite_or_null(figures.last_loss)},
          {"virtual_seconds", finite_or_null(figures.virtual_seconds)},
          {"wall_seconds", figures.wall_seconds}};
}

std::string to_text(const SoakFigures& figures, SoakEnd end) {
  const offload::EngineFigures& engine = figures.engine;
  std::string text =
      absl::StrCat("stress, ", figures.steps, " steps: ", in_words(end), "\n");
  for (const std::string& problem : figures.problems) {
    absl::StrAppend(&text, "  PROBLEM: ", problem, "\n");
  }
  row(text, "events", events_text(figures));
  row(text, "graphs",
      absl::StrCat(figures.graphs, ", at most ", figures.graphs_alive_at_once,
                   " alive at once; ", figures.exceptions,
                   " exceptions thrown on purpose, ", figures.refusals,
                   " steps without room"));
  row(text, "gradients",
      absl::StrCat(figures.gradients_compared, " compared bit for bit, of ",
                   figures.steps_compared, " steps"));
  row(text, "moved",
      absl::StrCat(bytes_text(engine.d2h_bytes), " to the host, ",
                   bytes_text(engine.h2d_bytes), " back, ",
                   bytes_text(engine.revived_bytes), " needed while still there, ",
                   bytes_text(engine.dropped_bytes), " not needed again"));
  row(text, "order",
      figures.order.accesses == 0
          ? "not checked (--check)"
          : absl::StrCat(figures.order.accesses, " accesses checked, ",
                         figures.order.violations, " violations"));
  row(text, "time",
      absl::StrFormat("%.1f s, %.3g s on the device's clock", figures.wall_seconds,
                      figures.virtual_seconds));
  text += memory_table(figures.windows);
  return text;
}

}  // namespace ebb::cli
