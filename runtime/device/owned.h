// Streams and timelines that go with their owner.

#pragma once

#include <cstdint>

#include "runtime/device/device.h"

namespace ebb::device {

// A stream of its own; its end waits for the stream's work. `device` outlives it.
class OwnedStream {
 public:
  OwnedStream(Device& device, const char* name)
      : device_(device), stream_(device.create_stream(name)) {}
  ~OwnedStream() { device_.destroy_stream(stream_); }

  OwnedStream(const OwnedStream&) = delete;
  OwnedStream& operator=(const OwnedStream&) = delete;

  Stream& operator*() const noexcept { return stream_; }
  Stream* operator->() const noexcept { return &stream_; }

 private:
  Device& device_;
  Stream& stream_;
};

// A timeline for a time, and its next value that nobody signals yet. `device` outlives it.
class OwnedTimeline {
 public:
  explicit OwnedTimeline(Device& device)
      : device_(device), timeline_(device.acquire_timeline(next_)) {}
  ~OwnedTimeline() { device_.release_timeline(timeline_); }

  OwnedTimeline(const OwnedTimeline&) = delete;
  OwnedTimeline& operator=(const OwnedTimeline&) = delete;

  Timeline& operator*() const noexcept { return timeline_; }
  std::uint64_t take() noexcept { return next_++; }
  // The last value that was taken, or reached before.
  Event last() const { return timeline_.at(next_ - 1); }

 private:
  Device& device_;
  std::uint64_t next_ = 0;
  Timeline& timeline_;
};

}  // namespace ebb::device
