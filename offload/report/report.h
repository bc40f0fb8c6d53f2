// The run report: what a run was asked to do, what it needed, moved and took, and what was
// verified. Its JSON keys are relied on by tools: they are never renamed.

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "nlohmann/json.hpp"

#include "allocator/error.h"
#include "allocator/pinned_pool.h"
#include "offload/engine/engine.h"
#include "offload/report/run_recorder.h"
#include "runtime/device/device.h"

namespace ebb::offload {

struct RefusedRun {
  std::string code;  // Of the Error: "RESOURCE_EXHAUSTED".
  std::string message;
  std::optional<std::size_t> smallest_device_budget_bytes = std::nullopt;
  std::optional<std::size_t> smallest_host_budget_bytes = std::nullopt;
  Error::Resource resource = Error::Resource::kOther;  // That ran out.
};

// What a user should know without looking for it (see warnings.h).
struct Warning {
  std::string code;     // Stable, for machines: "nothing_offloaded".
  std::string message;  // One sentence without its full stop: what, why, and what to do.
};

// Bytes and seconds. Byte totals are of the run; step figures are means after the first
// step. A plain value: whoever runs the training fills it in.
struct Report {
  nlohmann::ordered_json config = nlohmann::ordered_json::object();
  struct Environment {
    std::string version;
    std::string commit;
    std::string cpu;
    int threads = 1;
  } environment;
  std::string model;
  int world_size = 1;
  int rank = 0;
  std::int64_t steps = 0;
  std::int64_t tokens_per_step = 0;
  std::vector<double> loss;  // Empty when dry.
  bool virtual_clock = true;
  std::optional<double> wall_step_seconds;  // None when dry.

  struct DeviceFigures {
    std::string name;
    std::optional<std::size_t> budget_bytes;
    device::MemoryFigures memory;
    std::optional<std::size_t> peak_without_bytes;
  } device;
  EngineFigures engine;
  struct Host {
    std::optional<std::size_t> budget_bytes;
    PinnedPool::Stats pool;
    std::size_t pin_calls_in_steps = 0;
  } host;
  LinkFigures d2h;
  LinkFigures h2d;
  TimeFigures time;
  std::optional<double> step_seconds_without;

  struct Gradients {
    std::vector<std::uint64_t> checksum;  // One a step; empty when dry.
    bool verified = false;                // Compared with a plain run's.
    bool bit_equal = false;
    double max_abs_difference = 0;
  } gradients;
  struct Order {
    bool checked = false;
    std::uint64_t accesses = 0;
    std::uint64_t violations = 0;
  } order;
  nlohmann::ordered_json stages = nlohmann::ordered_json::array();
  nlohmann::ordered_json timeline = nlohmann::ordered_json::array();
  std::vector<Warning> warnings;
  std::optional<RefusedRun> error;  // Of a run that was refused, or failed.
};

// A checksum as the report has it: sixteen hexadecimal digits.
std::string checksum_text(std::uint64_t checksum);

// All keys, in a fixed order (tests/cli/report_keys.py lists them). A loss that is no
// number is null, as are bound and stalls where the clock is the wall's.
nlohmann::ordered_json to_json(const Report& report);
// "device_memory", "host_memory", or null.
nlohmann::ordered_json resource_json(Error::Resource resource);

// The same with a line break at its end, for a file.
std::string to_text(const Report& report);

}  // namespace ebb::offload
