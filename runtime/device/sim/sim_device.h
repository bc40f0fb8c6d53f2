// A deterministic device on the CPU, with no thread of its own. Kernels run for real; time
// is virtual.

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "runtime/device/device.h"
#include "runtime/device/sim/profile.h"

namespace ebb::device {

// When the bytes of an op move; clock and memory figures are the same in all three.
struct Order {
  enum class Kind : std::uint8_t {
    kEager,  // At submission, as soon as all it waits for has moved.
    kTime,   // In virtual time.
    kFuzz,   // At random among all that streams and events allow; copies are held back as
             // long as they may.
  };
  Kind kind = Kind::kTime;
  std::uint64_t seed = 0;
};

struct SimOptions {
  Profile profile;
  Order order;
  bool dry = false;
  // Device bytes that may be reserved; none: the profile's capacity (and without one, all
  // it takes).
  std::optional<std::size_t> limit_bytes;
  // While an op runs, pages that it did not declare are PROT_NONE: an op that touches one
  // raises an error that names it. For tests with small arenas.
  bool guard_undeclared = false;
  // Asked for each op and copy (probes aside) that is about to run, by name: what is not OK
  // is its failure, and it does not run. For trying out what a failing device does. Then a
  // dry device goes through its ops in `order`, too.
  std::function<absl::Status(const char* op)> fault;
};

// `kernels` is the table that its streams' ops use. Throws Error{kInvalidArgument} for a
// limit above the profile's capacity.
std::unique_ptr<Device> make_sim_device(const SimOptions& options, const Kernels& kernels);

}  // namespace ebb::device
