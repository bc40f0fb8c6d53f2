// One training run as it was asked for: complete, checked, and without a contradiction.

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "nlohmann/json.hpp"

#include "bindings/config/checkpoint_policy.h"
#include "bindings/config/settings.h"
#include "runtime/device/sim/sim_device.h"
#include "runtime/nn/gpt2.h"

namespace ebb::config {

enum class OffloadPolicy : std::uint8_t { kNone, kInputs, kSaved };

// The name that flags and reports use: "none", "inputs", "saved".
const char* name(OffloadPolicy policy) noexcept;

// What a user should know about an unusual request that is carried out all the same.
struct Note {
  std::string code;     // Stable, for machines: "one_segment".
  std::string message;  // One sentence without its full stop.
};

struct RunConfig {
  std::string model_name = "gpt2-nano";
  nn::Gpt2Config model;
  std::string data;  // Empty: the text that ships.
  std::int64_t steps = 100;
  std::int64_t batch = 8;  // Per rank and micro-step.
  std::int64_t seq = 256;
  std::int64_t accumulate = 1;
  double learning_rate = 6e-4;
  std::uint64_t seed = 1;
  int threads = 1;

  std::string device = "sim:a100-pcie4";
  device::Profile profile;
  std::optional<std::size_t> device_budget_bytes;     // None: the device's capacity.
  std::optional<std::size_t> host_budget_bytes;       // The lower of the two that are set.
  std::optional<std::size_t> node_host_budget_bytes;  // As it was set.
  std::string host_budget_flag = "--host-budget";     // What to raise for more host memory.
  std::optional<std::size_t> min_offload_bytes;       // None: the engine's own.
  CheckpointPolicy checkpoint;
  OffloadPolicy offload = OffloadPolicy::kNone;

  bool check = false;
  device::Order order;
  std::string order_text = "time";
  bool dry = false;
  bool verify_gradients = false;
  int verify_recompute = 0;  // Every n-th recomputed output; 0: none.
  std::string report;        // Empty: none is written.
  bool json = false;
  // Trains no model that was asked for, but soaks the engine: `steps` (2000 unless asked
  // otherwise), `seed`, device, budgets and policy (`saved`, or `inputs`) hold for that.
  bool stress = false;

  std::vector<nn::CheckpointSegment> segments() const {
    return checkpoint.segments(model.layers);
  }
  std::vector<Note> notes() const;
};

// A flag of `ebb train`.
struct Flag {
  const char* name;   // Without its dashes.
  const char* value;  // What it takes: "SIZE", "N"; null for a switch.
  const char* help;
};
const std::vector<Flag>& train_flags();

// The run that `settings` ask for; what they do not say has its default, `cores` threads
// among it. Throws Error{kInvalidArgument}, one sentence that names the flag and says what
// would work, for a value or a combination that is wrong, or that this release has not.
RunConfig make_run_config(const Settings& settings, int cores);

// The report's "config": flags by name, with every default filled in.
nlohmann::ordered_json to_json(const RunConfig& config);

}  // namespace ebb::config
