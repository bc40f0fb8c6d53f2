// Engine: what happens when the store is full (see EngineOptions).

#include <utility>

#include "allocator/error.h"
#include "offload/engine/engine_impl.h"
#include "offload/engine/packed.h"

namespace ebb::offload {

using autograd::PackResult;
using autograd::SaveSite;

bool Engine::Impl::host_waits(const Fence& fence, const char* site) noexcept {
  device_.set_host_wait({device::StallCause::kHostFull, site});
  fence.wait();
  device_.set_host_wait({});
  // A simulated device's callback cannot wait: it comes back at once, and has failed.
  return fence.done();
}

std::unique_ptr<StoredBlock> Engine::Impl::put(std::uintptr_t device, std::size_t bytes,
                                               const Fence& after) {
  for (Fence ahead = store_.fence_before_put();
       !ahead.empty() && host_waits(ahead, "engine.ahead");) {
    ahead = store_.fence_before_put();
  }
  bool was_room = false;
  while (true) {
    if (auto stored = store_.put(device, bytes, after)) return stored;
    const std::optional<Fence> room = store_.next_room(bytes);
    // What ended just now may have made room; but the store has the last word.
    if (!room || (room->empty() && std::exchange(was_room, true))) return nullptr;
    if (room->empty()) continue;
    ++figures_.room_waits;
    if (!host_waits(*room, "engine.room")) return nullptr;
  }
}

std::optional<PackResult> Engine::Impl::do_without(const Tensor& tensor, std::size_t bytes,
                                                   const SaveSite& site) {
  if (held_room_.has(bytes, site.can_recompute)) {
    auto held = std::make_unique<HeldPacked>(shared_from_this(), tensor, bytes, site);
    missing_bytes_ += bytes;
    figures_.no_room_bytes += bytes;
    keep(bytes, Kept::kNoRoom);
    return held;
  }
  if (site.can_recompute) {
    missing_bytes_ += bytes;
    figures_.no_room_recomputed_bytes += bytes;
    figures_.recomputed_bytes += bytes;
    return PackResult::remade();
  }
  return std::nullopt;
}

void Engine::Impl::throw_no_room(std::size_t bytes, const SaveSite& site) const {
  throw Error(absl::StatusCode::kResourceExhausted,
              absl::StrCat("no host memory for ", bytes,
                           " bytes that are saved for the backward of ", site.op, ": ",
                           store_.fullness(), "; and the device, with a budget of ",
                           held_room_.budget().value_or(0),
                           " bytes, has none to keep them in, beside ", held_room_.bytes(),
                           " that it keeps for that reason; a larger host budget would do"),
              Error::Resource::kHostMemory);
}

std::string Engine::Impl::holds() const {
  const std::size_t held = held_room_.bytes();
  if (held == 0) return {};
  return absl::StrCat("of these, ", held,
                      " are saved tensors that host memory had no room for (",
                      store_.fullness(), "), so a larger host budget would do as well");
}

}  // namespace ebb::offload
