// A device that leaves out the waits of one site: between the code that should order its
// work and the checker that should notice.
//
// It stands for a mistake: somebody removes that wait. A test that runs with each site of a
// component left out shows that each of its waits is needed, and that its tests would see
// it gone.

#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "runtime/device/device.h"
#include "tests/support/forward_device.h"

namespace ebb::device {

// `inner` outlives it. Memory waits for what still uses it on the inner streams: those
// waits are left alone.
class DropWaits final : public test::ForwardDevice {
 public:
  explicit DropWaits(Device& inner) : ForwardDevice(inner), memory_(inner.memory()) {
    begin();
  }

  // From now on; empty: none.
  void drop(std::string site) { site_ = std::move(site); }
  // How many waits were asked for at each site, dropped or not.
  const std::map<std::string, int>& waits() const { return waits_; }

  DeviceMemory& memory() noexcept override { return memory_; }

 private:
  class DroppingStream final : public test::ForwardStream {
   public:
    DroppingStream(DropWaits& device, Stream& inner)
        : ForwardStream(inner), device_(device) {}

    void wait(const Event& event, const WaitTag& tag) override {
      if (event.source() != nullptr) ++device_.waits_[tag.site];
      if (device_.site_.empty() || device_.site_ != tag.site) inner().wait(event, tag);
    }

   private:
    DropWaits& device_;
  };

  std::unique_ptr<test::ForwardStream> wrap(Stream& inner) override {
    return std::make_unique<DroppingStream>(*this, inner);
  }

  test::ForwardMemory memory_;
  std::string site_;
  std::map<std::string, int> waits_;
};

}  // namespace ebb::device
