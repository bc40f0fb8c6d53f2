// The bytes under a tensor.

#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "allocator/purpose.h"
#include "runtime/device/device.h"

namespace ebb::tensor {

// Counts in-place writes. Outlives the storage where somebody saved a tensor of it.
struct Version {
  std::atomic<std::uint64_t> value{0};
};

class Storage;
using StorageRef = std::shared_ptr<Storage>;

// One piece of device memory. Its number is never used again, in this process, by another.
// Given back when the last tensor over it goes, with the fence of the work that uses it.
// One thread at a time.
class Storage {
 public:
  // Memory of `device`, first used by its current stream (or by `stream`). Throws
  // Error{kResourceExhausted}.
  static StorageRef allocate(device::Device& device, std::size_t bytes, Purpose purpose);
  static StorageRef allocate(device::Device& device, std::size_t bytes, Purpose purpose,
                             device::Stream& stream);
  // The same, or null where it does not fit.
  static StorageRef try_allocate(device::Device& device, std::size_t bytes, Purpose purpose,
                                 device::Stream& stream);
  // Memory of the job's own; `deleter` is called with the fence of the last use when the
  // storage goes.
  static StorageRef adopt(device::Device& device, void* data, std::size_t bytes,
                          Purpose purpose,
                          std::function<void(const Fence& last_use)> deleter);
  ~Storage();

  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;

  std::uint64_t id() const noexcept { return id_; }
  device::Device& device() const noexcept { return device_; }
  std::uintptr_t address() const noexcept { return address_; }
  std::size_t bytes() const noexcept { return bytes_; }
  Purpose purpose() const noexcept { return purpose_; }
  bool adopted() const noexcept { return deleter_ != nullptr; }

  const std::shared_ptr<Version>& version() const noexcept { return version_; }

  // Work in flight uses the storage until `event`.
  void used_until(const Event& event) { last_use_.add(event); }
  const Fence& last_use() const noexcept { return last_use_; }
  // The same, and changes its bytes: what a reader on another stream has to wait for.
  void written_until(const Event& event) {
    last_use_.add(event);
    last_write_.add(event);
  }
  const Fence& last_write() const noexcept { return last_write_; }

 private:
  Storage(device::Device& device, std::uintptr_t address, std::size_t bytes,
          Purpose purpose, std::function<void(const Fence&)> deleter);

  device::Device& device_;
  const std::uint64_t id_;
  const std::uintptr_t address_;
  const std::size_t bytes_;
  const Purpose purpose_;
  const std::function<void(const Fence&)> deleter_;
  std::shared_ptr<Version> version_ = std::make_shared<Version>();
  Fence last_use_;
  Fence last_write_;
};

}  // namespace ebb::tensor
