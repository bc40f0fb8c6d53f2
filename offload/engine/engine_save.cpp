// Engine: what happens on save.

#include <algorithm>
#include <utility>

#include "offload/engine/engine_impl.h"
#include "offload/engine/packed.h"

namespace ebb::offload {

using autograd::SaveSite;

bool Engine::Impl::eligible(const Tensor& tensor, const SaveSite& site,
                            std::size_t bytes) const {
  const bool meant =
      policy_ == Policy::kSaved ||
      (policy_ == Policy::kInputs && site.kind == SaveSite::Kind::kCheckpointInput);
  return meant && bytes >= min_offload_bytes_ && &tensor.device() == &device_ &&
         tensor.storage()->purpose() == Purpose::kActivations;
}

autograd::PackResult Engine::Impl::pack(const Tensor& tensor, const SaveSite& site) {
  const device::Access access = tensor.access(device::Access::Mode::kRead);
  if (!eligible(tensor, site, access.bytes)) {
    figures_.kept_bytes += access.bytes;
    return nullptr;
  }
  const tensor::StorageRef& storage = tensor.storage();
  const BlockKey key{storage->id(), storage->version()->value,
                     access.address - storage->address(), access.bytes};
  if (const auto there = blocks_.find(key); there != blocks_.end()) {
    auto packed = std::make_unique<Packed>(shared_from_this(), *there->second, tensor);
    figures_.shared_bytes += access.bytes;
    return packed;
  }
  auto block = std::make_unique<Block>();
  block->key = key;
  if (!send(*block, storage, site)) {
    figures_.kept_bytes += access.bytes;
    figures_.no_room_bytes += access.bytes;
    missing_bytes_ += access.bytes;
    return nullptr;
  }
  Block& sent = *block;
  blocks_.emplace(key, std::move(block));
  auto packed = std::make_unique<Packed>(shared_from_this(), sent, tensor);
  shrink_window();  // May throw: now the block has an owner, who then gives it up.
  return packed;
}

bool Engine::Impl::send(Block& block, const tensor::StorageRef& storage,
                        const SaveSite& site) {
  block.op = site.op;
  block.version = storage->version();
  Fence made = storage->last_write();
  // A job may write its own memory without telling us: then it does so on its stream.
  if (storage->adopted()) made.add(device_.current_stream().record());
  block.stored = put(storage->address() + block.key.begin, block.bytes(), made);
  if (block.stored == nullptr) return false;
  block.device = storage;
  block.device_begin = block.key.begin;
  storage->used_until(block.stored->stored());
  device_.memory().mark_sent(storage->address());

  block.sent_generation = sent_generation_;
  block.sent_index = sent_.size();
  sent_.push_back({block.bytes(), site.stage, false, {}, {}});
  made.for_each([&](const Event& event) { sent_.back().made = event; });

  ++figures_.blocks;
  figures_.offloaded_bytes += block.bytes();
  figures_.d2h_bytes += block.bytes();
  largest_bytes_ = std::max(largest_bytes_, block.bytes());
  window_.push(block);
  return true;
}

void Engine::Impl::shrink_window() {
  while (window_.oldest() != nullptr && window_.oldest()->stored->stored().done()) {
    let_oldest_go(/*ended=*/true);
  }
  const std::size_t limit = most_waiting_bytes(device_.capability().d2h);
  while (window_.bytes() > limit) let_oldest_go(/*ended=*/false);
}

std::unique_ptr<StoredBlock> Engine::Impl::put(std::uintptr_t device, std::size_t bytes,
                                               const Fence& after) {
  while (true) {
    if (auto stored = store_.put(device, bytes, after)) return stored;
    const Fence room = store_.next_room();
    if (room.empty()) return nullptr;
    device_.set_host_wait({device::StallCause::kHostFull, "engine.room"});
    room.wait();
    device_.set_host_wait({});
  }
}

}  // namespace ebb::offload
