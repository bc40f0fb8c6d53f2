// Where page-locked host memory comes from.

#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>

namespace ebb {

// Pinned memory comes in whole pages.
inline constexpr std::size_t kPageBytes = 4096;

// Thread-safe. Pinning memory costs many times what copying into it does, so callers keep
// what they can use again, and never pin inside a training step.
class HostMemory {
 public:
  virtual ~HostMemory() = default;

  // Returns `bytes` bytes of page-aligned, prefaulted memory that devices may copy to and
  // from. Throws Error{kInvalidArgument} for 0 bytes, Error{kResourceExhausted} if there is
  // no room.
  [[nodiscard]] virtual std::byte* pin(std::size_t bytes) = 0;

  // Throws Error{kResourceExhausted} that names the limit and what to do, if the machine
  // has no room for `bytes` bytes more: where the kernel would kill the process rather than
  // let pin() fail.
  virtual void check_room([[maybe_unused]] std::size_t bytes) const {}

  // Takes back what pin(bytes) returned.
  virtual void unpin(std::byte* data, std::size_t bytes) noexcept = 0;
};

// Ordinary memory, prefaulted in parallel, MADV_DONTFORK, and bound with hwloc to a NUMA
// node (its OS index) where the machine has more than one: for devices that are the CPU
// itself. Throws Error{kUnavailable} if there is no such node. pin() checks the room first;
// it reads the limits below `root` (see host_limits.h).
std::unique_ptr<HostMemory> make_pageable_memory(unsigned numa_node = 0,
                                                 const std::filesystem::path& root = "/");

// Addresses without memory behind them, for dry runs: reading or writing there is a
// segmentation fault.
std::unique_ptr<HostMemory> make_unbacked_memory();

}  // namespace ebb
