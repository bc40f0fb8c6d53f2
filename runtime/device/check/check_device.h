// The order checker: a decorator over any device.
//
// It keeps a vector clock for each stream and timeline (Mattern 1989; the happens-before
// test of Lamport 1978) and, for every range of device memory and of host memory that
// copies use, the last writer and the readers since. Two accesses that conflict without an
// order between them are a violation, whatever order they happened to run in.

#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runtime/device/device.h"

namespace ebb::device {

struct OrderFigures {
  std::uint64_t accesses = 0;
  std::uint64_t violations = 0;
};

class CheckDevice : public Device {
 public:
  // The first violations in words (at most 100): both ops, both streams, the range.
  virtual std::vector<std::string> violations() const = 0;
  virtual OrderFigures order() const = 0;
};

struct CheckOptions {
  bool throw_on_violation =
      true;  // At the submission that conflicts: Error{kInternal}. Else it only counts.
  // Device memory that is lent again is overwritten before its first use, in stream order
  // (not on a dry device). Nothing else is changed by it.
  bool poison_freed = true;
};

std::unique_ptr<CheckDevice> make_check_device(std::unique_ptr<Device> device,
                                               const CheckOptions& options = {});

}  // namespace ebb::device
