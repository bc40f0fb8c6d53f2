// Where page-locked host memory comes from.

#pragma once

#include <cstddef>
#include <memory>

namespace ebb {

// Thread-safe. Pinning memory costs many times what copying into it does, so callers keep
// what they can use again, and never pin inside a training step.
class HostMemory {
 public:
  virtual ~HostMemory() = default;

  // Returns `bytes` bytes of page-aligned, prefaulted memory that devices may copy to and
  // from. Throws Error{kInvalidArgument} for 0 bytes, Error{kResourceExhausted} if there is
  // no room.
  [[nodiscard]] virtual std::byte* pin(std::size_t bytes) = 0;

  // Takes back what pin(bytes) returned.
  virtual void unpin(std::byte* data, std::size_t bytes) noexcept = 0;
};

// Ordinary memory, prefaulted in parallel, MADV_DONTFORK, and bound with hwloc to a NUMA
// node (its OS index) where the machine has more than one: for devices that are the CPU
// itself.
std::unique_ptr<HostMemory> make_pageable_memory(unsigned numa_node = 0);

// Addresses without memory behind them, for dry runs. They must not be read or written.
std::unique_ptr<HostMemory> make_unbacked_memory();

}  // namespace ebb
