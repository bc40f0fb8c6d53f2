// A device that leaves out the waits of one site, or makes them for the event before the
// right one: between the code that should order its work and the checker that should
// notice.
//
// It stands for a mistake: somebody removes that wait. A test that runs with each site of a
// component left out shows that each of its waits is needed, and that its tests would see
// it gone.

#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "runtime/device/device.h"
#include "tests/support/forward_device.h"

namespace ebb::device {

enum class Mistake : std::uint8_t {
  kNoWait,   // As a stream that waits for itself does.
  kTooEarly  // For what was recorded before the last thing was submitted.
};

// `inner` outlives it. Memory waits for what still uses it on the inner streams: those
// waits are left alone. But the fences that memory is given back with are the site
// "memory.free".
class DropWaits final : public test::ForwardDevice {
 public:
  explicit DropWaits(Device& inner) : ForwardDevice(inner), memory_(inner.memory(), *this) {
    begin();
  }

  // From now on; empty: none.
  void drop(std::string site) { plant(std::move(site), Mistake::kNoWait); }
  void plant(std::string site, Mistake mistake) {
    site_ = std::move(site);
    mistake_ = mistake;
  }
  // How many waits were asked for at each site, dropped or not.
  const std::map<std::string, int>& waits() const { return waits_; }

  DeviceMemory& memory() noexcept override { return memory_; }

 private:
  class DroppingStream final : public test::ForwardStream {
   public:
    DroppingStream(DropWaits& device, Stream& inner)
        : ForwardStream(inner), device_(device) {}

    void wait(const Event& event, const WaitTag& tag) override {
      const Event wanted = device_.mistaken(event, tag.site);
      if (wanted.source() != nullptr) inner().wait(wanted, tag);
    }

   private:
    DropWaits& device_;
  };

  class DroppingMemory final : public test::ForwardMemory {
   public:
    DroppingMemory(DeviceMemory& inner, DropWaits& device)
        : ForwardMemory(inner), device_(device) {}

    void free(std::uintptr_t address, const Fence& last_use) noexcept override {
      Fence wanted;
      last_use.for_each([&](const Event& event) {
        const Event mistaken = device_.mistaken(event, "memory.free");
        if (mistaken.source() != nullptr) wanted.add(mistaken);
      });
      ForwardMemory::free(address, wanted);
    }

   private:
    DropWaits& device_;
  };

  // The event that is waited for in place of this one.
  Event mistaken(const Event& event, const char* site) {
    if (event.source() == nullptr) return event;
    ++waits_[site];
    if (site_.empty() || site_ != site) return event;
    if (mistake_ == Mistake::kNoWait || event.ticket() == 0) return {};
    return {*event.source(), event.ticket() - 1};
  }

  std::unique_ptr<test::ForwardStream> wrap(Stream& inner) override {
    return std::make_unique<DroppingStream>(*this, inner);
  }

  DroppingMemory memory_;
  std::string site_;
  Mistake mistake_ = Mistake::kNoWait;
  std::map<std::string, int> waits_;
};

}  // namespace ebb::device
