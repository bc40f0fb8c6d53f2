// The streams and timelines of a checked device.

#pragma once

#include <cstdint>

#include "absl/base/thread_annotations.h"
#include "absl/container/node_hash_map.h"
#include "absl/synchronization/mutex.h"

#include "runtime/device/check/fresh_memory.h"
#include "runtime/device/check/order_checker.h"
#include "runtime/device/stream.h"

namespace ebb::device {

// What all sources of one device know together. Events that leave this device name our
// sources; the device below is given its own. Thread-safe.
class CheckNames {
 public:
  struct Entry {
    const EventSource* outer = nullptr;
    const EventSource* inner = nullptr;
    Source source = 0;
  };

  void add(const EventSource& outer, const EventSource& inner, Source source);
  const Entry* find(const EventSource* source) const;  // Null: none of this device.
  Event inner(const Event& event) const;
  Event outer(const Event& event) const;
  Fence inner(const Fence& fence) const;

 private:
  mutable absl::Mutex mutex_;
  // Nodes stay where they are.
  absl::node_hash_map<const EventSource*, Entry> by_any_ ABSL_GUARDED_BY(mutex_);
};

// What the streams, timelines and memory of one checked device share.
struct CheckShared {
  OrderChecker checker;
  CheckNames names;
  FreshMemory fresh;
  bool throws = false;

  // Whoever sees an end knows.
  bool reached(const EventSource& inner, Point point);
  void await(const EventSource& inner, Point point);

  // Throws Error{kInternal} for violations that nobody was told of, if it is to.
  void tell();
};

class CheckTimeline final : public Timeline {
 public:
  CheckTimeline(CheckShared& shared, Timeline& inner);

  bool reached(std::uint64_t ticket) const noexcept override;
  void await(std::uint64_t ticket) const noexcept override;

  Timeline& inner() noexcept { return inner_; }
  Source source() const noexcept { return source_; }

 private:
  CheckShared& shared_;
  Timeline& inner_;
  const Source source_;
};

class CheckStream final : public Stream {
 public:
  CheckStream(CheckShared& shared, Stream& inner, const char* name);

  bool reached(std::uint64_t ticket) const noexcept override;
  void await(std::uint64_t ticket) const noexcept override;

  StreamId id() const noexcept override { return inner_.id(); }
  Event launch(const OpInfo& op, Body body) override;
  Event copy(const CopyInfo& copy) override;
  void wait(const Event& event, const WaitTag& tag) override;
  Event record() const noexcept override { return {*this, inner_.record().ticket()}; }
  void signal(Timeline& timeline, std::uint64_t value) override;
  void call_back(Callback callback) override;
  void synchronize() override;
  void* native() noexcept override { return inner_.native(); }

  Stream& inner() noexcept { return inner_; }
  void rename(const char* name) { shared_.checker.rename(source_, name); }
  // All that was submitted has ended, and the host knows.
  void learn_all() { shared_.checker.learn({source_, inner_.record().ticket()}); }

 private:
  CheckShared& shared_;
  Stream& inner_;
  const Source source_;
};

}  // namespace ebb::device
