// A device that hands every call on: what decorators for tests are made from.

#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_map.h"

#include "runtime/device/device.h"

namespace ebb::test {

// Events are those of the inner stream. `inner` outlives it.
class ForwardStream : public device::Stream {
 public:
  explicit ForwardStream(device::Stream& inner) : inner_(inner) {}

  device::Stream& inner() const noexcept { return inner_; }

  bool reached(std::uint64_t ticket) const noexcept override {
    return inner_.reached(ticket);
  }
  void await(std::uint64_t ticket) const noexcept override { inner_.await(ticket); }
  StreamId id() const noexcept override { return inner_.id(); }
  Event launch(const device::OpInfo& op, device::Body body) override {
    return inner_.launch(op, std::move(body));
  }
  Event copy(const device::CopyInfo& copy) override { return inner_.copy(copy); }
  using device::Stream::wait;
  void wait(const Event& event, const device::WaitTag& tag) override {
    inner_.wait(event, tag);
  }
  Event record() const noexcept override { return inner_.record(); }
  void signal(device::Timeline& timeline, std::uint64_t value) override {
    inner_.signal(timeline, value);
  }
  void call_back(device::Callback callback) override {
    inner_.call_back(std::move(callback));
  }
  void synchronize() override { inner_.synchronize(); }
  void* native() noexcept override { return inner_.native(); }

 private:
  device::Stream& inner_;
};

class ForwardMemory : public device::DeviceMemory {
 public:
  explicit ForwardMemory(device::DeviceMemory& inner) : inner_(inner) {}

  std::optional<std::uintptr_t> try_allocate(std::size_t bytes, Purpose purpose,
                                             device::Stream& stream) override {
    return inner_.try_allocate(bytes, purpose, static_cast<ForwardStream&>(stream).inner());
  }
  void free(std::uintptr_t address, const Fence& last_use) noexcept override {
    inner_.free(address, last_use);
  }
  device::Hold hold(std::uintptr_t address) override { return inner_.hold(address); }
  void release(device::Hold hold) noexcept override { inner_.release(hold); }
  void mark_sent(std::uintptr_t address) noexcept override { inner_.mark_sent(address); }
  device::MemoryFigures figures() const override { return inner_.figures(); }
  void reset_peaks() noexcept override { inner_.reset_peaks(); }

 protected:
  device::DeviceMemory& inner() noexcept { return inner_; }

 private:
  device::DeviceMemory& inner_;
};

// `inner` outlives it. A subclass says what its streams are, in wrap(), and calls begin()
// in its constructor. Its memory, if it has one of its own, is given to this.
class ForwardDevice : public device::Device {
 public:
  const device::Capability& capability() const noexcept override {
    return inner_.capability();
  }
  const Kernels& kernels() const noexcept override { return inner_.kernels(); }
  HostMemory& host_memory() noexcept override { return inner_.host_memory(); }

  device::Stream& create_stream(const char* name) override {
    return wrapped(inner_.create_stream(name));
  }
  void destroy_stream(device::Stream& stream) noexcept override {
    inner_.destroy_stream(static_cast<ForwardStream&>(stream).inner());
  }
  device::Timeline& acquire_timeline(std::uint64_t& first) override {
    return inner_.acquire_timeline(first);
  }
  void release_timeline(device::Timeline& timeline) noexcept override {
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
  void set_host_wait(const device::WaitTag& tag) noexcept override {
    inner_.set_host_wait(tag);
  }
  void touch_host(const device::Access& access) override { inner_.touch_host(access); }
  void set_observer(device::OpObserver* observer) noexcept override {
    inner_.set_observer(observer);
  }

 protected:
  explicit ForwardDevice(device::Device& inner) : inner_(inner) {}

  void begin() { current_stream_ = &wrapped(inner_.current_stream()); }
  virtual std::unique_ptr<ForwardStream> wrap(device::Stream& inner) = 0;
  device::Device& inner() noexcept { return inner_; }

 private:
  device::Stream& wrapped(device::Stream& inner) {
    std::unique_ptr<ForwardStream>& own = streams_[&inner];
    if (own == nullptr) own = wrap(inner);
    return *own;
  }

  device::Device& inner_;
  absl::flat_hash_map<device::Stream*, std::unique_ptr<ForwardStream>> streams_;
};

}  // namespace ebb::test
