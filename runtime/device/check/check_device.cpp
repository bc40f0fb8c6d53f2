#include "runtime/device/check/check_device.h"

#include <algorithm>
#include <array>
#include <deque>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/node_hash_map.h"
#include "absl/synchronization/mutex.h"

#include "allocator/error.h"
#include "runtime/device/check/order_checker.h"
#include "runtime/device/check/range_map.h"

namespace ebb::device {
namespace {

// A NaN in f32 and bf16, and a negative index.
constexpr std::uint32_t kPoison = 0xFFEBFFEB;

// What all sources of one device know together. Events that leave this device name our
// sources; the device below is given its own.
class Names {
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

struct Shared {
  OrderChecker checker;
  Names names;
  bool throws = false;

  void tell() {
    if (!throws) return;
    const std::string news = checker.take_news();
    if (!news.empty()) throw Error(absl::StatusCode::kInternal, "order violation: " + news);
  }
};

class CheckTimeline final : public Timeline {
 public:
  CheckTimeline(Shared& shared, Timeline& inner)
      : shared_(shared), inner_(inner), source_(shared.checker.add_timeline()) {
    shared.names.add(*this, inner, source_);
  }

  bool reached(std::uint64_t ticket) const noexcept override {
    if (!inner_.reached(ticket)) return false;
    shared_.checker.learn({source_, ticket});
    return true;
  }
  void await(std::uint64_t ticket) const noexcept override {
    inner_.await(ticket);
    shared_.checker.learn({source_, ticket});
  }

  Timeline& inner() noexcept { return inner_; }
  Source source() const noexcept { return source_; }

 private:
  Shared& shared_;
  Timeline& inner_;
  const Source source_;
};

class CheckStream final : public Stream {
 public:
  CheckStream(Shared& shared, Stream& inner, const char* name)
      : shared_(shared), inner_(inner), source_(shared.checker.add_stream(name)) {
    shared.names.add(*this, inner, source_);
  }

  bool reached(std::uint64_t ticket) const noexcept override {
    if (!inner_.reached(ticket)) return false;
    shared_.checker.learn({source_, ticket});
    return true;
  }
  void await(std::uint64_t ticket) const noexcept override {
    inner_.await(ticket);
    shared_.checker.learn({source_, ticket});
  }

  StreamId id() const noexcept override { return inner_.id(); }

  Event launch(const OpInfo& op, Body body) override {
    const std::uint64_t ticket = inner_.launch(op, std::move(body)).ticket();
    shared_.checker.access(source_, ticket, op.name, op.accesses);
    shared_.tell();
    return {*this, ticket};
  }

  Event copy(const CopyInfo& copy) override {
    const std::uint64_t ticket = inner_.copy(copy).ticket();
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
    const Names::Entry* entry = shared_.names.find(event.source());
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
  Shared& shared_;
  Stream& inner_;
  const Source source_;
};

// The device below makes the stream wait through our stream, so that the checker sees it.
class CheckMemory final : public DeviceMemory {
 public:
  CheckMemory(Shared& shared, DeviceMemory& inner, bool poison)
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
    freed_.take(*address, *address + whole, [](const Fence& last_use) {
      last_use.for_each([](const Event& event) { (void)event.done(); });
    });
    if (shared_.checker.lend(*address, whole)) {
      try {
        take_over(*address, whole, stream);
      } catch (...) {
        CheckMemory::free(*address, Fence(stream.record()));
        throw;
      }
    }
    return address;
  }

  void free(std::uintptr_t address, const Fence& last_use) noexcept override {
    const std::size_t bytes = shared_.checker.free(address);
    if (bytes > 0) freed_.set(address, address + bytes, last_use);
    inner_.free(address, shared_.names.inner(last_use));
  }
  Hold hold(std::uintptr_t address) override {
    const Hold hold = inner_.hold(address);
    if (hold != 0) shared_.checker.hold(address, hold);
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
  // Whoever used the memory before must be ordered before `stream`, and what was in it is
  // gone.
  void take_over(std::uintptr_t address, std::size_t bytes, Stream& stream) {
    const std::array<Access, 1> accesses{Access{address, bytes, Access::Mode::kWrite}};
    OpInfo op;
    op.name = "memory.allocate";
    op.accesses = accesses;
    op.probe = true;
    stream.launch(op, [poison = poison_, address, bytes](void*) {
      if (!poison) return;
      auto* words = reinterpret_cast<std::uint32_t*>(address);
      std::fill_n(words, bytes / sizeof kPoison, kPoison);
    });
  }

  Shared& shared_;
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

  mutable Shared shared_;
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
