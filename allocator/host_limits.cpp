#include "allocator/host_limits.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

#include "allocator/bytes_text.h"
#include "allocator/error.h"
#include "allocator/read_file.h"

namespace ebb {
namespace {

using Path = std::filesystem::path;

// A file that is missing says nothing.
std::string text_of(const Path& file) {
  constexpr std::size_t kMostBytes = std::size_t{1} << 20;
  try {
    return read_file(file.string(), kMostBytes);
  } catch (const Error&) {
    return {};
  }
}

std::optional<std::size_t> number(absl::string_view text) {
  std::uint64_t value = 0;
  if (!absl::SimpleAtoi(text, &value)) return std::nullopt;
  return value;
}

// The number after `key`, which begins a line: "MemAvailable:   123 kB".
std::optional<std::size_t> number_after(absl::string_view key, absl::string_view text) {
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    if (!absl::ConsumePrefix(&line, key)) continue;
    const std::vector<absl::string_view> words =
        absl::StrSplit(line, ' ', absl::SkipWhitespace());
    return words.empty() ? std::nullopt : number(words.front());
  }
  return std::nullopt;
}

std::optional<std::size_t> kibibytes_after(absl::string_view key, absl::string_view text) {
  const auto value = number_after(key, text);
  return value ? std::optional(*value * 1024) : std::nullopt;
}

// One of the two versions of the memory controller.
struct Controller {
  const char* mount;
  const char* limit;
  const char* usage;
  const char* droppable;  // In memory.stat.
};
constexpr Controller kVersion2{"sys/fs/cgroup", "memory.max", "memory.current",
                               "inactive_file "};
constexpr Controller kVersion2Hybrid{"sys/fs/cgroup/unified", "memory.max",
                                     "memory.current", "inactive_file "};
constexpr Controller kVersion1{"sys/fs/cgroup/memory", "memory.limit_in_bytes",
                               "memory.usage_in_bytes", "total_inactive_file "};

std::optional<HostLimits::Cgroup> read_group(const Path& mount, const Path& below,
                                             const Controller& controller) {
  // Version 1 says "no limit" by a number near 2^63, version 2 by the word "max".
  constexpr std::size_t kNoLimit = std::size_t{1} << 62;
  const Path group = mount / below;
  const Path file = group / controller.limit;
  const auto limit = number(text_of(file));
  if (!limit || *limit >= kNoLimit) return std::nullopt;
  const std::size_t used = number(text_of(group / controller.usage)).value_or(0);
  const std::size_t droppable =
      number_after(controller.droppable, text_of(group / "memory.stat")).value_or(0);
  return HostLimits::Cgroup{.file = file.string(),
                            .group = (Path("/") / below).lexically_normal().string(),
                            .limit_bytes = *limit,
                            .used_bytes = used - std::min(used, droppable)};
}

// Every group from `path` up to the mount can limit. In a container the path may name
// groups that are not visible there; the mount itself is then the container's.
void find_tightest(const Path& root, const Controller& controller, absl::string_view path,
                   std::optional<HostLimits::Cgroup>& tightest) {
  const Path mount = root / controller.mount;
  Path below = Path(std::string(path)).relative_path().lexically_normal();
  while (true) {
    const auto group = read_group(mount, below, controller);
    if (group && (!tightest || group->room_bytes() < tightest->room_bytes())) {
      tightest = group;
    }
    if (below.empty() || below == ".") break;
    below = below.parent_path();
  }
}

// Lines such as "0::/user.slice" (version 2) and "4:memory:/docker/0123" (version 1).
std::optional<HostLimits::Cgroup> read_cgroup(const Path& root) {
  std::optional<HostLimits::Cgroup> tightest;
  const std::string text = text_of(root / "proc/self/cgroup");
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    const std::vector<absl::string_view> parts =
        absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (parts.size() < 3) continue;
    if (parts[1].empty()) {
      find_tightest(root, kVersion2, parts[2], tightest);
      find_tightest(root, kVersion2Hybrid, parts[2], tightest);
    }
    const std::vector<absl::string_view> names = absl::StrSplit(parts[1], ',');
    if (std::find(names.begin(), names.end(), "memory") != names.end()) {
      find_tightest(root, kVersion1, parts[2], tightest);
    }
  }
  return tightest;
}

// Exact, and readable.
std::string words(std::size_t bytes) {
  return absl::StrCat(bytes_text(bytes), " (", bytes, " bytes)");
}

}  // namespace

std::string HostLimits::Cgroup::how_to_raise(std::size_t bytes) const {
  constexpr std::size_t kMebibyte = std::size_t{1} << 20;
  const std::size_t size = (bytes + kMebibyte - 1) / kMebibyte;
  const Path path(group);
  std::string name = path.filename().string();
  if (absl::StrContains(group, "kubepods")) {
    return absl::StrCat("set resources.limits.memory of the pod to ", size, "Mi");
  }
  if (absl::StrContains(group, "slurm")) {
    return absl::StrCat("ask for it: srun --mem=", size, "M");
  }
  if (path.parent_path().filename() == "docker" ||
      (absl::StartsWith(name, "docker-") && absl::EndsWith(name, ".scope"))) {
    constexpr std::size_t kIdDigits = 12;
    const absl::string_view id = absl::StripPrefix(name, "docker-");
    return absl::StrCat("docker update --memory ", size, "m --memory-swap ", size, "m ",
                        id.substr(0, kIdDigits));
  }
  for (const char* kind : {".service", ".scope", ".slice"}) {
    if (!absl::EndsWith(name, kind)) continue;
    return absl::StrCat("systemctl set-property ", name, " MemoryMax=", size, "M");
  }
  if (group == "/") {
    return absl::StrCat("start the container with docker run --memory ", size,
                        "m, or set resources.limits.memory of the pod to ", size, "Mi");
  }
  return absl::StrCat("echo ", size * kMebibyte, " | sudo tee ", file);
}

std::optional<std::size_t> HostLimits::room_bytes() const {
  if (!cgroup) return available_bytes;
  return std::min(cgroup->room_bytes(), available_bytes.value_or(cgroup->room_bytes()));
}

std::optional<std::size_t> HostLimits::address_room_bytes() const {
  if (!address_space_bytes) return std::nullopt;
  return *address_space_bytes - std::min(*address_space_bytes, mapped_bytes);
}

std::string HostLimits::why_not_mapped(std::size_t bytes) const {
  const std::optional<std::size_t> room = address_room_bytes();
  if (!room || bytes <= *room) return {};
  return absl::StrCat("no address space for ", words(bytes),
                      ": RLIMIT_AS (ulimit -v) allows ", words(*address_space_bytes),
                      ", of which ", words(mapped_bytes),
                      " are taken; to raise it: ", how_to_map_more());
}

std::string HostLimits::why_no_room(std::size_t bytes) const {
  if (cgroup && bytes > cgroup->room_bytes()) {
    return absl::StrCat(
        "no room for ", words(bytes), " of host memory: ", cgroup->file, " allows ",
        words(cgroup->limit_bytes), ", of which ", words(cgroup->used_bytes),
        " are in use; to raise it: ", cgroup->how_to_raise(cgroup->used_bytes + bytes));
  }
  if (available_bytes && bytes > *available_bytes) {
    return absl::StrCat("no room for ", words(bytes),
                        " of host memory: of this machine's RAM ", words(*available_bytes),
                        " are available (MemAvailable in /proc/meminfo); end what else "
                        "uses it (ps aux --sort=-rss shows what does)");
  }
  return why_not_mapped(bytes);
}

std::string HostLimits::why_not_locked(std::size_t bytes) const {
  if (memlock_bytes && bytes > *memlock_bytes) {
    return absl::StrCat(
        "no more than ", words(*memlock_bytes), " may be locked, not ", words(bytes),
        ": RLIMIT_MEMLOCK says so (ulimit -l); to raise it: ", how_to_lock_more());
  }
  return why_no_room(bytes);
}

void HostLimits::check_room(std::size_t bytes) const {
  if (const std::string why = why_no_room(bytes); !why.empty()) {
    throw Error(absl::StatusCode::kResourceExhausted, why, Error::Resource::kHostMemory);
  }
}

std::string how_to_lock_more() {
  return "ulimit -l unlimited (for good: '* - memlock unlimited' in "
         "/etc/security/limits.conf; in a container: docker run --ulimit memlock=-1)";
}

std::string how_to_map_more() {
  return "ulimit -v unlimited (for good: '* - as unlimited' in "
         "/etc/security/limits.conf)";
}

HostLimits read_host_limits(const std::filesystem::path& root) {
  HostLimits limits;
  const std::string memory = text_of(root / "proc/meminfo");
  limits.total_bytes = kibibytes_after("MemTotal:", memory);
  limits.available_bytes = kibibytes_after("MemAvailable:", memory);
  const std::string rlimits = text_of(root / "proc/self/limits");
  limits.memlock_bytes = number_after("Max locked memory", rlimits);
  limits.address_space_bytes = number_after("Max address space", rlimits);
  limits.mapped_bytes =
      kibibytes_after("VmSize:", text_of(root / "proc/self/status")).value_or(0);
  limits.cgroup = read_cgroup(root);
  return limits;
}

}  // namespace ebb
