// A device that leaves out the waits of one site: between the code that should order its
// work and the checker that should notice.
//
// It stands for a mistake: somebody removes that wait. A test that runs with each site of a
// component left out shows that each of its waits is needed, and that its tests would see
// it gone.

#pragma once

#include <deque>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "runtime/device/device.h"

namespace ebb::device {

// `inner` outlives it. Memory waits for what still uses it on the inner streams: those
// waits are left alone.
class DropWaits final : public Device {
 public:
  explicit DropWaits(Device& inner) : inner_(inner), memory_(*this) {
    current_stream_ = &streams_.emplace_back(*this, inner.current_stream());
  }

  // From now on; empty: none.
  void drop(std::string site) { site_ = std::move(site); }
  // How many waits were asked for at each site, dropped or not.
  const std::map<std::string, int>& waits() const { return waits_; }

  const Capability& capability() const noexcept override { return inner_.capability(); }
  const Kernels& kernels() const noexcept override { return inner_.kernels(); }
  DeviceMemory& memory() noexcept override { return memory_; }
  HostMemory& host_memory() noexcept override { return inner_.host_memory(); }

  Stream& create_stream(const char* name) override {
    return streams_.emplace_back(*this, inner_.create_stream(name));
  }
  void destroy_stream(Stream& stream) noexcept override {
    inner_.destroy_stream(static_cast<DroppingStream&>(stream).inner());
  }
  Timeline& acquire_timeline(std::uint64_t& first) override {
    return inner_.acquire_timeline(first);
  }
  void release_timeline(Timeline& timeline) noexcept override {
    inner_.release_timeline(timeline);
  }

  double now() const noexcept override { return inner_.now(); }
  std::optional<double> ended_at(const Event& event) const noexcept override {
    return inner_.ended_at(event);
  }
  bool ordered_after(StreamId stream, const Event& event) const noexcept override {
    return inner_.ordered_after(stream, event);
  }
  void synchronize() override { inner_.synchronize(); }
  void set_host_wait(const WaitTag& tag) noexcept override { inner_.set_host_wait(tag); }
  void touch_host(const Access& access) override { inner_.touch_host(access); }
  void set_observer(OpObserver* observer) noexcept override {
    inner_.set_observer(observer);
  }

 private:
  class DroppingStream final : public Stream {
   public:
    DroppingStream(DropWaits& device, Stream& inner) : device_(device), inner_(inner) {}

    Stream& inner() const noexcept { return inner_; }

    bool reached(std::uint64_t ticket) const noexcept override {
      return inner_.reached(ticket);
    }
    void await(std::uint64_t ticket) const noexcept override { inner_.await(ticket); }
    StreamId id() const noexcept override { return inner_.id(); }
    Event launch(const OpInfo& op, Body body) override {
      return inner_.launch(op, std::move(body));
    }
    Event copy(const CopyInfo& copy) override { return inner_.copy(copy); }
    void wait(const Event& event, const WaitTag& tag) override {
      if (event.source() != nullptr) ++device_.waits_[tag.site];
      if (device_.site_.empty() || device_.site_ != tag.site) inner_.wait(event, tag);
    }
    Event record() const noexcept override { return inner_.record(); }
    void signal(Timeline& timeline, std::uint64_t value) override {
      inner_.signal(timeline, value);
    }
    void call_back(Callback callback) override { inner_.call_back(std::move(callback)); }
    void synchronize() override { inner_.synchronize(); }
    void* native() noexcept override { return inner_.native(); }

   private:
    DropWaits& device_;
    Stream& inner_;
  };

  class InnerMemory final : public DeviceMemory {
   public:
    explicit InnerMemory(DropWaits& device) : device_(device) {}

    std::optional<std::uintptr_t> try_allocate(std::size_t bytes, Purpose purpose,
                                               Stream& stream) override {
      return inner().try_allocate(bytes, purpose,
                                  static_cast<DroppingStream&>(stream).inner());
    }
    void free(std::uintptr_t address, const Fence& last_use) noexcept override {
      inner().free(address, last_use);
    }
    Hold hold(std::uintptr_t address) override { return inner().hold(address); }
    void release(Hold hold) noexcept override { inner().release(hold); }
    void mark_sent(std::uintptr_t address) noexcept override { inner().mark_sent(address); }
    MemoryFigures figures() const override { return inner().figures(); }
    void reset_peaks() noexcept override { inner().reset_peaks(); }

   private:
    DeviceMemory& inner() const noexcept { return device_.inner_.memory(); }

    DropWaits& device_;
  };

  Device& inner_;
  InnerMemory memory_;
  std::deque<DroppingStream> streams_;
  std::string site_;
  std::map<std::string, int> waits_;
};

}  // namespace ebb::device
