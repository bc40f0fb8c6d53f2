#include "offload/engine/fetcher.h"

#include <utility>

namespace ebb::offload {

using tensor::Storage;
using tensor::StorageRef;

Fetcher::Fetcher(device::Device& device)
    : device_(device), gate_(device, "offload.gate"), opened_(device) {}

bool Fetcher::prefetch(Block& block, const Event& point) {
  // Prefetches come one behind the other: what an earlier one has waited for need not be
  // waited for again. If the memory adds nothing to that, only the point is left.
  const bool nothing_since = gate_->record() == bulk_opened_;
  wait_for(point);
  const Event before = gate_->record();
  StorageRef memory = Storage::try_allocate(device_, padding(block) + block.bytes(),
                                            Purpose::kActivations, *gate_);
  if (memory == nullptr) return false;
  const bool only_point = nothing_since && gate_->record() == before;
  const Fence after = only_point ? Fence(point) : opened();
  const Event opened_at = gate_->record();
  copy(block, std::move(memory), after, transfer::Priority::kBulk);
  bulk_opened_ = opened_at;  // Not if it threw: then nothing waits for what the gate did.
  return true;
}

void Fetcher::fetch_now(Block& block, const Event& point) {
  wait_for(point);
  StorageRef memory = Storage::allocate(device_, padding(block) + block.bytes(),
                                        Purpose::kActivations, *gate_);
  copy(block, std::move(memory), opened(), transfer::Priority::kUrgent);
}

void Fetcher::wait_for(const Event& point) {
  // What compute has given back by then is free in the gate's own order, and nothing is
  // taken earlier than it is needed.
  gate_->wait(point, {device::StallCause::kHost, "engine.fetch"});
}

Fence Fetcher::opened() {
  const std::uint64_t value = opened_.take();
  gate_->signal(*opened_, value);
  return Fence((*opened_).at(value));
}

void Fetcher::copy(Block& block, StorageRef memory, const Fence& after,
                   transfer::Priority priority) {
  device_.memory().mark_sent(memory->address());
  block.device_begin = padding(block);
  const std::uintptr_t begin = memory->address() + block.device_begin;
  for (const Piece& piece : block.pieces) {
    block.fetched =
        piece.stored->fetch(begin + (piece.span.begin - block.span.begin), after, priority);
    memory->written_until(block.fetched);
  }
  block.device_version = memory->version()->value;
  block.device = std::move(memory);
}

}  // namespace ebb::offload
