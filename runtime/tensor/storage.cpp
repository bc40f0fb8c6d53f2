#include "runtime/tensor/storage.h"

#include <exception>
#include <utility>

#include "allocator/error.h"

namespace ebb::tensor {
namespace {

// The one counter of the process: an identity must not depend on which device made it.
std::uint64_t next_id() noexcept {
  static std::atomic<std::uint64_t> next{1};
  return next.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace

Storage::Storage(device::Device& device, std::uintptr_t address, std::size_t bytes,
                 Purpose purpose, std::function<void(const Fence&)> deleter)
    : device_(device),
      id_(next_id()),
      address_(address),
      bytes_(bytes),
      purpose_(purpose),
      deleter_(std::move(deleter)) {}

StorageRef Storage::allocate(device::Device& device, std::size_t bytes, Purpose purpose) {
  return allocate(device, bytes, purpose, device.current_stream());
}

StorageRef Storage::allocate(device::Device& device, std::size_t bytes, Purpose purpose,
                             device::Stream& stream) {
  const std::uintptr_t address = device.memory().allocate(bytes, purpose, stream);
  return StorageRef(new Storage(device, address, bytes, purpose, nullptr));
}

StorageRef Storage::try_allocate(device::Device& device, std::size_t bytes, Purpose purpose,
                                 device::Stream& stream) {
  const auto address = device.memory().try_allocate(bytes, purpose, stream);
  if (!address) return nullptr;
  return StorageRef(new Storage(device, *address, bytes, purpose, nullptr));
}

StorageRef Storage::adopt(device::Device& device, void* data, std::size_t bytes,
                          Purpose purpose,
                          std::function<void(const Fence& last_use)> deleter) {
  EBB_CHECK(data != nullptr || bytes == 0, kInvalidArgument,
            "no memory is given for a tensor of ", bytes, " bytes");
  if (!deleter) deleter = [](const Fence&) {};
  return StorageRef(new Storage(device, reinterpret_cast<std::uintptr_t>(data), bytes,
                                purpose, std::move(deleter)));
}

Storage::~Storage() {
  if (!deleter_) {
    device_.memory().free(address_, last_use_);
    return;
  }
  try {
    deleter_(last_use_);
  } catch (const std::exception& error) {
    log_error(absl::StrCat("the deleter of a job's own memory failed: ", error.what()));
  } catch (...) {
    log_error("the deleter of a job's own memory failed");
  }
}

}  // namespace ebb::tensor
