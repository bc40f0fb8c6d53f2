// One direction of the link between device memory and host memory.
//
// Bulk transfers move in the order of their submission, chunk by chunk. One chunk is
// outstanding; its completion callback submits the next, so that an urgent transfer, which
// has a stream of its own, waits for one chunk at most. A transfer's end is a value of a
// timeline: streams can wait for it before its copies have been submitted.
//
// A copy that fails, or cannot be submitted, fails the queue's stream as any op does; all
// transfers end nevertheless, so that nobody waits for ever and memory on both sides comes
// back.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

#include "allocator/event.h"
#include "runtime/device/device.h"
#include "runtime/device/owned.h"

namespace ebb::transfer {

enum class Priority : std::uint8_t { kBulk, kUrgent };

struct Dependency {
  Fence fence;
  device::WaitTag tag;  // Says whose wait it is.
};

struct Transfer {
  const char* name = "";  // Static text: the name of its copies in records.
  std::uintptr_t device = 0;
  std::byte* host = nullptr;
  std::size_t bytes = 0;
  std::array<Dependency, 2> after;  // What its first copy waits for.
};

// How many bytes a bulk copy moves at most: 4 MiB, or what makes the start of a copy cost
// 1 % of it if that is more. A multiple of 4 KiB that depends on the device alone, never on
// a budget.
std::size_t chunk_bytes(const device::LinkRate& link, double host_submit_seconds) noexcept;

// What a link moves in the time that it takes to start a copy: rate x t0; 0 where links
// have no model.
std::size_t latency_bytes(const device::LinkRate& link) noexcept;

// Thread-safe as the device is: one thread submits at a time, callbacks may come from
// another. `device` outlives the queue; the queue outlives the events that it returns.
class TransferQueue {
 public:
  using Direction = device::CopyInfo::Direction;

  TransferQueue(device::Device& device, Direction direction);
  ~TransferQueue();  // Waits for every transfer.

  TransferQueue(const TransferQueue&) = delete;
  TransferQueue& operator=(const TransferQueue&) = delete;

  // Queues a transfer; the event is its end. The memory on both sides stays where it is
  // until then. Throws what the device does: then nothing of it is queued or under way, for
  // which the host may have waited.
  Event submit(const Transfer& transfer, Priority priority = Priority::kBulk)
      ABSL_LOCKS_EXCLUDED(mutex_);

  // Nobody needs the bulk transfer that ends with `end` any more: what of it has not begun
  // is left out. Its end comes in its place all the same, though what it was to wait for
  // may not have ended; its device memory counts no longer than what was begun of it.
  void cancel(const Event& end) noexcept;

  std::size_t chunk_bytes() const noexcept { return chunk_bytes_; }
  std::size_t latency_bytes() const noexcept { return transfer::latency_bytes(link()); }

 private:
  // A stream with the timeline of what ends on it.
  struct Lane {
    Lane(device::Device& device, const char* name) : stream(device, name), ends(device) {}

    device::OwnedStream stream;
    device::OwnedTimeline ends;
  };
  struct Pending {
    Transfer transfer;
    std::uint64_t value = 0;
    device::Hold hold = 0;
    std::size_t moved = 0;  // Bytes submitted so far.
    bool over = false;      // Nothing more of it is submitted, and its end is not yet.
    bool cancelled = false;
  };

  const device::LinkRate& link() const noexcept;
  Event submit_urgent(const Transfer& transfer);
  // Whether nothing was outstanding: then it is for the caller to pump.
  bool queue(const Transfer& transfer, std::uint64_t& value) ABSL_LOCKS_EXCLUDED(mutex_);
  void begin(Lane& lane, const Transfer& transfer);
  void copy(Lane& lane, const Transfer& transfer, std::size_t offset, std::size_t bytes,
            device::Hold hold);
  // Submits the next bulk chunk, if there is one, and a callback that goes on behind it.
  void pump() ABSL_LOCKS_EXCLUDED(mutex_);
  Pending* next() ABSL_LOCKS_EXCLUDED(mutex_);
  void submit_chunk(Pending& front);
  void end(Pending& front) ABSL_LOCKS_EXCLUDED(mutex_);
  bool go_on_later() noexcept;

  device::Device& device_;
  const Direction direction_;
  const std::size_t chunk_bytes_;

  // Before the lanes, which they outlive: behind the last signal comes one more callback,
  // which finds nothing to do, and only the end of the bulk stream waits for that.
  absl::Mutex mutex_;
  std::deque<Pending> pending_ ABSL_GUARDED_BY(mutex_);  // The front one may be under way.
  bool chunk_outstanding_ ABSL_GUARDED_BY(mutex_) = false;

  Lane bulk_;
  Lane urgent_;
};

// Both directions of a device's link.
struct Link {
  explicit Link(device::Device& device)
      : d2h(device, TransferQueue::Direction::kDeviceToHost),
        h2d(device, TransferQueue::Direction::kHostToDevice) {}

  TransferQueue d2h;
  TransferQueue h2d;
};

}  // namespace ebb::transfer
