#include "bench/soak/soak_memory.h"

#include <algorithm>
#include <array>
#include <fstream>

#include "absl/strings/str_cat.h"

namespace ebb::bench {
namespace {

constexpr std::int64_t kWindows = 10;

constexpr std::array kFields = {
    &SoakMemory::device_bytes,   &SoakMemory::device_reserved_bytes,
    &SoakMemory::host_bytes,     &SoakMemory::host_pinned_bytes,
    &SoakMemory::engine_blocks,  &SoakMemory::engine_backwards,
    &SoakMemory::engine_learned, &SoakMemory::resident_bytes,
};

// Of those windows of one half of the run that have samples.
std::size_t most_of(const std::vector<SoakWindow>& windows, bool second_half,
                    std::size_t SoakMemory::*field) {
  std::size_t most = 0;
  for (std::size_t i = 0; i < windows.size(); ++i) {
    const bool second = 2 * i >= windows.size();
    if (second == second_half) most = std::max(most, windows[i].most.*field);
  }
  return most;
}

}  // namespace

std::size_t resident_bytes() {
  std::ifstream file("/proc/self/status");
  std::string word;
  while (file >> word) {
    std::size_t kibibytes = 0;
    if (word == "VmRSS:" && file >> kibibytes) return kibibytes * 1024;
  }
  return 0;
}

MemoryWatch::MemoryWatch(std::int64_t steps, const SoakMemory& before)
    : steps_(steps), before_(before) {
  const std::int64_t windows = std::min(kWindows, steps);
  for (std::int64_t i = 0; i < windows; ++i) {
    windows_.push_back({.first_step = 1 + i * steps / windows, .least = {}, .most = {}});
  }
}

std::string MemoryWatch::add(std::int64_t step, const SoakMemory& now) {
  const auto after = std::find_if(windows_.begin() + 1, windows_.end(),
                                  [&](const SoakWindow& w) { return w.first_step > step; });
  SoakWindow& window = *std::prev(after);
  for (const auto field : kFields) {
    std::size_t& least = window.least.*field;
    std::size_t& most = window.most.*field;
    least = window.samples == 0 ? now.*field : std::min(least, now.*field);
    most = std::max(most, now.*field);
  }
  ++window.samples;
  if (2 * step > steps_) {
    resident_.push_back(
        {static_cast<double>(step), static_cast<double>(now.resident_bytes)});
  }

  std::string wrong;
  const auto expect = [&](const char* what, std::size_t value, std::size_t expected) {
    if (value == expected) return;
    absl::StrAppend(&wrong, wrong.empty() ? "" : ", ", what, " ", value, " and not ",
                    expected);
  };
  expect("device bytes:", now.device_bytes, before_.device_bytes);
  expect("host bytes:", now.host_bytes, before_.host_bytes);
  expect("blocks of the engine:", now.engine_blocks, before_.engine_blocks);
  expect("backwards of the engine:", now.engine_backwards, before_.engine_backwards);
  return wrong;
}

std::string MemoryWatch::growth(std::size_t most_resident_growth_bytes) const {
  std::string wrong;
  const auto check = [&](const char* what, std::size_t SoakMemory::*field) {
    const std::size_t first = most_of(windows_, false, field);
    const std::size_t second = most_of(windows_, true, field);
    if (first == 0 || second <= first + first / 2) return;
    absl::StrAppend(&wrong, wrong.empty() ? "" : ", ", what, " ", first,
                    " in the first half, ", second, " in the second");
  };
  check("addresses of the device:", &SoakMemory::device_reserved_bytes);
  check("pinned bytes:", &SoakMemory::host_pinned_bytes);
  const double resident =
      resident_growth_bytes_per_step() * static_cast<double>(steps_) / 2;
  if (resident > static_cast<double>(most_resident_growth_bytes)) {
    absl::StrAppend(&wrong, wrong.empty() ? "" : ", ",
                    "resident bytes: ", static_cast<std::int64_t>(resident),
                    " more over the second half");
  }
  return wrong;
}

double MemoryWatch::resident_growth_bytes_per_step() const {
  const auto count = static_cast<double>(resident_.size());
  double step = 0;
  double bytes = 0;
  for (const Resident& sample : resident_) {
    step += sample.step / count;
    bytes += sample.bytes / count;
  }
  double product = 0;
  double square = 0;
  for (const Resident& sample : resident_) {
    product += (sample.step - step) * (sample.bytes - bytes);
    square += (sample.step - step) * (sample.step - step);
  }
  return square > 0 ? product / square : 0;
}

}  // namespace ebb::bench
