#include "runtime/transfer/transfer_queue.h"

#include <algorithm>
#include <cmath>
#include <exception>

namespace ebb::transfer {
namespace {

constexpr std::size_t kMinChunkBytes = std::size_t{4} << 20;
constexpr std::size_t kPageBytes = 4096;
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

TransferQueue::TransferQueue(device::Device& device, Direction direction)
    : device_(device),
      direction_(direction),
      chunk_bytes_(transfer::chunk_bytes(direction == Direction::kDeviceToHost
                                             ? device.capability().d2h
                                             : device.capability().h2d,
                                         device.capability().host_submit_seconds)) {
  const bool out = direction == Direction::kDeviceToHost;
  bulk_ = make_lane(out ? "d2h" : "h2d");
  urgent_ = make_lane(out ? "d2h.urgent" : "h2d.urgent");
}

TransferQueue::~TransferQueue() {
  bulk_.timeline->await(bulk_.next_value - 1);  // Until then callbacks still submit.
  close(bulk_);
  close(urgent_);
}

TransferQueue::Lane TransferQueue::make_lane(const char* name) {
  Lane lane;
  lane.stream = &device_.create_stream(name);
  lane.timeline = &device_.acquire_timeline(lane.next_value);
  return lane;
}

void TransferQueue::close(Lane& lane) noexcept {
  device_.destroy_stream(*lane.stream);
  device_.release_timeline(*lane.timeline);
}

Event TransferQueue::submit(const Transfer& transfer, Priority priority) {
  if (priority == Priority::kUrgent) {
    const std::uint64_t value = urgent_.next_value++;
    begin(urgent_, transfer);
    copy(urgent_, transfer, 0, transfer.bytes, 0);
    urgent_.stream->signal(*urgent_.timeline, value);
    return urgent_.timeline->at(value);
  }
  const std::uint64_t value = bulk_.next_value++;
  const device::Hold hold = device_.memory().hold(transfer.device);
  bool idle = false;
  {
    absl::MutexLock lock(&mutex_);
    pending_.push_back({transfer, 0, value, hold});
    idle = !chunk_outstanding_;
    chunk_outstanding_ = true;
  }
  if (idle) pump();
  return bulk_.timeline->at(value);
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

void TransferQueue::pump() {
  Pending* front = nullptr;
  {
    absl::MutexLock lock(&mutex_);
    if (pending_.empty()) {
      chunk_outstanding_ = false;
      return;
    }
    front = &pending_.front();  // Only the holder of chunk_outstanding_ removes it.
  }
  const Transfer& transfer = front->transfer;
  std::exception_ptr failure;
  try {
    if (front->moved == 0) begin(bulk_, transfer);
    const std::size_t bytes = std::min(chunk_bytes_, transfer.bytes - front->moved);
    copy(bulk_, transfer, front->moved, bytes, front->hold);
    front->moved += bytes;
  } catch (...) {
    // The transfer ends here, so that whoever waits for it, or behind it, goes on.
    failure = std::current_exception();
    front->moved = transfer.bytes;
  }
  if (front->moved == transfer.bytes) {
    device_.memory().release(front->hold);
    bulk_.stream->signal(*bulk_.timeline, front->value);
    absl::MutexLock lock(&mutex_);
    pending_.pop_front();
  }
  bulk_.stream->call_back([this](const absl::Status&) { pump(); });
  if (failure) std::rethrow_exception(failure);
}

}  // namespace ebb::transfer
