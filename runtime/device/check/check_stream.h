// The streams and timelines of a checked device.

#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/cleanup/cleanup.h"
#include "absl/container/node_hash_map.h"
#include "absl/synchronization/mutex.h"

#include "allocator/error.h"
#include "runtime/device/check/fresh_memory.h"
#include "runtime/device/check/order_checker.h"
#include "runtime/device/stream.h"

namespace ebb::device {

// What all sources of one device know together. Events that leave this device name our
// sources; the device below is given its own.
class CheckNames {
 public:
  struct Entry {
    const EventSource* outer = nullptr;
    const EventSource* inner = nullptr;
    Source source = 0;
  };

  void add(const EventSource& outer, const EventSource& inner, Source source) {
    const absl::MutexLock lock(&mutex_);
    by_any_[&outer] = by_any_[&inner] = {&outer, &inner, source};
  }
  const Entry* find(const EventSource* source) const {
    const absl::MutexLock lock(&mutex_);
    const auto it = by_any_.find(source);
    return it == by_any_.end() ? nullptr : &it->second;  // Nodes stay where they are.
  }
  Event inner(const Event& event) const {
    const Entry* entry = find(event.source());
    return entry == nullptr ? event : Event(*entry->inner, event.ticket());
  }
  Event outer(const Event& event) const {
    const Entry* entry = find(event.source());
    return entry == nullptr ? event : Event(*entry->outer, event.ticket());
  }
  Fence inner(const Fence& fence) const {
    Fence result;
    fence.for_each([&](const Event& event) { result.add(inner(event)); });
    return result;
  }

 private:
  mutable absl::Mutex mutex_;
  absl::node_hash_map<const EventSource*, Entry> by_any_ ABSL_GUARDED_BY(mutex_);
};

// What the streams, timelines and memory of one checked device share.
struct CheckShared {
  OrderChecker checker;
  CheckNames names;
  FreshMemory fresh;
  bool throws = false;

  // Whoever sees an end knows.
  bool reached(const EventSource& inner, Point point) {
    if (!inner.reached(point.ticket)) return false;
    checker.learn(point);
    return true;
  }
  void await(const EventSource& inner, Point point) {
    inner.await(point.ticket);
    checker.learn(point);
  }

  void tell() {
    if (!throws) return;
    const std::string news = checker.take_news();
    if (!news.empty()) throw Error(absl::StatusCode::kInternal, "order violation: " + news);
  }
};

class CheckTimeline final : public Timeline {
 public:
  CheckTimeline(CheckShared& shared, Timeline& inner)
      : shared_(shared), inner_(inner), source_(shared.checker.add_timeline()) {
    shared.names.add(*this, inner, source_);
  }

  bool reached(std::uint64_t ticket) const noexcept override {
    return shared_.reached(inner_, {source_, ticket});
  }
  void await(std::uint64_t ticket) const noexcept override {
    shared_.await(inner_, {source_, ticket});
  }

  Timeline& inner() noexcept { return inner_; }
  Source source() const noexcept { return source_; }

 private:
  CheckShared& shared_;
  Timeline& inner_;
  const Source source_;
};

class CheckStream final : public Stream {
 public:
  CheckStream(CheckShared& shared, Stream& inner, const char* name)
      : shared_(shared), inner_(inner), source_(shared.checker.add_stream(name)) {
    shared.names.add(*this, inner, source_);
  }

  bool reached(std::uint64_t ticket) const noexcept override {
    return shared_.reached(inner_, {source_, ticket});
  }
  void await(std::uint64_t ticket) const noexcept override {
    shared_.await(inner_, {source_, ticket});
  }

  StreamId id() const noexcept override { return inner_.id(); }

  Event launch(const OpInfo& op, Body body) override {
    const std::uint64_t ticket =
        inner_.launch(op, shared_.fresh.overwrite_before(op.accesses, std::move(body)))
            .ticket();
    shared_.checker.access(source_, ticket, op.name, op.accesses);
    shared_.tell();
    return {*this, ticket};
  }

  Event copy(const CopyInfo& copy) override {
    const std::uint64_t ticket = inner_.copy(copy).ticket();
    shared_.fresh.drop(copy.device, copy.device + copy.bytes);
    const bool out = copy.direction == CopyInfo::Direction::kDeviceToHost;
    const auto host = reinterpret_cast<std::uintptr_t>(copy.host);
    const std::array<Access, 2> accesses{
        Access{out ? copy.device : host, copy.bytes, Access::Mode::kRead},
        Access{out ? host : copy.device, copy.bytes, Access::Mode::kWrite}};
    shared_.checker.access(source_, ticket, copy.name, accesses, copy.hold);
    shared_.tell();
    return {*this, ticket};
  }

  void wait(const Event& event, const WaitTag& tag) override {
    const CheckNames::Entry* entry = shared_.names.find(event.source());
    if (entry == nullptr) {
      inner_.wait(event, tag);
      return;
    }
    const std::uint64_t before = inner_.record().ticket();
    inner_.wait({*entry->inner, event.ticket()}, tag);
    const std::uint64_t ticket = inner_.record().ticket();
    if (ticket != before) {
      shared_.checker.wait(source_, ticket, {entry->source, event.ticket()});
    } else {
      // There is an order already, or the device has seen the end: then the host knows.
      (void)Event(*entry->outer, event.ticket()).done();
    }
    shared_.tell();
  }

  Event record() const noexcept override { return {*this, inner_.record().ticket()}; }

  void signal(Timeline& timeline, std::uint64_t value) override {
    auto& own = static_cast<CheckTimeline&>(timeline);
    inner_.signal(own.inner(), value);
    shared_.checker.signal(source_, inner_.record().ticket(), {own.source(), value});
    shared_.tell();
  }

  void call_back(Callback callback) override {
    // Lets what is due submit first, so that the next ticket is the callback's own, even if
    // it is called at once.
    (void)inner_.record().done();
    const std::uint64_t ticket = inner_.record().ticket() + 1;
    inner_.call_back(
        [this, ticket, callback = std::move(callback)](const absl::Status& status) mutable {
          shared_.checker.begin_call_back({source_, ticket});
          const auto end = absl::MakeCleanup([this] { shared_.checker.end_call_back(); });
          callback(status);
        });
    shared_.checker.nothing(source_, ticket);
    shared_.tell();
  }

  void synchronize() override {
    const std::uint64_t ticket = inner_.record().ticket();
    {  // Also if it throws: work that failed has ended.
      const auto learn = absl::MakeCleanup([this, ticket] {
        shared_.checker.learn({source_, ticket});
      });
      inner_.synchronize();
    }
    shared_.tell();
  }

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
