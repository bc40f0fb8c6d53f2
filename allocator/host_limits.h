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
    std::string file;   // That holds the limit.
    std::string group;  // Its path below the controller's mount; "/" is the mount.
    std::size_t limit_bytes = 0;
    std::size_t used_bytes = 0;  // Without cached file pages that can be dropped.

    std::size_t room_bytes() const {
      return used_bytes < limit_bytes ? limit_bytes - used_bytes : 0;
    }
    // The command, or the setting, that raises the limit to `bytes`, told from who made the
    // group: Docker, Kubernetes, Slurm, systemd, or somebody by hand.
    std::string how_to_raise(std::size_t bytes) const;
  };

  std::optional<std::size_t> total_bytes;      // MemTotal
  std::optional<std::size_t> available_bytes;  // MemAvailable
  std::optional<Cgroup> cgroup;
  std::optional<std::size_t> memlock_bytes;        // Soft RLIMIT_MEMLOCK.
  std::optional<std::size_t> address_space_bytes;  // Soft RLIMIT_AS.
  std::size_t mapped_bytes = 0;                    // Of the address space: VmSize.

  // What RLIMIT_AS leaves of the address space; none: it does not limit.
  std::optional<std::size_t> address_room_bytes() const;
  // Why `bytes` more cannot be mapped, whether or not memory is behind them: RLIMIT_AS, and
  // what raises it. Empty if they can.
  std::string why_not_mapped(std::size_t bytes) const;

  // The least of what is available and what the control group leaves.
  std::optional<std::size_t> room_bytes() const;

  // Why `bytes` more do not fit, in words: which limit, what there is, and what raises it.
  // Empty if they fit.
  std::string why_no_room(std::size_t bytes) const;
  // The same for memory that is to be locked (mlock, io_uring): RLIMIT_MEMLOCK counts for
  // that as well. Memory that a driver registers, or that is only prefaulted, needs none.
  std::string why_not_locked(std::size_t bytes) const;

  // Throws Error{kResourceExhausted} with why_no_room(), if `bytes` more do not fit.
  void check_room(std::size_t bytes) const;
};

// The commands that let a process lock more memory, and map more.
std::string how_to_lock_more();
std::string how_to_map_more();

// Reads /proc/meminfo, /proc/self/limits, /proc/self/status, /proc/self/cgroup and, below
// /sys/fs/cgroup, the memory controller of version 2 and 1; all of them below `root`. What
// is missing or garbled counts as no limit.
HostLimits read_host_limits(const std::filesystem::path& root = "/");

}  // namespace ebb
