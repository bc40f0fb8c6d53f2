#include "runtime/device/sim/sim_device.h"

#include <deque>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "allocator/error.h"
#include "runtime/device/sim/sim_core.h"

namespace ebb::device {
namespace {

class SimTimeline final : public Timeline {
 public:
  explicit SimTimeline(SimCore& core) : core_(core), source_(core.add_timeline(*this)) {}

  bool reached(std::uint64_t ticket) const noexcept override {
    return core_.reached({source_, ticket});
  }
  void await(std::uint64_t ticket) const noexcept override {
    core_.await({source_, ticket});
  }
  // For another owner. The last value of those before.
  std::uint64_t renew() noexcept { return core_.renew(source_); }

 private:
  SimCore& core_;
  const Source source_;
};

class SimStream final : public Stream {
 public:
  SimStream(SimCore& core, const char* name)
      : core_(core), source_(core.add_stream(name, *this)) {}

  bool reached(std::uint64_t ticket) const noexcept override {
    return core_.reached({source_, ticket});
  }
  void await(std::uint64_t ticket) const noexcept override {
    core_.await({source_, ticket});
  }

  StreamId id() const noexcept override { return StreamId{source_}; }
  Event launch(const OpInfo& op, Body body) override {
    return core_.launch(source_, op, std::move(body));
  }
  Event copy(const CopyInfo& copy) override { return core_.copy(source_, copy); }
  void wait(const Event& event, const WaitTag& tag) override {
    core_.wait(source_, event, tag);
  }
  Event record() const noexcept override { return core_.record(source_); }
  void signal(Timeline& timeline, std::uint64_t value) override {
    core_.signal(source_, timeline, value);
  }
  void call_back(Callback callback) override {
    core_.call_back(source_, std::move(callback));
  }
  void synchronize() override { core_.synchronize(source_); }
  void* native() noexcept override { return nullptr; }

  void rename(const char* name) { core_.rename(source_, name); }
  void close() noexcept { core_.close(source_); }

 private:
  SimCore& core_;
  const Source source_;
};

Capability describe(const SimOptions& options) {
  const Profile& profile = options.profile;
  Capability result;
  result.name = absl::StrCat("sim:", profile.name);
  result.virtual_clock = !profile.free;
  result.dry = options.dry;
  result.capacity_bytes = profile.capacity_bytes;
  result.d2h = profile.d2h;
  result.h2d = profile.h2d;
  result.duplex_bytes_per_second = profile.duplex_bytes_per_second;
  result.host_submit_seconds = profile.host_submit_seconds;
  return result;
}

class SimDevice final : public Device {
 public:
  SimDevice(const SimOptions& options, const Kernels& kernels)
      : capability_(describe(options)),
        kernels_(kernels),
        host_memory_(options.dry ? make_unbacked_memory() : make_pageable_memory()),
        core_(options) {
    current_stream_ = &SimDevice::create_stream("compute");
  }

  const Capability& capability() const noexcept override { return capability_; }
  const Kernels& kernels() const noexcept override { return kernels_; }
  DeviceMemory& memory() noexcept override { return core_.memory(); }
  HostMemory& host_memory() noexcept override { return *host_memory_; }

  Stream& create_stream(const char* name) override {
    if (unused_streams_.empty()) return streams_.emplace_back(core_, name);
    SimStream& stream = *unused_streams_.back();
    unused_streams_.pop_back();
    stream.rename(name);
    return stream;
  }

  void destroy_stream(Stream& stream) noexcept override {
    auto& own = static_cast<SimStream&>(stream);
    own.close();
    unused_streams_.push_back(&own);
  }

  Timeline& acquire_timeline(std::uint64_t& first) override {
    SimTimeline* timeline = nullptr;
    if (unused_timelines_.empty()) {
      timeline = &timelines_.emplace_back(core_);
    } else {
      timeline = unused_timelines_.back();
      unused_timelines_.pop_back();
    }
    first = timeline->renew() + 1;
    return *timeline;
  }

  void release_timeline(Timeline& timeline) noexcept override {
    unused_timelines_.push_back(static_cast<SimTimeline*>(&timeline));
  }

  double now() const noexcept override { return core_.now(); }
  std::optional<double> ended_at(const Event& event) const noexcept override {
    return core_.ended_at(event);
  }
  bool ordered_after(StreamId stream, const Event& event) const noexcept override {
    return core_.ordered_after(stream, event);
  }
  void synchronize() override { core_.synchronize(); }
  void set_host_wait(const WaitTag& tag) noexcept override { core_.set_host_wait(tag); }
  void set_observer(OpObserver* observer) noexcept override {
    core_.set_observer(observer);
  }

 private:
  const Capability capability_;
  const Kernels& kernels_;
  const std::unique_ptr<HostMemory> host_memory_;
  mutable SimCore core_;
  std::deque<SimStream> streams_;
  std::deque<SimTimeline> timelines_;
  std::vector<SimStream*> unused_streams_;
  std::vector<SimTimeline*> unused_timelines_;
};

}  // namespace

std::unique_ptr<Device> make_sim_device(const SimOptions& options, const Kernels& kernels) {
  const Profile& profile = options.profile;
  if (options.limit_bytes) {
    EBB_CHECK(*options.limit_bytes > 0, kInvalidArgument, "a device of 0 bytes");
    EBB_CHECK(!profile.capacity_bytes || *options.limit_bytes <= *profile.capacity_bytes,
              kInvalidArgument, "a limit of ", *options.limit_bytes,
              " bytes is above the capacity of ", profile.name, ", ",
              profile.capacity_bytes.value_or(0), " bytes");
  }
  return std::make_unique<SimDevice>(options, kernels);
}

}  // namespace ebb::device
