// Records of ops as a device would report them, made by hand.

#pragma once

#include <cstdint>

#include "runtime/device/device.h"

namespace ebb::test {

// Tickets of a stream that nobody runs.
class FakeSource final : public EventSource {
 public:
  bool reached(std::uint64_t) const noexcept override { return true; }
  void await(std::uint64_t) const noexcept override {}
  Event at(std::uint64_t ticket) const { return {*this, ticket}; }
};

inline device::OpRecord compute_op(const Event& end, device::Phase phase, double start,
                                   double seconds, double stall = 0,
                                   device::StallCause cause = device::StallCause::kHost) {
  device::OpRecord record;
  record.name = "op";
  record.end_event = end;
  record.phase = phase;
  record.start = start;
  record.end = start + seconds;
  record.stall = stall;
  record.cause = cause;
  return record;
}

inline device::OpRecord copy_op(device::OpRecord::Unit unit, const char* name, double start,
                                double seconds, std::size_t bytes) {
  device::OpRecord record;
  record.name = name;
  record.unit = unit;
  record.phase = device::Phase::kOther;
  record.start = start;
  record.end = start + seconds;
  record.bytes = bytes;
  return record;
}

}  // namespace ebb::test
