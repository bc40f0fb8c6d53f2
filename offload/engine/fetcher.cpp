#include "offload/engine/fetcher.h"

#include <utility>

namespace ebb::offload {

using tensor::Storage;
using tensor::StorageRef;

Fetcher::Fetcher(device::Device& device)
    : device_(device),
      gate_(device.create_stream("offload.gate")),
      opened_(device.acquire_timeline(next_value_)) {}

Fetcher::~Fetcher() {
  device_.destroy_stream(gate_);
  device_.release_timeline(opened_);
}

bool Fetcher::prefetch(Block& block, const Event& point) {
  wait_for(point);
  StorageRef memory = Storage::try_allocate(device_, padding(block) + block.bytes(),
                                            Purpose::kActivations, gate_);
  if (memory == nullptr) return false;
  copy(block, std::move(memory), transfer::Priority::kBulk);
  return true;
}

void Fetcher::fetch_now(Block& block, const Event& point) {
  wait_for(point);
  copy(block,
       Storage::allocate(device_, padding(block) + block.bytes(), Purpose::kActivations,
                         gate_),
       transfer::Priority::kUrgent);
}

void Fetcher::wait_for(const Event& point) {
  // What compute has given back by then is free in the gate's own order, and nothing is
  // taken earlier than it is needed.
  gate_.wait(point, {device::StallCause::kHost, "engine.fetch"});
}

void Fetcher::copy(Block& block, StorageRef memory, transfer::Priority priority) {
  device_.memory().mark_sent(memory->address());
  const std::uint64_t value = next_value_++;
  gate_.signal(opened_, value);
  block.device_begin = padding(block);
  block.fetched = block.stored->fetch(memory->address() + block.device_begin,
                                      Fence(opened_.at(value)), priority);
  memory->written_until(block.fetched);
  block.device = std::move(memory);
}

}  // namespace ebb::offload
