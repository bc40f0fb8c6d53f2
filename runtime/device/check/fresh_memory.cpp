#include "runtime/device/check/fresh_memory.h"

#include <algorithm>
#include <utility>

namespace ebb::device {
namespace {

void overwrite_byte(std::uintptr_t at) {
  *reinterpret_cast<std::uint8_t*>(at) = static_cast<std::uint8_t>(
      FreshMemory::kPoison >> at % sizeof FreshMemory::kPoison * 8);
}

}  // namespace

void FreshMemory::add(std::uintptr_t begin, std::uintptr_t end) {
  const absl::MutexLock lock(&mutex_);
  ranges_.set(begin, end, {});
}

void FreshMemory::drop(std::uintptr_t begin, std::uintptr_t end) {
  const absl::MutexLock lock(&mutex_);
  if (!ranges_.empty()) ranges_.take(begin, end, [](auto, auto, Nothing) {});
}

Body FreshMemory::overwrite_before(std::span<const Access> accesses, Body body) {
  std::vector<Range> parts = take(accesses);
  if (parts.empty()) return body;
  return [parts = std::move(parts), body = std::move(body)](void* native) mutable {
    for (const Range& part : parts) overwrite(part);
    if (body) body(native);
  };
}

std::vector<FreshMemory::Range> FreshMemory::take(std::span<const Access> accesses) {
  const absl::MutexLock lock(&mutex_);
  std::vector<Range> parts;
  if (ranges_.empty()) return parts;
  for (const Access& access : accesses) {
    ranges_.take(access.address, access.address + access.bytes,
                 [&](std::uintptr_t from, std::uintptr_t to, Nothing) {
                   parts.push_back({from, to});
                 });
  }
  return parts;
}

// Parts may begin and end within a word.
void FreshMemory::overwrite(const Range& part) {
  constexpr std::uintptr_t kWord = sizeof kPoison;
  const std::uintptr_t first = std::min(part.end, (part.begin + kWord - 1) / kWord * kWord);
  const std::uintptr_t last = std::max(first, part.end / kWord * kWord);
  for (std::uintptr_t at = part.begin; at < first; ++at) overwrite_byte(at);
  std::fill_n(reinterpret_cast<std::uint32_t*>(first), (last - first) / kWord, kPoison);
  for (std::uintptr_t at = last; at < part.end; ++at) overwrite_byte(at);
}

}  // namespace ebb::device
