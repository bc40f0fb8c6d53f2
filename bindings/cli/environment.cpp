#include "bindings/cli/environment.h"

#include <sched.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <thread>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"

#include "allocator/error.h"

namespace ebb::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kText = "kjv_genesis_to_esther.txt";

std::string cpu_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (!absl::StartsWith(line, "model name")) continue;
    const std::size_t colon = line.find(':');
    if (colon == std::string::npos) break;
    return std::string(absl::StripAsciiWhitespace(line.substr(colon + 1)));
  }
  return "unknown";
}

}  // namespace

int allowed_cores() {
  cpu_set_t cores;
  if (sched_getaffinity(0, sizeof cores, &cores) == 0) return CPU_COUNT(&cores);
  return static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
}

// EBB_VERSION, EBB_COMMIT, EBB_SHARED_FOLDER (where the package puts its data, seen from
// the program) and EBB_SOURCE_DATA come from CMake.
Environment read_environment() {
  return {.version = EBB_VERSION,
          .commit = EBB_COMMIT,
          .cpu = cpu_name(),
          .cores = allowed_cores()};
}

std::string shipped_text() {
  std::error_code error;
  std::vector<fs::path> places;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  if (!error) places.push_back(program.parent_path() / EBB_SHARED_FOLDER / kText);
  places.push_back(fs::path(EBB_SOURCE_DATA) / kText);
  for (const fs::path& place : places) {
    if (fs::is_regular_file(place, error)) return place.lexically_normal().string();
  }
  throw Error(
      absl::StatusCode::kInvalidArgument,
      absl::StrCat("the text that ships, ", kText, ", is not where it was installed (",
                   places.front().lexically_normal().string(),
                   "): name a text with --data FILE"));
}

}  // namespace ebb::cli
