#include "bindings/cli/train/preflight.h"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"

#include "allocator/host_memory.h"
#include "bindings/cli/train/budget_search.h"

namespace ebb::cli {
namespace {

using config::CheckpointPolicy;
using config::OffloadPolicy;
using config::RunConfig;

// A search tries many budgets: a few steps show what all of them need.
constexpr std::int64_t kSearchSteps = 4;
// More than any machine has.
constexpr std::size_t kMostDryPool = std::size_t{16} << 40;
// What a pool takes, as parts of what is parked in it at most.
constexpr std::array kSlacks{1.0, 1.02, 1.045, 1.048, 1.08, 1.15, 1.3, 1.6};
constexpr double kLittle = 1.04;
// Of a host budget with which a run does not fit, what is tried instead.
constexpr std::array kHostParts{0.9, 0.8, 0.65, 0.5, 0.25, 0.0};

RunConfig with_policy(const RunConfig& config, const char* checkpoint,
                      OffloadPolicy offload) {
  RunConfig other = config;
  other.checkpoint = CheckpointPolicy(checkpoint);
  other.offload = offload;
  return other;
}

// Slabs are whole pages, and stay below the budget.
std::size_t host_limit(const RunConfig& config) {
  const std::size_t budget =
      config.host_budget_bytes.value_or(std::numeric_limits<std::size_t>::max());
  return budget / kPageBytes * kPageBytes;
}

// Dry runs of one request.
class Preflight {
 public:
  Preflight(const RunConfig& config, const Interrupt& interrupt)
      : config_(config), interrupt_(interrupt), steps_(dry_steps(config)) {}

  Verdict run();

 private:
  // Parks whatever the host budget allows, so that the pool is never in the way.
  DryFigures roomy(const RunConfig& config, std::int64_t steps,
                   std::optional<std::size_t> limit) const;
  // With a pool of just what was parked. False if the device's memory does not do.
  bool clear(const RunConfig& config, std::optional<std::size_t> limit,
             Clearance& clearance) const;
  std::optional<std::size_t> smallest(const RunConfig& config, std::size_t has) const;
  // The host budget with which the run fits `limit`, if it has one that does not do.
  std::optional<std::size_t> smallest_host(std::optional<std::size_t> limit) const;
  // As clear(), with less of the host's memory than the host budget.
  bool clear_with_host(std::size_t host_bytes, std::optional<std::size_t> limit,
                       Clearance& clearance) const;
  bool clear_with_less(std::optional<std::size_t> limit, Clearance& clearance) const;
  std::string suggestion(std::size_t budget) const;
  Verdict refuse(std::optional<std::size_t> budget) const;

  const RunConfig& config_;
  const Interrupt& interrupt_;
  const std::int64_t steps_;
  Without without_;
  std::size_t state_bytes_ = 0;  // Parameters, gradients, optimizer: no run needs less.
};

DryFigures Preflight::roomy(const RunConfig& config, std::int64_t steps,
                            std::optional<std::size_t> limit) const {
  // Two micro-steps' worth may be parked at once: the last of one and the first of the
  // next.
  const std::size_t most = config.offload == OffloadPolicy::kNone
                               ? 0
                               : std::min(2 * without_.peak_bytes, kMostDryPool);
  return dry_run(config,
                 {.steps = steps,
                  .device_limit_bytes = limit,
                  .host_reserve_bytes = std::min(most, host_limit(config))},
                 interrupt_);
}

bool Preflight::clear(const RunConfig& config, std::optional<std::size_t> limit,
                      Clearance& clearance) const {
  const DryFigures first = roomy(config, steps_, limit);
  if (!first.fits) return false;
  const auto parked = static_cast<double>(first.host.peak_taken_bytes);
  const auto rehearse = [&](std::size_t reserve) {
    return dry_run(
        config,
        {.steps = steps_, .device_limit_bytes = limit, .host_reserve_bytes = reserve},
        interrupt_);
  };
  const auto same = [&](const DryFigures& exact) {
    return exact.fits && exact.step_seconds == first.step_seconds &&
           exact.engine.no_room_bytes == first.engine.no_room_bytes &&
           exact.memory.peak_reserved_bytes == first.memory.peak_reserved_bytes;
  };
  // A pool that is full of holes makes the engine wait: then a little more is taken, up to
  // 5 % of what was asked for. Past that only a tensor that finds no room at all counts, as
  // in a pool of two or three blocks: the pool would grow by all of it.
  for (const double slack : kSlacks) {
    std::size_t reserve =
        std::min(static_cast<std::size_t>(slack * parked), host_limit(config));
    DryFigures exact = rehearse(reserve);
    const bool last = reserve == host_limit(config) || slack == kSlacks.back();
    const bool shut_out = exact.engine.no_room_bytes > first.engine.no_room_bytes;
    if (!same(exact) && !last && (slack < kLittle || shut_out)) continue;
    if (!exact.fits) return false;
    // A pool with room to spare takes back late what is over: less may do as well.
    for (std::size_t less = exact.host.peak_taken_bytes; less < reserve / 100 * 96;
         less = exact.host.peak_taken_bytes) {
      DryFigures tighter = rehearse(less);
      if (!same(tighter)) break;
      reserve = less;
      exact = std::move(tighter);
    }
    clearance.without = without_;
    const bool exactly_so = !config.profile.free && steps_ == config.steps;
    clearance.device_limit_bytes =
        exactly_so ? std::optional(exact.memory.peak_reserved_bytes) : limit;
    clearance.host_reserve_bytes = reserve;
    clearance.figures = std::move(exact);
    return true;
  }
  return false;
}

std::optional<std::size_t> Preflight::smallest(const RunConfig& config,
                                               std::size_t has) const {
  const std::int64_t steps = std::min(steps_, kSearchSteps);
  const DryFigures most = roomy(config, steps, std::nullopt);
  if (!most.fits) return std::nullopt;  // The host's budget is what does not do.
  const std::size_t enough = most.memory.peak_reserved_bytes;
  const auto works = [&](std::size_t bytes) { return roomy(config, steps, bytes).fits; };
  // From below what any run needs, so that the answer does not depend on what there is;
  // from what there is, if that fails in between two parts that work.
  std::size_t budget = smallest_budget(std::min(state_bytes_, enough - 1), enough, works);
  if (budget <= has && has < enough) budget = smallest_budget(has, enough, works);
  // All steps, with the pool that the run would have. Seldom more than the few.
  for (Clearance clearance; !clear(config, budget, clearance);) {
    if (budget > 2 * enough) return std::nullopt;
    budget += budget / 200 + 512;
  }
  return budget;
}

std::optional<std::size_t> Preflight::smallest_host(
    std::optional<std::size_t> limit) const {
  if (!config_.host_budget_bytes) return std::nullopt;
  RunConfig other = config_;
  other.host_budget_bytes = std::nullopt;
  Clearance clearance;
  if (!clear(other, limit, clearance)) return std::nullopt;
  const std::size_t enough = clearance.figures.host.pinned_bytes;
  const std::int64_t steps = std::min(steps_, kSearchSteps);
  std::size_t budget = smallest_budget(0, enough, [&](std::size_t bytes) {
    other.host_budget_bytes = bytes;
    return roomy(other, steps, limit).fits;
  });
  // All steps, with the pool that the run would have.
  for (;; budget += budget / 200 + 512) {
    other.host_budget_bytes = budget;
    if (clear(other, limit, clearance)) return budget;
    if (budget > 2 * enough) return std::nullopt;
  }
}

bool Preflight::clear_with_host(std::size_t host_bytes, std::optional<std::size_t> limit,
                                Clearance& clearance) const {
  RunConfig other = config_;
  other.host_budget_bytes = host_bytes;
  if (!clear(other, limit, clearance)) return false;
  clearance.host_budget_bytes = host_bytes;
  return true;
}

bool Preflight::clear_with_less(std::optional<std::size_t> limit,
                                Clearance& clearance) const {
  if (!config_.host_budget_bytes || config_.offload == OffloadPolicy::kNone) return false;
  const auto budget = static_cast<double>(*config_.host_budget_bytes);
  return std::any_of(kHostParts.begin(), kHostParts.end(), [&](double part) {
    return clear_with_host(static_cast<std::size_t>(part * budget), limit, clearance);
  });
}

// The policy that fits and costs the least time.
std::string Preflight::suggestion(std::size_t budget) const {
  static constexpr std::array<std::pair<const char*, OffloadPolicy>, 5> kPolicies{
      {{"none", OffloadPolicy::kSaved},
       {"sqrt", OffloadPolicy::kNone},
       {"every:1", OffloadPolicy::kNone},
       {"every:1", OffloadPolicy::kInputs},
       {"every:1", OffloadPolicy::kSaved}}};
  std::string best;
  double best_seconds = std::numeric_limits<double>::infinity();
  for (const auto& [checkpoint, offload] : kPolicies) {
    const RunConfig other = with_policy(config_, checkpoint, offload);
    if (other.checkpoint.text() == config_.checkpoint.text() &&
        offload == config_.offload) {
      continue;
    }
    Clearance clearance;
    if (!clear(other, budget, clearance)) continue;
    const double seconds = clearance.figures.step_seconds.value_or(0);
    if (!best.empty() && seconds >= best_seconds) continue;
    best = absl::StrCat("--checkpoint ", checkpoint, " --offload ", config::name(offload));
    best_seconds = seconds;
  }
  return best;
}

Verdict Preflight::refuse(std::optional<std::size_t> budget) const {
  constexpr std::size_t kAll = std::numeric_limits<std::size_t>::max();
  Shortage shortage{
      .device_budget_bytes = budget,
      .smallest_device_budget_bytes = smallest(config_, budget.value_or(kAll)),
      .smallest_host_budget_bytes = smallest_host(budget),
      .why_not = {},
      .policy = {}};
  // A part of what there is may do after all.
  const std::optional<std::size_t> host = shortage.smallest_host_budget_bytes;
  if (host && *host <= *config_.host_budget_bytes) {
    Clearance clearance;
    if (clear_with_host(*host, budget, clearance)) return clearance;
    shortage.smallest_host_budget_bytes = std::nullopt;
  }
  if (shortage.smallest_device_budget_bytes.value_or(kAll) <= budget.value_or(0)) {
    shortage.smallest_device_budget_bytes = std::nullopt;  // No help: there is more.
  }
  if (!shortage.smallest_host_budget_bytes) {
    if (shortage.smallest_device_budget_bytes) {
      shortage.policy = suggestion(budget.value_or(kAll));
    } else {
      shortage.why_not = roomy(config_, std::min(steps_, kSearchSteps), budget).why_not;
    }
  }
  return refusal(config_, shortage);
}

Verdict Preflight::run() {
  RunConfig plain = with_policy(config_, "none", OffloadPolicy::kNone);
  plain.host_budget_bytes = std::nullopt;
  const DryFigures without = roomy(plain, std::min(steps_, kSearchSteps), std::nullopt);
  if (!without.fits) {
    return Refusal{.code = absl::StatusCode::kResourceExhausted,
                   .message = without.why_not};
  }
  without_ = {.peak_bytes = without.memory.peak_bytes,
              .step_seconds = without.step_seconds};
  const BytesByPurpose& peak = without.memory.at_peak;
  state_bytes_ = peak.total() - peak.activations();

  const std::optional<std::size_t> budget = device_budget_bytes(config_);
  const std::optional<std::size_t> capacity = config_.profile.capacity_bytes;
  if (budget && capacity && *budget > *capacity) {
    const Compared sizes = compared(*budget, *capacity);
    return Refusal{
        .code = absl::StatusCode::kInvalidArgument,
        .message = absl::StrCat("the device budget of ", sizes.needs, " is more than ",
                                config_.device, " has: ", sizes.has)};
  }
  Clearance clearance;
  if (clear(config_, budget, clearance)) return clearance;
  if (clear_with_less(budget, clearance)) return clearance;
  return refuse(budget);
}

}  // namespace

std::optional<std::size_t> device_budget_bytes(const config::RunConfig& config) {
  return config.device_budget_bytes ? config.device_budget_bytes
                                    : config.profile.capacity_bytes;
}

std::int64_t dry_steps(const config::RunConfig& config) {
  constexpr std::int64_t kOps = 100'000;
  constexpr std::int64_t kOpsPerLayer = 60;  // All three passes and the optimizer.
  const std::int64_t ops_per_step =
      kOpsPerLayer * (config.model.layers + 4) * config.accumulate;
  return std::min(config.steps, std::max(kSearchSteps, kOps / ops_per_step));
}

Verdict preflight(const config::RunConfig& config, const Interrupt& interrupt) {
  return Preflight(config, interrupt).run();
}

}  // namespace ebb::cli
