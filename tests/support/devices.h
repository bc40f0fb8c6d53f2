// Small devices for tests: round figures, so that times can be worked out by hand.

#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "runtime/device/device.h"
#include "runtime/device/sim/sim_device.h"

namespace ebb::test {

// Nothing calls it: bodies in these tests are plain closures.
inline const Kernels& no_kernels() {
  static const Kernels kernels{};
  return kernels;
}

// One byte or FLOP takes a second unless said otherwise; no latencies.
inline device::Profile slow_profile() {
  device::Profile profile;
  profile.name = "slow";
  profile.capacity_bytes = std::size_t{1} << 24;
  profile.f32_flops_per_second = 1;
  profile.bf16_flops_per_second = 2;
  profile.memory_bytes_per_second = 1;
  profile.d2h = profile.h2d = profile.network = {1, 0};
  profile.disk_write = profile.disk_read = {1, 0};
  return profile;
}

struct DeviceKind {
  std::string name;
  device::Order order;
  bool dry = false;
  bool free = false;
};

inline std::unique_ptr<device::Device> make_device(
    const DeviceKind& kind, device::Profile profile = slow_profile()) {
  device::SimOptions options;
  options.profile = kind.free ? device::load_profile("free") : std::move(profile);
  options.order = kind.order;
  options.dry = kind.dry;
  if (kind.free) options.limit_bytes = std::size_t{1} << 24;
  return device::make_sim_device(options, no_kernels());
}

// An op that takes `seconds` on slow_profile().
inline device::OpInfo op(const char* name, double seconds,
                         std::span<const device::Access> accesses = {}) {
  device::OpInfo info;
  info.name = name;
  info.accesses = accesses;
  info.work.flops = seconds;
  return info;
}

// Remembers all it is told.
class Recorder final : public device::OpObserver {
 public:
  void on_op(const device::OpRecord& record) override { records.push_back(record); }
  std::vector<device::OpRecord> records;
};

}  // namespace ebb::test
