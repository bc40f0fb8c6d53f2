// What a simulated device is like: rates, latencies, capacity.

#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

#include "runtime/device/device.h"

namespace ebb::device {

// From `seconds` of the run on, copies that begin move bytes at this part of the link's
// rates: 0.5 is half as fast, 0 never ends. Latencies stay.
struct LinkChange {
  double seconds = 0;
  double d2h = 1;
  double h2d = 1;
};

// A collective takes latency + bytes / rate from the latest rank's start; a disk transfer
// likewise.
struct Profile {
  std::string name;
  bool free = false;  // No capacity, copies take no time, the clock is the wall's.
  std::optional<std::size_t> capacity_bytes;
  double f32_flops_per_second = 0;
  double bf16_flops_per_second = 0;
  double memory_bytes_per_second = 0;
  double launch_seconds = 0;
  double host_submit_seconds = 0;
  LinkRate d2h;
  LinkRate h2d;
  std::optional<double> duplex_bytes_per_second;
  std::vector<LinkChange> link_changes;  // In the order of their times.
  LinkRate network;
  LinkRate disk_write;
  LinkRate disk_read;

  // How long an op or a copy takes alone.
  double seconds(const Work& work) const;
};

// The names of the profiles that ship: "t4-pcie3", "a100-pcie4", "h100-pcie5", "gh200",
// "gb300", "free".
std::vector<std::string> profile_names();

// A shipped profile, or a file if `name_or_file` ends in ".json". Throws
// Error{kInvalidArgument} that lists the names that would work, or names the file, the key
// and what is wrong with its value.
Profile load_profile(const std::string& name_or_file);

}  // namespace ebb::device
