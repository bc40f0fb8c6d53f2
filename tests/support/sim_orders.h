// The orders in which a simulated device may move bytes: eager, time, and enough fuzz
// seeds.

#pragma once

#include <string>
#include <vector>

#include "runtime/device/sim/sim_device.h"

namespace ebb::test {

inline std::vector<device::Order> orders_with(std::uint64_t fuzz_seeds) {
  using Kind = device::Order::Kind;
  std::vector<device::Order> orders{{Kind::kEager, 0}, {Kind::kTime, 0}};
  for (std::uint64_t seed = 1; seed <= fuzz_seeds; ++seed) {
    orders.push_back({Kind::kFuzz, seed});
  }
  return orders;
}
inline std::vector<device::Order> all_orders() { return orders_with(4); }
inline std::vector<device::Order> twenty_four_orders() { return orders_with(22); }

inline std::string order_name(const device::Order& order) {
  if (order.kind == device::Order::Kind::kEager) return "eager";
  if (order.kind == device::Order::Kind::kTime) return "time";
  return "fuzz" + std::to_string(order.seed);
}

}  // namespace ebb::test
