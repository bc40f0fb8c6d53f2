#include "runtime/transfer/transfer_queue.h"

#include <algorithm>
#include <cmath>
#include <exception>
#include <utility>

#include "allocator/host_memory.h"

namespace ebb::transfer {
namespace {

constexpr std::size_t kMinChunkBytes = std::size_t{4} << 20;
constexpr double kStartsPerChunk = 100;  // The start of a copy is to cost 1 % of it.

}  // namespace

std::size_t chunk_bytes(const device::LinkRate& link, double host_submit_seconds) noexcept {
  const double bytes = link.bytes_per_second *
                       (link.latency_seconds + host_submit_seconds) * kStartsPerChunk;
  // Links without a model have an infinite rate, and nothing to gain from larger chunks.
  if (!std::isfinite(bytes)) return kMinChunkBytes;
  const auto pages = static_cast<std::size_t>(bytes / static_cast<double>(kPageBytes));
  return std::max(kMinChunkBytes, pages * kPageBytes);
}

std::size_t latency_bytes(const device::LinkRate& link) noexcept {
  const double bytes = link.bytes_per_second * link.latency_seconds;
  return std::isfinite(bytes) ? static_cast<std::size_t>(bytes) : 0;
}

TransferQueue::TransferQueue(device::Device& device, Direction direction)
    : device_(device),
      direction_(direction),
      chunk_bytes_(transfer::chunk_bytes(link(), device.capability().host_submit_seconds)),
      bulk_(device, direction == Direction::kDeviceToHost ? "d2h" : "h2d"),
      urgent_(device, direction == Direction::kDeviceToHost ? "d2h.urgent" : "h2d.urgent") {
}

const device::LinkRate& TransferQueue::link() const noexcept {
  const device::Capability& can = device_.capability();
  return direction_ == Direction::kDeviceToHost ? can.d2h : can.h2d;
}

TransferQueue::~TransferQueue() {
  bulk_.ends.last().wait();  // Until then callbacks still submit.
}

Event TransferQueue::submit(const Transfer& transfer, Priority priority) {
  if (priority == Priority::kUrgent) return submit_urgent(transfer);
  std::uint64_t value = 0;
  if (queue(transfer, value)) {
    try {
      pump();
    } catch (...) {
      // Earlier chunks may be under way, and the memory on both sides is given back now.
      bulk_.stream->record().wait();
      throw;
    }
  }
  return (*bulk_.ends).at(value);
}

Event TransferQueue::submit_urgent(const Transfer& transfer) {
  std::uint64_t value = 0;
  try {
    begin(urgent_, transfer);
    copy(urgent_, transfer, 0, transfer.bytes, 0);
    value = urgent_.ends.take();
    urgent_.stream->signal(*urgent_.ends, value);
  } catch (...) {
    urgent_.stream->record().wait();  // As above: the copy may be under way.
    throw;
  }
  return (*urgent_.ends).at(value);
}

bool TransferQueue::queue(const Transfer& transfer, std::uint64_t& value) {
  const device::Hold hold = device_.memory().hold(transfer.device);
  try {
    absl::MutexLock lock(&mutex_);
    pending_.push_back({transfer, 0, hold});
    // Only now: a value that nobody signals would be waited for.
    value = pending_.back().value = bulk_.ends.take();
    return !std::exchange(chunk_outstanding_, true);
  } catch (...) {
    device_.memory().release(hold);
    throw;
  }
}

void TransferQueue::begin(Lane& lane, const Transfer& transfer) {
  for (const Dependency& dependency : transfer.after) {
    lane.stream->wait(dependency.fence, dependency.tag);
  }
}

void TransferQueue::copy(Lane& lane, const Transfer& transfer, std::size_t offset,
                         std::size_t bytes, device::Hold hold) {
  if (bytes == 0) return;
  lane.stream->copy({.name = transfer.name,
                     .direction = direction_,
                     .device = transfer.device + offset,
                     .host = transfer.host + offset,
                     .bytes = bytes,
                     .hold = hold});
}

void TransferQueue::cancel(const Event& end) noexcept {
  if (end.source() != &*bulk_.ends) return;
  device::Hold hold = 0;
  {
    absl::MutexLock lock(&mutex_);
    if (pending_.empty() || end.ticket() < pending_.front().value) return;  // It is over.
    const std::size_t place = end.ticket() - pending_.front().value;
    Pending& pending = pending_[place];
    pending.cancelled = true;
    if (place > 0) hold = std::exchange(pending.hold, 0);  // The front one is under way.
  }
  device_.memory().release(hold);
}

TransferQueue::Pending* TransferQueue::next() {
  absl::MutexLock lock(&mutex_);
  if (pending_.empty()) {
    chunk_outstanding_ = false;
    return nullptr;
  }
  Pending& front = pending_.front();  // Only the holder of chunk_outstanding_ removes it.
  front.over = front.over || front.cancelled;
  return &front;
}

void TransferQueue::submit_chunk(Pending& front) {
  const Transfer& transfer = front.transfer;
  if (front.moved == 0) begin(bulk_, transfer);
  const std::size_t bytes = std::min(chunk_bytes_, transfer.bytes - front.moved);
  copy(bulk_, transfer, front.moved, bytes, front.hold);
  front.moved += bytes;
}

void TransferQueue::end(Pending& front) {
  device_.memory().release(front.hold);
  bulk_.stream->signal(*bulk_.ends, front.value);
  absl::MutexLock lock(&mutex_);
  pending_.pop_front();
}

bool TransferQueue::go_on_later() noexcept {
  try {
    bulk_.stream->call_back([this](const absl::Status&) { pump(); });
    return true;
  } catch (...) {
    return false;
  }
}

void TransferQueue::pump() {
  std::exception_ptr failure;
  // Without a callback it goes on at once: in the same order, but nothing urgent gets in
  // between.
  for (bool later = false; !later;) {
    Pending* front = next();
    if (front == nullptr) break;
    try {
      if (!front->over) submit_chunk(*front);
      front->over = front->over || front->moved == front->transfer.bytes;
      if (front->over) end(*front);
    } catch (...) {
      // In a callback this fails the stream, when that returns: only then, in the next one,
      // the transfer ends. So whoever waits for it, or behind it, goes on and is told.
      failure = std::current_exception();
      front->over = true;
    }
    later = go_on_later();
  }
  if (failure) std::rethrow_exception(failure);
}

}  // namespace ebb::transfer
