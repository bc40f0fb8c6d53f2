#include "runtime/device/device.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

#include "allocator/error.h"

namespace ebb::device {

bool DeviceMemory::reclaim(std::size_t bytes) {
  return std::any_of(reclaimers_.rbegin(), reclaimers_.rend(),
                     [&](Reclaimer* reclaimer) { return reclaimer->reclaim(bytes); });
}

std::uintptr_t DeviceMemory::allocate(std::size_t bytes, Purpose purpose, Stream& stream) {
  auto address = try_allocate(bytes, purpose, stream);
  while (!address && reclaim(bytes)) address = try_allocate(bytes, purpose, stream);
  if (address) return *address;
  const MemoryFigures now = figures();
  std::string used;
  for (std::size_t i = 0; i < kPurposes; ++i) {
    const auto which = static_cast<Purpose>(i);
    if (now.lent[which] == 0) continue;
    absl::StrAppend(&used, used.empty() ? "" : ", ", name(which), " ", now.lent[which]);
  }
  std::string held;
  for (const Reclaimer* reclaimer : reclaimers_) held += reclaimer->holds();
  throw Error(absl::StatusCode::kResourceExhausted,
              absl::StrCat(
                  "no device memory for ", bytes, " bytes (", name(purpose), "): of ",
                  now.limit_bytes ? absl::StrCat(*now.limit_bytes) : "what the machine has",
                  ", in use are ", now.lent.total(), used.empty() ? "" : " (", used,
                  used.empty() ? "" : ")", held.empty() ? "" : "; ", held,
                  "; a larger device budget, a smaller batch, or more checkpointing and "
                  "offloading would help"),
              Error::Resource::kDeviceMemory);
}

}  // namespace ebb::device
