#include "allocator/host_limits.h"

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <sstream>

#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

#include "allocator/error.h"

namespace ebb {
namespace {

using Path = std::filesystem::path;

std::string text_of(const Path& file) {
  std::ifstream stream(file);
  std::ostringstream text;
  text << stream.rdbuf();
  return text.str();
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

std::optional<HostLimits::Cgroup> read_group(const Path& group,
                                             const Controller& controller) {
  // Version 1 says "no limit" by a number near 2^63, version 2 by the word "max".
  constexpr std::size_t kNoLimit = std::size_t{1} << 62;
  const Path file = group / controller.limit;
  const auto limit = number(text_of(file));
  if (!limit || *limit >= kNoLimit) return std::nullopt;
  const std::size_t used = number(text_of(group / controller.usage)).value_or(0);
  const std::size_t droppable =
      number_after(controller.droppable, text_of(group / "memory.stat")).value_or(0);
  return HostLimits::Cgroup{file.string(), *limit, used - std::min(used, droppable)};
}

// Every group from `path` up to the mount can limit. In a container the path may name
// groups that are not visible there; the mount itself is then the container's.
void find_tightest(const Path& root, const Controller& controller, absl::string_view path,
                   std::optional<HostLimits::Cgroup>& tightest) {
  const Path mount = root / controller.mount;
  Path below = Path(std::string(path)).relative_path().lexically_normal();
  while (true) {
    const auto group = read_group(mount / below, controller);
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

std::string words(std::size_t bytes) {
  constexpr double kGibibyte = 1024.0 * 1024.0 * 1024.0;
  return absl::StrFormat("%d bytes (%.2f GiB)", bytes,
                         static_cast<double>(bytes) / kGibibyte);
}

}  // namespace

std::optional<std::size_t> HostLimits::room_bytes() const {
  if (!cgroup) return available_bytes;
  return std::min(cgroup->room_bytes(), available_bytes.value_or(cgroup->room_bytes()));
}

void HostLimits::check_room(std::size_t bytes) const {
  EBB_CHECK(
      !cgroup || bytes <= cgroup->room_bytes(), kResourceExhausted, "no room for ",
      words(bytes), " of host memory: ", cgroup->file, " allows ",
      words(cgroup->limit_bytes), ", of which ", words(cgroup->used_bytes),
      " are in use; raise the memory limit of the container, or lower the host budget");
  EBB_CHECK(!available_bytes || bytes <= *available_bytes, kResourceExhausted,
            "no room for ", words(bytes), " of host memory: of this machine's RAM ",
            words(*available_bytes),
            " are available; end what else uses it, or lower the host budget");
}

HostLimits read_host_limits(const std::filesystem::path& root) {
  HostLimits limits;
  const std::string memory = text_of(root / "proc/meminfo");
  limits.total_bytes = kibibytes_after("MemTotal:", memory);
  limits.available_bytes = kibibytes_after("MemAvailable:", memory);
  limits.memlock_bytes =
      number_after("Max locked memory", text_of(root / "proc/self/limits"));
  limits.cgroup = read_cgroup(root);
  return limits;
}

}  // namespace ebb
