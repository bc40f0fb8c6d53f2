// Simulated devices under the order checker, for tests of what runs on devices.

#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "kernels/cpu/cpu_kernels.h"
#include "runtime/device/check/check_device.h"
#include "runtime/device/sim/profile.h"
#include "runtime/device/sim/sim_device.h"
#include "tests/support/sim_orders.h"

namespace ebb::test {

inline device::SimOptions sim_options(const device::Order& order = {}) {
  device::SimOptions options;
  options.profile = device::load_profile("a100-pcie4");
  options.order = order;
  options.limit_bytes = std::size_t{64} << 20;
  return options;
}

// A violation of the order throws where it is submitted.
inline std::unique_ptr<device::CheckDevice> checked(const device::SimOptions& options) {
  return device::make_check_device(device::make_sim_device(options, cpu_kernels()));
}
inline std::unique_ptr<device::CheckDevice> checked_sim(const device::Order& order = {}) {
  return checked(sim_options(order));
}
// Ops that touch what they do not declare fail.
inline std::unique_ptr<device::CheckDevice> guarded_sim() {
  device::SimOptions options = sim_options();
  options.limit_bytes = std::size_t{4} << 20;
  options.guard_undeclared = true;
  return checked(options);
}
inline std::unique_ptr<device::CheckDevice> dry_sim() {
  device::SimOptions options = sim_options();
  options.dry = true;
  return checked(options);
}

}  // namespace ebb::test
