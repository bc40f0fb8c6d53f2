#include "bindings/config/run_config.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <limits>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

#include "allocator/error.h"
#include "bindings/config/parse.h"
#include "bindings/config/sizes.h"

namespace ebb::config {
namespace {

// Past these (and kMostLayers), sizes in bytes would not fit 64 bits, whatever the machine.
constexpr std::int64_t kMostWidth = std::int64_t{1} << 20;
constexpr std::int64_t kMostTokens = std::int64_t{1} << 24;
constexpr std::int64_t kMostSeq = std::int64_t{1} << 16;
constexpr std::int64_t kMostSteps = 100'000'000;
constexpr int kMostThreads = 1024;
constexpr double kMostTensorBytes = 1e15;

[[noreturn]] void refuse(const std::string& message) {
  throw Error(absl::StatusCode::kInvalidArgument, message);
}

// Looks flags up, one at a time.
class Reader {
 public:
  explicit Reader(const Settings& settings) : settings_(settings) {}

  const Setting* find(const std::string& flag) const {
    const auto found = settings_.find(flag);
    return found == settings_.end() ? nullptr : &found->second;
  }
  bool on(const std::string& flag) const { return find(flag) != nullptr; }

  void text(const std::string& flag, std::string& value) const {
    const Setting* setting = find(flag);
    if (setting == nullptr) return;
    if (setting->value.empty()) refuse(setting->name + " is empty");
    value = setting->value;
  }
  template <typename Integer>
  void integer(const std::string& flag, Integer& value, std::int64_t least,
               std::int64_t most) const {
    if (const Setting* setting = find(flag)) {
      value =
          static_cast<Integer>(parse_integer(setting->name, setting->value, least, most));
    }
  }
  void choice(const std::string& flag, const std::vector<std::string>& choices) const {
    const Setting* setting = find(flag);
    if (setting == nullptr) return;
    if (std::find(choices.begin(), choices.end(), setting->value) == choices.end()) {
      refuse_choice(setting->name, setting->value, choices);
    }
  }

 private:
  const Settings& settings_;
};

void read_model(const Reader& reader, RunConfig& config) {
  reader.text("model", config.model_name);
  const std::vector<std::string> names = nn::gpt2_names();
  if (std::find(names.begin(), names.end(), config.model_name) == names.end()) {
    refuse_choice("--model", config.model_name, names);
  }
  nn::Gpt2Config& model = config.model;
  model = nn::gpt2_config(config.model_name);
  reader.integer("layers", model.layers, 1, kMostLayers);
  reader.integer("hidden", model.hidden, 1, kMostWidth);
  reader.integer("heads", model.heads, 1, kMostWidth);
  reader.integer("vocab", model.vocabulary, 1, kMostTokens);
  if (const Setting* dropout = reader.find("dropout")) {
    const double most = 0.99;
    model.dropout =
        static_cast<float>(parse_real(dropout->name, dropout->value, 0, true, most));
  }
  if (model.hidden % model.heads != 0) {
    const std::int64_t up = (model.hidden / model.heads + 1) * model.heads;
    refuse(absl::StrCat("--hidden ", model.hidden, " is not a multiple of --heads ",
                        model.heads, "; --hidden ", up, " would be"));
  }
}

void read_training(const Reader& reader, RunConfig& config) {
  reader.text("data", config.data);
  reader.integer("steps", config.steps, 1, kMostSteps);
  reader.integer("batch", config.batch, 1, kMostWidth);
  reader.integer("seq", config.seq, 1, kMostSeq);
  reader.integer("accumulate", config.accumulate, 1, kMostWidth);
  reader.integer("threads", config.threads, 1, kMostThreads);
  if (const Setting* rate = reader.find("lr")) {
    config.learning_rate = parse_real(rate->name, rate->value, 0, false, 10);
  }
  if (const Setting* seed = reader.find("seed")) {
    config.seed = parse_seed(seed->name, seed->value);
  }
  reader.choice("dtype", {"f32"});
  reader.choice("zero", {"0"});
  reader.choice("compress", {"none"});
  // The named models have as many positions as they were published with; longer sequences
  // get more.
  config.model.positions = std::max(config.model.positions, config.seq);
  const auto& model = config.model;
  const double widest = static_cast<double>(std::max(4 * model.hidden, model.vocabulary));
  const double rows = static_cast<double>(config.batch) * static_cast<double>(config.seq);
  if (rows * widest * sizeof(float) > kMostTensorBytes) {
    refuse(absl::StrCat("--batch ", config.batch, " times --seq ", config.seq,
                        " makes tensors of more than 10^15 bytes; take a smaller batch"));
  }
  const double parameters = static_cast<double>(model.hidden) *
                            (12.0 * static_cast<double>(model.hidden * model.layers) +
                             static_cast<double>(model.vocabulary + model.positions));
  if (parameters * sizeof(float) > kMostTensorBytes) {
    refuse(absl::StrCat("--layers ", model.layers, " of --hidden ", model.hidden,
                        " make a model of more than 10^15 bytes; take a smaller one"));
  }
}

void read_device(const Reader& reader, RunConfig& config) {
  reader.text("device", config.device);
  if (config.device == "sim") config.device = "sim:a100-pcie4";
  absl::string_view profile = config.device;
  if (!absl::ConsumePrefix(&profile, "sim:")) {
    refuse_choice("--device", config.device, {"sim", "sim:PROFILE", "sim:FILE.json"});
  }
  try {
    config.profile = device::load_profile(std::string(profile));
  } catch (const Error& error) {
    throw Error(error.code(), absl::StrCat("--device ", config.device, ": ", error.what()));
  }
  if (const Setting* budget = reader.find("device-budget")) {
    if (budget->value == "auto") {
      // Nothing else lives on a simulated device; 1/32 is left as on a real one.
      if (const auto capacity = config.profile.capacity_bytes) {
        config.device_budget_bytes = *capacity - *capacity / 32;
      }
    } else {
      config.device_budget_bytes = parse_size(budget->name, budget->value);
    }
  }
  if (const Setting* budget = reader.find("host-budget")) {
    config.host_budget_bytes = parse_size(budget->name, budget->value);
  }
  if (const Setting* budget = reader.find("node-host-budget")) {
    const std::size_t bytes = parse_size(budget->name, budget->value);
    config.node_host_budget_bytes = bytes;
    // With one rank on the node, the node's budget is the rank's.
    if (bytes <= config.host_budget_bytes.value_or(bytes)) {
      config.host_budget_bytes = bytes;
      config.host_budget_flag = "--node-host-budget";
    }
  }
  if (const Setting* least = reader.find("min-offload-bytes")) {
    config.min_offload_bytes =
        least->value == "0" ? 0 : parse_size(least->name, least->value);
  }
  reader.text("order", config.order_text);
  absl::string_view order = config.order_text;
  if (order == "eager") {
    config.order.kind = device::Order::Kind::kEager;
  } else if (absl::ConsumePrefix(&order, "fuzz:")) {
    config.order = {device::Order::Kind::kFuzz, parse_seed("--order fuzz:SEED", order)};
  } else if (order != "time") {
    refuse_choice("--order", config.order_text, {"eager", "time", "fuzz:SEED"});
  }
}

void read_policies(const Reader& reader, RunConfig& config) {
  if (const Setting* policy = reader.find("checkpoint")) {
    config.checkpoint = CheckpointPolicy(policy->value);
  }
  (void)config.segments();  // Throws for a layer that is not there.
  reader.choice("offload", {"none", "inputs", "saved"});
  if (const Setting* policy = reader.find("offload")) {
    config.offload = policy->value == "inputs"  ? OffloadPolicy::kInputs
                     : policy->value == "saved" ? OffloadPolicy::kSaved
                                                : OffloadPolicy::kNone;
  }
  const bool checkpoints = config.checkpoint.kind() != CheckpointPolicy::Kind::kNone;
  if (config.offload == OffloadPolicy::kInputs && !checkpoints && !config.stress) {
    refuse(
        "--offload inputs moves the inputs of checkpointed segments, and --checkpoint is "
        "none: add --checkpoint every:1, or use --offload saved");
  }
  config.check = reader.on("check");
  config.dry = reader.on("dry");
  config.verify_gradients = reader.on("verify-gradients");
  reader.integer("verify-recompute", config.verify_recompute, 1,
                 std::numeric_limits<int>::max());
  if (config.dry && (config.verify_gradients || config.verify_recompute > 0)) {
    refuse(
        absl::StrCat("--dry computes nothing that ",
                     config.verify_gradients ? "--verify-gradients" : "--verify-recompute",
                     " could compare: leave one of the two out"));
  }
  if (config.verify_recompute > 0 && !checkpoints) {
    refuse(
        "--verify-recompute compares what is recomputed, and --checkpoint is none: add "
        "--checkpoint every:1, or leave it out");
  }
}

// Before the others, whose rules are for runs of a model.
void read_stress(const Reader& reader, RunConfig& config) {
  constexpr std::int64_t kSteps = 2000;
  config.stress = reader.on("stress");
  if (!config.stress) return;
  for (const char* flag :
       {"model", "layers", "hidden", "heads", "vocab", "dropout", "data", "batch", "seq",
        "accumulate", "lr", "checkpoint", "dry", "verify-gradients", "verify-recompute"}) {
    if (!reader.on(flag)) continue;
    refuse(
        absl::StrCat("--stress trains a small model of its own, for real, and compares "
                     "every gradient: leave --",
                     flag, " out"));
  }
  const Setting* policy = reader.find("offload");
  if (policy != nullptr && policy->value == "none") {
    refuse("--stress is about the offload engine: use --offload inputs or saved [saved]");
  }
  config.offload = OffloadPolicy::kSaved;
  config.steps = kSteps;
}

bool same_file(const std::string& a, const std::string& b) {
  std::error_code error;
  return std::filesystem::equivalent(a, b, error) && !error;
}

// 0.1, not the nearest float to it in full.
double as_written(float value) { return std::strtod(absl::StrCat(value).c_str(), nullptr); }

}  // namespace

const char* name(OffloadPolicy policy) noexcept {
  switch (policy) {
    case OffloadPolicy::kInputs:
      return "inputs";
    case OffloadPolicy::kSaved:
      return "saved";
    case OffloadPolicy::kNone:
      break;
  }
  return "none";
}

std::vector<Note> RunConfig::notes() const {
  std::vector<Note> notes;
  const std::vector<nn::CheckpointSegment> all = segments();
  if (all.size() == 1 && model.layers > 1 &&
      checkpoint.kind() == CheckpointPolicy::Kind::kEvery) {
    notes.push_back(
        {"one_segment", absl::StrCat("--checkpoint ", checkpoint.text(),
                                     " makes one segment of all ", model.layers,
                                     " layers: it is recomputed whole, so it may "
                                     "save no memory")});
  }
  if (min_offload_bytes && offload == OffloadPolicy::kNone) {
    notes.push_back(
        {"no_effect", "--min-offload-bytes has no effect, because --offload is none"});
  }
  return notes;
}

RunConfig make_run_config(const Settings& settings, int cores) {
  const Reader reader(settings);
  RunConfig config;
  config.threads = std::clamp(cores, 1, kMostThreads);
  read_stress(reader, config);
  read_model(reader, config);
  read_training(reader, config);
  read_device(reader, config);
  read_policies(reader, config);
  reader.text("report", config.report);
  config.json = reader.on("json");
  if (!config.report.empty() && same_file(config.report, config.data)) {
    refuse(absl::StrCat("--report ", config.report, " is the file that --data reads"));
  }
  return config;
}

nlohmann::ordered_json to_json(const RunConfig& config) {
  const auto size = [](const std::optional<std::size_t>& bytes) {
    return bytes ? nlohmann::ordered_json(*bytes) : nlohmann::ordered_json(nullptr);
  };
  return {{"model", config.model_name},
          {"layers", config.model.layers},
          {"hidden", config.model.hidden},
          {"heads", config.model.heads},
          {"vocab", config.model.vocabulary},
          {"positions", config.model.positions},
          {"dropout", as_written(config.model.dropout)},
          {"dtype", ebb::name(config.model.dtype)},
          {"data", config.data},
          {"steps", config.steps},
          {"batch", config.batch},
          {"seq", config.seq},
          {"accumulate", config.accumulate},
          {"lr", config.learning_rate},
          {"seed", config.seed},
          {"threads", config.threads},
          {"device", config.device},
          {"device-budget", size(config.device_budget_bytes)},
          {"host-budget", size(config.host_budget_bytes)},
          {"node-host-budget", size(config.node_host_budget_bytes)},
          {"min-offload-bytes", size(config.min_offload_bytes)},
          {"checkpoint", config.checkpoint.text()},
          {"offload", name(config.offload)},
          {"check", config.check},
          {"order", config.order_text},
          {"dry", config.dry},
          {"verify-gradients", config.verify_gradients},
          {"verify-recompute", config.verify_recompute}};
}

}  // namespace ebb::config
