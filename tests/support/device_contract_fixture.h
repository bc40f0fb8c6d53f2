// A device under its contract, and what the tests of it do with it.

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "runtime/device/device.h"
#include "tests/support/devices.h"

namespace ebb::test {

struct DeviceMaker {
  std::string name;
  // Of at least 1 MiB; dry if it likes.
  std::function<std::unique_ptr<device::Device>()> make;
};

inline std::string name_of(const ::testing::TestParamInfo<DeviceMaker>& info) {
  return info.param.name;
}

class DeviceContract : public ::testing::TestWithParam<DeviceMaker> {
 protected:
  using Access = device::Access;
  using CopyInfo = device::CopyInfo;
  using Stream = device::Stream;
  static constexpr std::size_t kBytes = 4096;
  static constexpr device::WaitTag kTag{device::StallCause::kHost, "test"};

  void SetUp() override {
    device_ = GetParam().make();
    dry_ = device_->capability().dry;
    host_ = device_->host_memory().pin(kBytes);
  }
  void TearDown() override {
    device_->synchronize();
    device_->host_memory().unpin(host_, kBytes);
  }

  Stream& compute() { return device_->current_stream(); }

  std::uintptr_t allocate(std::size_t bytes = kBytes) {
    return device_->memory().allocate(bytes, Purpose::kActivations, compute());
  }

  void fill(Stream& stream, std::uintptr_t address, int value) {
    const std::vector<Access> accesses{{address, kBytes, Access::Mode::kWrite}};
    stream.launch(op("fill", 1, accesses), [address, value](void*) {
      std::memset(reinterpret_cast<void*>(address), value, kBytes);
    });
  }
  // Adds one to every byte.
  void raise(Stream& stream, std::uintptr_t address) {
    const std::vector<Access> accesses{{address, kBytes, Access::Mode::kReadWrite}};
    stream.launch(op("raise", 1, accesses), [address](void*) {
      auto* bytes = reinterpret_cast<unsigned char*>(address);
      std::for_each(bytes, bytes + kBytes, [](unsigned char& byte) { ++byte; });
    });
  }
  void fetch(Stream& stream, std::uintptr_t address) {
    stream.copy({"fetch", CopyInfo::Direction::kDeviceToHost, address, host_, kBytes});
  }
  void send(Stream& stream, std::uintptr_t address) {
    stream.copy({"send", CopyInfo::Direction::kHostToDevice, address, host_, kBytes});
  }
  void expect_host(int value) {
    if (dry_) return;
    EXPECT_EQ(std::count(host_, host_ + kBytes, static_cast<std::byte>(value)), kBytes);
  }
  std::unique_ptr<device::Device> device_;
  bool dry_ = false;
  std::byte* host_ = nullptr;
};

}  // namespace ebb::test
