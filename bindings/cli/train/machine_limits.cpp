#include "bindings/cli/train/machine_limits.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"

#include "allocator/bytes_text.h"

namespace ebb::cli {
namespace {

// The second device, and a copy of weights and gradients on the way to it.
std::size_t verifier_bytes(const config::RunConfig& config, const Clearance& clearance) {
  return config.verify_gradients ? 2 * clearance.without.peak_bytes : 0;
}

}  // namespace

std::optional<Refusal> host_budget_refusal(const config::RunConfig& config,
                                           const HostLimits& limits) {
  if (!config.host_budget_bytes || config.dry) return std::nullopt;
  const std::size_t budget = *config.host_budget_bytes;
  const auto refusal = [&](const std::string& whose, std::size_t limit,
                           const std::string& what_to_do) {
    const Compared sizes = compared(budget, limit);
    return Refusal{
        .code = absl::StatusCode::kInvalidArgument,
        .message = absl::StrCat("the host budget of ", sizes.needs, " is more than ", whose,
                                ": ", sizes.has, "; ", what_to_do)};
  };
  const std::string lower = absl::StrCat("lower ", config.host_budget_flag);
  if (limits.total_bytes && budget > *limits.total_bytes) {
    return refusal("the RAM of this machine", *limits.total_bytes, lower);
  }
  if (limits.cgroup && budget > limits.cgroup->limit_bytes) {
    return refusal(
        absl::StrCat("the limit in ", limits.cgroup->file), limits.cgroup->limit_bytes,
        absl::StrCat(lower, ", or raise the limit: ",
                     limits.cgroup->how_to_raise(limits.cgroup->used_bytes + budget)));
  }
  return std::nullopt;
}

std::optional<Refusal> machine_refusal(const config::RunConfig& config,
                                       const Clearance& clearance,
                                       const HostLimits& limits) {
  if (config.dry) return std::nullopt;
  const std::size_t device = clearance.figures.memory.peak_reserved_bytes;
  const std::size_t host = clearance.host_reserve_bytes;
  const std::size_t verifier = verifier_bytes(config, clearance);
  const std::string why = limits.why_no_room(device + host + verifier);
  if (why.empty()) return std::nullopt;
  return Refusal{
      .code = absl::StatusCode::kResourceExhausted,
      .message = absl::StrCat(
          why, ". The simulated device takes ", bytes_text(device), " of it",
          host > 0 ? absl::StrCat(", what is offloaded ", bytes_text(host)) : "",
          verifier > 0 ? absl::StrCat(", --verify-gradients ", bytes_text(verifier)) : "",
          ": add --dry, or take a smaller --batch, --seq or model"),
      .resource = Error::Resource::kHostMemory};
}

DeviceAddresses device_addresses(const config::RunConfig& config,
                                 const Clearance& clearance, const HostLimits& limits) {
  DeviceAddresses addresses{.device_limit_bytes = clearance.device_limit_bytes,
                            .reference_limit_bytes = std::nullopt};
  const std::optional<std::size_t> room = limits.address_room_bytes();
  if (!room || config.dry) return addresses;
  const std::size_t verifier = verifier_bytes(config, clearance);
  if (verifier > 0) addresses.reference_limit_bytes = verifier;
  const std::size_t other = verifier + clearance.host_reserve_bytes;
  const std::size_t half = (*room - std::min(*room, other)) / 2;
  const std::size_t most = std::max(half, clearance.figures.memory.peak_reserved_bytes);
  if (!addresses.device_limit_bytes || *addresses.device_limit_bytes > most) {
    addresses.device_limit_bytes = most;
    addresses.limited = true;
  }
  return addresses;
}

}  // namespace ebb::cli
