#include "offload/report/timeline.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <vector>

namespace ebb::offload {
namespace {

using device::OpRecord;
using device::Phase;
using nlohmann::ordered_json;

const char* name(OpRecord::Unit unit) {
  switch (unit) {
    case OpRecord::Unit::kCompute:
      return "compute";
    case OpRecord::Unit::kD2H:
      return "d2h";
    case OpRecord::Unit::kH2D:
      return "h2d";
    case OpRecord::Unit::kNetwork:
      return "network";
    case OpRecord::Unit::kDisk:
      return "disk";
  }
  return "";
}

const char* name(Phase phase) {
  switch (phase) {
    case Phase::kForward:
      return "forward";
    case Phase::kRecompute:
      return "recompute";
    case Phase::kBackward:
      return "backward";
    case Phase::kOptimizer:
      return "optimizer";
    case Phase::kOther:
      return "other";
  }
  return "";
}

ordered_json stage_or_null(std::int32_t stage) {
  return stage < 0 ? ordered_json(nullptr) : ordered_json(stage);
}

struct Stretch {
  const OpRecord* first = nullptr;
  double end = 0;
  double busy = 0;
  std::size_t ops = 0;
  std::size_t bytes = 0;
};

}  // namespace

ordered_json timeline(const StepOps& ops) {
  std::vector<const OpRecord*> in_order;
  in_order.reserve(ops.size());
  double begin = ops.empty() ? 0 : ops.front().start;
  for (const OpRecord& op : ops) {
    in_order.push_back(&op);
    begin = std::min(begin, op.start);
  }
  std::stable_sort(in_order.begin(), in_order.end(),
                   [](const auto* a, const auto* b) { return a->start < b->start; });

  std::vector<Stretch> stretches;
  std::map<OpRecord::Unit, std::size_t> current;  // The stretch of each unit.
  for (const OpRecord* op : in_order) {
    const auto found = current.find(op->unit);
    const OpRecord* first =
        found == current.end() ? nullptr : stretches[found->second].first;
    if (first == nullptr ||
        std::tie(first->phase, first->stage) != std::tie(op->phase, op->stage)) {
      current[op->unit] = stretches.size();
      stretches.push_back({.first = op});
    }
    Stretch& stretch = stretches[current[op->unit]];
    stretch.end = op->end;
    stretch.busy += op->end - op->start;
    ++stretch.ops;
    stretch.bytes += op->bytes;
  }
  ordered_json result = ordered_json::array();
  for (const Stretch& stretch : stretches) {
    result.push_back({{"unit", name(stretch.first->unit)},
                      {"phase", name(stretch.first->phase)},
                      {"stage", stage_or_null(stretch.first->stage)},
                      {"start", stretch.first->start - begin},
                      {"end", stretch.end - begin},
                      {"busy", stretch.busy},
                      {"ops", stretch.ops},
                      {"bytes", stretch.bytes}});
  }
  return result;
}

ordered_json stages(const StepOps& ops, std::span<const SentBlock> blocks) {
  struct Stage {
    double forward = 0;
    double recompute = 0;
    double backward = 0;
    double stall = 0;
    std::size_t offloaded = 0;
  };
  std::map<std::int32_t, Stage> by_stage;
  for (const OpRecord& op : ops) {
    if (op.unit != OpRecord::Unit::kCompute || op.stage < 0) continue;
    Stage& stage = by_stage[op.stage];
    stage.stall += op.stall;
    const double seconds = op.end - op.start;
    if (op.phase == Phase::kForward) stage.forward += seconds;
    if (op.phase == Phase::kRecompute) stage.recompute += seconds;
    if (op.phase == Phase::kBackward) stage.backward += seconds;
  }
  for (const SentBlock& block : blocks) {
    if (block.stage >= 0) by_stage[block.stage].offloaded += block.bytes;
  }
  ordered_json result = ordered_json::array();
  for (const auto& [number, stage] : by_stage) {
    result.push_back({{"stage", number},
                      {"forward_seconds", stage.forward},
                      {"recompute_seconds", stage.recompute},
                      {"backward_seconds", stage.backward},
                      {"stall_seconds", stage.stall},
                      {"offloaded_bytes", stage.offloaded}});
  }
  return result;
}

}  // namespace ebb::offload
