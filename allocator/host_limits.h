// How much memory this process may use, and what says so.

#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>

namespace ebb {

// What the kernel says. A limit that is not there, or cannot be read, is empty.
struct HostLimits {
  // The control group, of those that hold this process, that has the least room left.
  struct Cgroup {
    std::string file;  // That holds the limit.
    std::size_t limit_bytes = 0;
    std::size_t used_bytes = 0;  // Without cached file pages that can be dropped.

    std::size_t room_bytes() const {
      return used_bytes < limit_bytes ? limit_bytes - used_bytes : 0;
    }
  };

  std::optional<std::size_t> total_bytes;      // MemTotal
  std::optional<std::size_t> available_bytes;  // MemAvailable
  std::optional<Cgroup> cgroup;
  std::optional<std::size_t> memlock_bytes;  // Soft RLIMIT_MEMLOCK.

  // The least of what is available and what the control group leaves.
  std::optional<std::size_t> room_bytes() const;

  // Throws Error{kResourceExhausted}, which names the limit and what to do about it, if
  // `bytes` more do not fit.
  void check_room(std::size_t bytes) const;
};

// Reads /proc/meminfo, /proc/self/limits, /proc/self/cgroup and, below /sys/fs/cgroup, the
// memory controller of version 2 and 1; all of them below `root`. What is missing or
// garbled counts as no limit.
HostLimits read_host_limits(const std::filesystem::path& root = "/");

}  // namespace ebb
