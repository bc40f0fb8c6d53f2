#include "runtime/device/check/check_device.h"

#include <algorithm>
#include <deque>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/node_hash_map.h"
#include "absl/synchronization/mutex.h"

#include "allocator/error.h"
#include "runtime/device/check/check_stream.h"
#include "runtime/device/check/range_map.h"

namespace ebb::device {
namespace {

// The device below makes the stream wait through our stream, so that the checker sees it.
class CheckMemory final : public DeviceMemory {
 public:
  CheckMemory(CheckShared& shared, DeviceMemory& inner, bool poison)
      : shared_(shared), inner_(inner), poison_(poison) {}

  std::optional<std::uintptr_t> try_allocate(std::size_t bytes, Purpose purpose,
                                             Stream& stream) override {
    const auto address = inner_.try_allocate(bytes, purpose, stream);
    if (!address) return address;
    constexpr std::size_t kGranule = DeviceArena::kGranularityBytes;
    const std::size_t whole =
        (std::max<std::size_t>(bytes, 1) + kGranule - 1) / kGranule * kGranule;
    // The device below may have seen that the last uses of these bytes are done, and so
    // asked for no wait: then the host knows, and the checker must, too.
    freed_.take(*address, *address + whole,
                [](std::uintptr_t, std::uintptr_t, const Fence& last_use) {
                  last_use.for_each([](const Event& event) { (void)event.done(); });
                });
    const bool used_before = shared_.checker.lend(*address, whole);
    if (used_before && poison_) shared_.fresh.add(*address, *address + whole);
    return address;
  }

  void free(std::uintptr_t address, const Fence& last_use) noexcept override {
    const std::size_t bytes = shared_.checker.free(address);
    if (bytes > 0) {
      freed_.set(address, address + bytes, last_use);
      if (poison_) shared_.fresh.drop(address, address + bytes);
    }
    inner_.free(address, shared_.names.inner(last_use));
  }
  Hold hold(std::uintptr_t address) override {
    const Hold hold = inner_.hold(address);
    if (hold == 0) return hold;
    // The copies may be submitted after ops that come after them.
    const AccessMap::Range block = shared_.checker.hold(address, hold);
    shared_.fresh.drop(block.begin, block.end);
    return hold;
  }
  void release(Hold hold) noexcept override {
    shared_.checker.release(hold);
    inner_.release(hold);
  }
  void mark_sent(std::uintptr_t address) noexcept override { inner_.mark_sent(address); }
  MemoryFigures figures() const override { return inner_.figures(); }
  void reset_peaks() noexcept override { inner_.reset_peaks(); }

 private:
  CheckShared& shared_;
  DeviceMemory& inner_;
  const bool poison_;
  RangeMap<Fence> freed_;  // The last use of what is not lent.
};

class CheckedDevice final : public CheckDevice, private OpObserver {
 public:
  CheckedDevice(std::unique_ptr<Device> device, const CheckOptions& options)
      : device_(std::move(device)),
        memory_(shared_, device_->memory(),
                options.poison_freed && !device_->capability().dry) {
    shared_.throws = options.throw_on_violation;
    current_stream_ = &wrap(device_->current_stream(), "compute");
  }
  ~CheckedDevice() override { device_->set_observer(nullptr); }

  CheckedDevice(const CheckedDevice&) = delete;
  CheckedDevice& operator=(const CheckedDevice&) = delete;

  const Capability& capability() const noexcept override { return device_->capability(); }
  const Kernels& kernels() const noexcept override { return device_->kernels(); }
  DeviceMemory& memory() noexcept override { return memory_; }
  HostMemory& host_memory() noexcept override { return device_->host_memory(); }

  Stream& create_stream(const char* name) override {
    return wrap(device_->create_stream(name), name);
  }
  void destroy_stream(Stream& stream) noexcept override {
    auto& own = static_cast<CheckStream&>(stream);
    device_->destroy_stream(own.inner());
    own.learn_all();
  }

  Timeline& acquire_timeline(std::uint64_t& first) override {
    Timeline& inner = device_->acquire_timeline(first);
    CheckTimeline*& own = timelines_[&inner];
    if (own == nullptr) own = &all_timelines_.emplace_back(shared_, inner);
    return *own;
  }
  void release_timeline(Timeline& timeline) noexcept override {
    device_->release_timeline(static_cast<CheckTimeline&>(timeline).inner());
  }

  double now() const noexcept override { return device_->now(); }
  std::optional<double> ended_at(const Event& event) const noexcept override {
    return device_->ended_at(shared_.names.inner(event));
  }
  bool ordered_after(StreamId stream, const Event& event) const noexcept override {
    return device_->ordered_after(stream, shared_.names.inner(event));
  }

  void synchronize() override {
    {  // Also if it throws: work that failed has ended.
      const auto learn = absl::MakeCleanup([this] {
        for (CheckStream& stream : all_streams_) stream.learn_all();
      });
      device_->synchronize();
    }
    shared_.tell();
  }

  void set_host_wait(const WaitTag& tag) noexcept override { device_->set_host_wait(tag); }
  void touch_host(const Access& access) override {
    shared_.checker.touch_host(access);
    shared_.tell();
  }
  void set_observer(OpObserver* observer) noexcept override {
    observer_ = observer;
    device_->set_observer(observer == nullptr ? nullptr : this);
  }

  std::vector<std::string> violations() const override {
    return shared_.checker.violations();
  }
  OrderFigures order() const override { return shared_.checker.figures(); }

 private:
  Stream& wrap(Stream& inner, const char* name) {
    CheckStream*& own = streams_[&inner];
    if (own == nullptr) {
      own = &all_streams_.emplace_back(shared_, inner, name);
    } else {
      own->rename(name);
    }
    return *own;
  }

  void on_op(const OpRecord& record) override {
    OpRecord outer = record;
    outer.end_event = shared_.names.outer(record.end_event);
    observer_->on_op(outer);
  }

  mutable CheckShared shared_;
  std::deque<CheckStream> all_streams_;  // Outlive the device's closures.
  std::deque<CheckTimeline> all_timelines_;
  absl::flat_hash_map<Stream*, CheckStream*> streams_;
  absl::flat_hash_map<Timeline*, CheckTimeline*> timelines_;
  OpObserver* observer_ = nullptr;
  const std::unique_ptr<Device> device_;
  CheckMemory memory_;
};

}  // namespace

std::unique_ptr<CheckDevice> make_check_device(std::unique_ptr<Device> device,
                                               const CheckOptions& options) {
  return std::make_unique<CheckedDevice>(std::move(device), options);
}

}  // namespace ebb::device
