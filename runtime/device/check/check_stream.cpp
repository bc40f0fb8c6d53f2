#include "runtime/device/check/check_stream.h"

#include <array>
#include <string>
#include <utility>

#include "absl/cleanup/cleanup.h"

#include "allocator/error.h"

namespace ebb::device {

void CheckNames::add(const EventSource& outer, const EventSource& inner, Source source) {
  const absl::MutexLock lock(&mutex_);
  by_any_[&outer] = by_any_[&inner] = {&outer, &inner, source};
}

const CheckNames::Entry* CheckNames::find(const EventSource* source) const {
  const absl::MutexLock lock(&mutex_);
  const auto it = by_any_.find(source);
  return it == by_any_.end() ? nullptr : &it->second;
}

Event CheckNames::inner(const Event& event) const {
  const Entry* entry = find(event.source());
  return entry == nullptr ? event : Event(*entry->inner, event.ticket());
}

Event CheckNames::outer(const Event& event) const {
  const Entry* entry = find(event.source());
  return entry == nullptr ? event : Event(*entry->outer, event.ticket());
}

Fence CheckNames::inner(const Fence& fence) const {
  Fence result;
  fence.for_each([&](const Event& event) { result.add(inner(event)); });
  return result;
}

bool CheckShared::reached(const EventSource& inner, Point point) {
  if (!inner.reached(point.ticket)) return false;
  checker.learn(point);
  return true;
}

void CheckShared::await(const EventSource& inner, Point point) {
  inner.await(point.ticket);
  checker.learn(point);
}

void CheckShared::tell() {
  if (!throws) return;
  const std::string news = checker.take_news();
  if (!news.empty()) throw Error(absl::StatusCode::kInternal, "order violation: " + news);
}

CheckTimeline::CheckTimeline(CheckShared& shared, Timeline& inner)
    : shared_(shared), inner_(inner), source_(shared.checker.add_timeline()) {
  shared.names.add(*this, inner, source_);
}

bool CheckTimeline::reached(std::uint64_t ticket) const noexcept {
  return shared_.reached(inner_, {source_, ticket});
}

void CheckTimeline::await(std::uint64_t ticket) const noexcept {
  shared_.await(inner_, {source_, ticket});
}

CheckStream::CheckStream(CheckShared& shared, Stream& inner, const char* name)
    : shared_(shared), inner_(inner), source_(shared.checker.add_stream(name)) {
  shared.names.add(*this, inner, source_);
}

bool CheckStream::reached(std::uint64_t ticket) const noexcept {
  return shared_.reached(inner_, {source_, ticket});
}

void CheckStream::await(std::uint64_t ticket) const noexcept {
  shared_.await(inner_, {source_, ticket});
}

Event CheckStream::launch(const OpInfo& op, Body body) {
  const std::uint64_t ticket =
      inner_.launch(op, shared_.fresh.overwrite_before(op.accesses, std::move(body)))
          .ticket();
  shared_.checker.access(source_, ticket, op.name, op.accesses);
  shared_.tell();
  return {*this, ticket};
}

Event CheckStream::copy(const CopyInfo& copy) {
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

void CheckStream::wait(const Event& event, const WaitTag& tag) {
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

void CheckStream::signal(Timeline& timeline, std::uint64_t value) {
  auto& own = static_cast<CheckTimeline&>(timeline);
  inner_.signal(own.inner(), value);
  shared_.checker.signal(source_, inner_.record().ticket(), {own.source(), value});
  shared_.tell();
}

void CheckStream::call_back(Callback callback) {
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

void CheckStream::synchronize() {
  const std::uint64_t ticket = inner_.record().ticket();
  {  // Also if it throws: work that failed has ended.
    const auto learn = absl::MakeCleanup([this, ticket] {
      shared_.checker.learn({source_, ticket});
    });
    inner_.synchronize();
  }
  shared_.tell();
}

}  // namespace ebb::device
