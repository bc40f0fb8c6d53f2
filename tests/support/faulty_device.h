// Devices that fail: the n-th call of some kinds, once, or from then on.
//
// A call fails at once: it throws, and nothing was queued. An op or a copy fails when it
// runs, as one whose kernel goes wrong (SimOptions::fault does that part). So a test can
// have each call that a step makes fail in turn, until the step passes.

#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

#include "allocator/error.h"
#include "runtime/device/device.h"
#include "tests/support/forward_device.h"

namespace ebb::test {

enum class Call : std::uint8_t {
  kCreateStream,
  kAcquireTimeline,
  kAllocate,  // Throws; kNoRoom: there is no memory left.
  kNoRoom,
  kHold,
  kLaunch,
  kCopy,
  kSignal,
  kWait,
  kCallBack,
  kSynchronize,
  kRun,  // An op or a copy, when it runs.
};

// Everything that can throw where it is called. Not kNoRoom, which callers can live with,
// nor kSignal: whoever waits for a value that nobody signals waits for ever.
inline constexpr std::initializer_list<Call> kSubmissions = {
    Call::kCreateStream, Call::kAcquireTimeline, Call::kAllocate,
    Call::kHold,         Call::kLaunch,          Call::kCopy,
    Call::kWait,         Call::kCallBack,        Call::kSynchronize};

// What is to fail. One thread at a time.
class Faults {
 public:
  static constexpr const char* kText = "the test makes it fail";

  // Of the calls of these kinds, the one after `calls` more fails, once.
  void fail(std::uint64_t calls, std::initializer_list<Call> kinds) {
    kinds_ = 0;
    for (const Call kind : kinds) kinds_ |= 1U << static_cast<unsigned>(kind);
    calls_left_ = calls;
    for_good_ = false;
    failed_.clear();
  }
  void fail(std::uint64_t calls, Call kind) { fail(calls, {kind}); }
  // The same, and all that come after it, until stop().
  void fail_from(std::uint64_t calls, std::initializer_list<Call> kinds) {
    fail(calls, kinds);
    for_good_ = true;
  }
  void stop() { kinds_ = 0; }

  // What failed first since fail(); empty: nothing yet.
  const std::string& failed() const { return failed_; }

  // For whoever is called. Says whether this call fails.
  bool due(Call kind, const char* what) {
    if ((kinds_ >> static_cast<unsigned>(kind) & 1U) == 0) return false;
    if (calls_left_ > 0) {
      --calls_left_;
      return false;
    }
    if (!for_good_) kinds_ = 0;
    if (failed_.empty()) failed_ = what;
    return true;
  }
  void at(Call kind, const char* what) {
    if (due(kind, what)) {
      throw Error(absl::StatusCode::kInternal, absl::StrCat(what, ": ", kText));
    }
  }
  // For SimOptions::fault.
  absl::Status run(const char* op) {
    return due(Call::kRun, op) ? absl::InternalError(kText) : absl::Status();
  }

 private:
  std::uint32_t kinds_ = 0;
  std::uint64_t calls_left_ = 0;
  bool for_good_ = false;
  std::string failed_;
};

// `inner` and `faults` outlive it.
class FaultyDevice final : public ForwardDevice {
 public:
  FaultyDevice(device::Device& inner, Faults& faults)
      : ForwardDevice(inner), faults_(faults), memory_(inner.memory(), faults) {
    begin();
  }

  // What was made and is not given back yet.
  int streams() const { return streams_; }
  int timelines() const { return timelines_; }

  device::DeviceMemory& memory() noexcept override { return memory_; }
  device::Stream& create_stream(const char* name) override {
    faults_.at(Call::kCreateStream, name);
    ++streams_;
    return ForwardDevice::create_stream(name);
  }
  void destroy_stream(device::Stream& stream) noexcept override {
    --streams_;
    ForwardDevice::destroy_stream(stream);
  }
  device::Timeline& acquire_timeline(std::uint64_t& first) override {
    faults_.at(Call::kAcquireTimeline, "acquire_timeline");
    ++timelines_;
    return ForwardDevice::acquire_timeline(first);
  }
  void release_timeline(device::Timeline& timeline) noexcept override {
    --timelines_;
    ForwardDevice::release_timeline(timeline);
  }
  void synchronize() override {
    faults_.at(Call::kSynchronize, "synchronize");
    ForwardDevice::synchronize();
  }

 private:
  class FaultyStream final : public ForwardStream {
   public:
    FaultyStream(device::Stream& inner, Faults& faults)
        : ForwardStream(inner), faults_(faults) {}

    Event launch(const device::OpInfo& op, device::Body body) override {
      faults_.at(Call::kLaunch, op.name);
      return ForwardStream::launch(op, std::move(body));
    }
    Event copy(const device::CopyInfo& copy) override {
      faults_.at(Call::kCopy, copy.name);
      return ForwardStream::copy(copy);
    }
    void wait(const Event& event, const device::WaitTag& tag) override {
      faults_.at(Call::kWait, tag.site);
      ForwardStream::wait(event, tag);
    }
    void signal(device::Timeline& timeline, std::uint64_t value) override {
      faults_.at(Call::kSignal, "signal");
      ForwardStream::signal(timeline, value);
    }
    void call_back(device::Callback callback) override {
      faults_.at(Call::kCallBack, "call_back");
      ForwardStream::call_back(std::move(callback));
    }
    void synchronize() override {
      faults_.at(Call::kSynchronize, "synchronize a stream");
      ForwardStream::synchronize();
    }

   private:
    Faults& faults_;
  };

  class FaultyMemory final : public ForwardMemory {
   public:
    FaultyMemory(device::DeviceMemory& inner, Faults& faults)
        : ForwardMemory(inner), faults_(faults) {}

    std::optional<std::uintptr_t> try_allocate(std::size_t bytes, Purpose purpose,
                                               device::Stream& stream) override {
      faults_.at(Call::kAllocate, "allocate");
      if (faults_.due(Call::kNoRoom, "no room")) return std::nullopt;
      return inner().try_allocate(bytes, purpose, stream);  // Which may fail to wait.
    }
    device::Hold hold(std::uintptr_t address) override {
      faults_.at(Call::kHold, "hold");
      return ForwardMemory::hold(address);
    }

   private:
    Faults& faults_;
  };

  std::unique_ptr<ForwardStream> wrap(device::Stream& inner) override {
    return std::make_unique<FaultyStream>(inner, faults_);
  }

  Faults& faults_;
  FaultyMemory memory_;
  int streams_ = 0;
  int timelines_ = 0;
};

}  // namespace ebb::test
