#include "bindings/cli/doctor/machine.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <optional>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

#include "allocator/bytes_text.h"
#include "allocator/error.h"
#include "allocator/host_limits.h"
#include "allocator/read_file.h"
#include "bindings/cli/environment.h"

namespace ebb::cli {
namespace {

namespace fs = std::filesystem;
using State = Finding::State;

std::optional<std::string> first_line(const fs::path& path) {
  constexpr std::size_t kMostBytes = std::size_t{1} << 20;
  try {
    const std::string text = read_file(path.string(), kMostBytes);
    if (text.empty()) return std::nullopt;
    return std::string(absl::StripAsciiWhitespace(text.substr(0, text.find('\n'))));
  } catch (const Error&) {
    return std::nullopt;
  }
}

std::vector<std::string> entries(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end;
       at.increment(error)) {
    names.push_back(at->path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::optional<std::string> find_program(const std::string& path, const char* name) {
  for (const absl::string_view folder : absl::StrSplit(path, ':', absl::SkipEmpty())) {
    const fs::path file = fs::path(std::string(folder)) / name;
    std::error_code error;
    if (fs::is_regular_file(file, error)) return file.string();
  }
  return std::nullopt;
}

Finding cores() {
  Finding finding{.key = "cores", .title = "cores", .text = {}, .remedy = {}};
  const int allowed = allowed_cores();
  finding.text = absl::StrCat(allowed, " that this process may run on");
  finding.figures["cores"] = allowed;
  return finding;
}

Finding ram(const HostLimits& limits) {
  Finding finding{.key = "ram", .title = "RAM", .text = {}, .remedy = {}};
  if (!limits.total_bytes || !limits.available_bytes) {
    finding.state = State::kMissing;
    finding.text = "unknown: /proc/meminfo does not say";
    finding.remedy = "mount -t proc proc /proc";
    return finding;
  }
  finding.text = absl::StrCat(bytes_text(*limits.total_bytes), ", of which ",
                              bytes_text(*limits.available_bytes), " are available");
  finding.figures["total_bytes"] = *limits.total_bytes;
  finding.figures["available_bytes"] = *limits.available_bytes;
  return finding;
}

Finding cgroup(const HostLimits& limits) {
  Finding finding{.key = "cgroup", .title = "cgroup", .text = {}, .remedy = {}};
  if (!limits.cgroup) {
    finding.text = "no memory limit";
    finding.figures["limit_bytes"] = nullptr;
    return finding;
  }
  const HostLimits::Cgroup& group = *limits.cgroup;
  finding.text = absl::StrCat(bytes_text(group.limit_bytes), " at most (", group.file,
                              "), of which ", bytes_text(group.room_bytes()), " are left");
  finding.figures["limit_bytes"] = group.limit_bytes;
  finding.figures["room_bytes"] = group.room_bytes();
  if (limits.total_bytes && group.limit_bytes < *limits.total_bytes) {
    finding.state = State::kLimited;
    finding.remedy = group.how_to_raise(*limits.total_bytes);
  }
  return finding;
}

Finding memlock(const HostLimits& limits) {
  Finding finding{.key = "memlock", .title = "memlock", .text = {}, .remedy = {}};
  if (!limits.memlock_bytes) {
    finding.text = "unlimited";
    finding.figures["limit_bytes"] = nullptr;
    return finding;
  }
  finding.text = absl::StrCat(bytes_text(*limits.memlock_bytes),
                              " of locked memory; the simulated device needs none");
  finding.figures["limit_bytes"] = *limits.memlock_bytes;
  finding.state = State::kLimited;
  finding.remedy = how_to_lock_more();
  return finding;
}

Finding numa(const fs::path& root) {
  Finding finding{.key = "numa", .title = "NUMA", .text = {}, .remedy = {}};
  int nodes = 0;
  for (const std::string& name : entries(root / "sys/devices/system/node")) {
    int number = 0;
    if (absl::StartsWith(name, "node") && absl::SimpleAtoi(name.substr(4), &number))
      ++nodes;
  }
  finding.figures["nodes"] = nodes;
  finding.text = nodes > 1
                     ? absl::StrCat(nodes, " nodes; host memory is bound to the device's")
                     : "one node";
  return finding;
}

Finding gpus(const Surroundings& around) {
  Finding finding{.key = "gpu", .title = "GPUs", .text = {}, .remedy = {}};
  // PCI class 0x03....: display controllers; vendor 0x10de: NVIDIA.
  int cards = 0;
  const fs::path devices = around.root / "sys/bus/pci/devices";
  for (const std::string& name : entries(devices)) {
    const std::string vendor = first_line(devices / name / "vendor").value_or("");
    const std::string kind = first_line(devices / name / "class").value_or("");
    if (vendor == "0x10de" && absl::StartsWith(kind, "0x03")) ++cards;
  }
  const std::optional<std::string> module =
      first_line(around.root / "proc/driver/nvidia/version");
  const bool library = around.has_library("libcuda.so.1");
  const bool tool = find_program(around.path, "nvidia-smi").has_value();
  finding.figures["nvidia_gpus"] = cards;
  finding.figures["driver"] = module ? nlohmann::ordered_json(*module) : nullptr;
  finding.figures["libcuda"] = library;
  finding.figures["nvidia_smi"] = tool;
  const std::string use = "; this release trains on the simulated device";
  if (cards == 0 && !library) {
    finding.state = State::kMissing;
    finding.text = "no NVIDIA GPU and no driver" + use;
  } else if (!module || !library) {
    finding.state = State::kLimited;
    finding.text = absl::StrCat(cards, " NVIDIA GPUs, and ",
                                module ? "no libcuda.so.1" : "no driver loaded", use);
    finding.remedy = module ? "apt-get install libcuda1"
                            : "apt-get install nvidia-driver && modprobe nvidia";
  } else {
    finding.text = absl::StrCat(cards, " NVIDIA GPUs, ", *module, use);
  }
  return finding;
}

Finding mpi(const Surroundings& around) {
  Finding finding{.key = "mpi", .title = "MPI", .text = {}, .remedy = {}};
  const std::optional<std::string> runner = find_program(around.path, "mpirun");
  const bool library =
      around.has_library("libmpi.so.40") || around.has_library("libmpi.so.12");
  finding.figures["mpirun"] = runner ? nlohmann::ordered_json(*runner) : nullptr;
  finding.figures["library"] = library;
  if (runner && library) {
    finding.text = absl::StrCat(*runner, "; this release runs one rank");
  } else {
    finding.state = State::kMissing;
    finding.text = absl::StrCat(runner    ? "no library"
                                : library ? "no mpirun"
                                          : "none",
                                "; this release runs one rank");
    finding.remedy = "apt-get install openmpi-bin libopenmpi-dev";
  }
  return finding;
}

Finding nvme(const Surroundings& around) {
  Finding finding{.key = "nvme", .title = "NVMe", .text = {}, .remedy = {}};
  std::vector<std::string> disks;
  std::uint64_t bytes = 0;
  const fs::path block = around.root / "sys/block";
  for (const std::string& name : entries(block)) {
    std::uint64_t sectors = 0;  // Of 512 bytes, whatever the disk's own are.
    if (!absl::StartsWith(name, "nvme")) continue;
    disks.push_back(name);
    if (absl::SimpleAtoi(first_line(block / name / "size").value_or(""), &sectors)) {
      bytes += sectors * 512;
    }
  }
  const bool uring = around.has_library("liburing.so.2");
  finding.figures["disks"] = disks;
  finding.figures["bytes"] = bytes;
  finding.figures["liburing"] = uring;
  if (disks.empty()) {
    finding.state = State::kMissing;
    finding.text = "no disk; this release offloads to host memory only";
    return finding;
  }
  finding.text = absl::StrCat(absl::StrJoin(disks, ", "), " (", bytes_text(bytes),
                              "); this release offloads to host memory only");
  if (!uring) {
    finding.state = State::kLimited;
    finding.remedy = "apt-get install liburing2";
  }
  return finding;
}

const char* name(State state) {
  switch (state) {
    case State::kGood:
      return "good";
    case State::kLimited:
      return "limited";
    case State::kMissing:
      break;
  }
  return "missing";
}

}  // namespace

Surroundings this_machine() {
  const char* const path = std::getenv("PATH");
  return {.root = "/",
          .path = path == nullptr ? "" : path,
          .has_library = [](const char* library) {
            void* const handle = dlopen(library, RTLD_LAZY | RTLD_LOCAL);
            if (handle != nullptr) dlclose(handle);
            return handle != nullptr;
          }};
}

std::vector<Finding> inspect(const Surroundings& surroundings) {
  const HostLimits limits = read_host_limits(surroundings.root);
  return {cores(),
          ram(limits),
          cgroup(limits),
          memlock(limits),
          numa(surroundings.root),
          gpus(surroundings),
          mpi(surroundings),
          nvme(surroundings)};
}

std::string to_text(const std::vector<Finding>& findings) {
  std::string text;
  for (const Finding& finding : findings) {
    const char mark = finding.state == State::kGood      ? '+'
                      : finding.state == State::kLimited ? '!'
                                                         : '-';
    absl::StrAppend(&text, std::string(1, mark), " ", finding.title,
                    std::string(10 - std::min<std::size_t>(finding.title.size(), 9), ' '),
                    finding.text, "\n");
    if (!finding.remedy.empty())
      absl::StrAppend(&text, "              ", finding.remedy, "\n");
  }
  return text;
}

nlohmann::ordered_json to_json(const std::vector<Finding>& findings) {
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (const Finding& finding : findings) {
    nlohmann::ordered_json one = {{"key", finding.key},
                                  {"state", name(finding.state)},
                                  {"text", finding.text},
                                  {"remedy", finding.remedy}};
    one.update(finding.figures);
    all.push_back(std::move(one));
  }
  return {{"findings", all}};
}

}  // namespace ebb::cli
