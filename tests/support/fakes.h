// Test doubles for the seams of the allocator.

#pragma once

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <utility>

#include <gtest/gtest.h>

#include "absl/container/flat_hash_map.h"
#include "absl/synchronization/mutex.h"

#include "allocator/device_arena.h"
#include "allocator/error.h"
#include "allocator/event.h"
#include "allocator/host_memory.h"

namespace ebb::test {

// Fails the test if memory is leaked, or unpinned other than it was pinned. Fails the pin()
// that it is told to. Thread-safe.
class FakeHostMemory final : public HostMemory {
 public:
  explicit FakeHostMemory(std::size_t capacity = std::numeric_limits<std::size_t>::max())
      : capacity_(capacity) {}
  ~FakeHostMemory() override { EXPECT_EQ(live_bytes(), 0U) << "leaked"; }

  FakeHostMemory(const FakeHostMemory&) = delete;
  FakeHostMemory& operator=(const FakeHostMemory&) = delete;

  // The call of pin() after `calls` more throws Error{kInternal}.
  void fail_after(int calls) {
    absl::MutexLock lock(&mutex_);
    calls_left_ = calls;
  }

  std::byte* pin(std::size_t bytes) override {
    absl::MutexLock lock(&mutex_);
    EBB_CHECK(bytes > 0, kInvalidArgument, "cannot pin 0 bytes");
    EBB_CHECK(calls_left_-- != 0, kInternal, "the fake was told to fail");
    EBB_CHECK(bytes <= capacity_ - live_bytes_, kResourceExhausted, "the fake is full");
    const std::size_t pages = (bytes + kPageBytes - 1) / kPageBytes;
    auto* data =
        static_cast<std::byte*>(std::aligned_alloc(kPageBytes, pages * kPageBytes));
    EBB_CHECK(data != nullptr, kResourceExhausted, "the heap is full");
    live_.emplace(data, bytes);
    live_bytes_ += bytes;
    return data;
  }

  void unpin(std::byte* data, std::size_t bytes) noexcept override {
    absl::MutexLock lock(&mutex_);
    const auto it = live_.find(data);
    if (it == live_.end() || it->second != bytes) {
      ADD_FAILURE() << "not pinned here, or of another size";
      return;
    }
    live_.erase(it);
    live_bytes_ -= bytes;
    std::free(data);
  }

  std::size_t live_bytes() const {
    absl::MutexLock lock(&mutex_);
    return live_bytes_;
  }

 private:
  static constexpr std::size_t kPageBytes = 4096;

  const std::size_t capacity_;

  mutable absl::Mutex mutex_;
  int calls_left_ ABSL_GUARDED_BY(mutex_) = -1;
  absl::flat_hash_map<std::byte*, std::size_t> live_ ABSL_GUARDED_BY(mutex_);
  std::size_t live_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
};

// Reaches the tickets that the test says. Thread-safe.
class ManualSource final : public EventSource {
 public:
  Event at(std::uint64_t ticket) const { return {*this, ticket}; }

  // The end of work that nobody else names.
  Event next() { return at(++given_); }

  void reach(std::uint64_t ticket) noexcept {
    reached_.store(ticket, std::memory_order_release);
    reached_.notify_all();
  }

  bool reached(std::uint64_t ticket) const noexcept override {
    return reached_.load(std::memory_order_acquire) >= ticket;
  }
  void await(std::uint64_t ticket) const noexcept override {
    for (std::uint64_t now = reached_.load(std::memory_order_acquire); now < ticket;
         now = reached_.load(std::memory_order_acquire)) {
      reached_.wait(now, std::memory_order_acquire);
    }
  }

 private:
  std::atomic<std::uint64_t> reached_{0};
  std::atomic<std::uint64_t> given_{0};
};

// Streams are after the tickets that the test says. Not thread-safe.
class ManualOrder final : public StreamOrder {
 public:
  // What is submitted to `stream` from now on runs after `event`.
  void wait(StreamId stream, const Event& event) {
    std::uint64_t& after = after_[{stream, event.source()}];
    if (after < event.ticket()) after = event.ticket();
  }
  void wait(StreamId stream, const Fence& fence) {
    fence.for_each([&](const Event& event) { wait(stream, event); });
  }

  bool ordered_after(StreamId stream, const Event& event) const noexcept override {
    const auto it = after_.find({stream, event.source()});
    return event.source() == nullptr ||
           (it != after_.end() && event.ticket() <= it->second);
  }

 private:
  absl::flat_hash_map<std::pair<StreamId, const EventSource*>, std::uint64_t> after_;
};

}  // namespace ebb::test
