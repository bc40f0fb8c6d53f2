#include "runtime/tensor/launch.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "allocator/error.h"

namespace ebb::tensor {
namespace {

using Mode = device::Access::Mode;

// One entry for each range; a range in both lists is read and written.
void add_access(std::vector<device::Access>& accesses, const Tensor& tensor, Mode mode) {
  const device::Access access = tensor.access(mode);
  if (access.bytes == 0) return;
  const auto same = std::find_if(accesses.begin(), accesses.end(), [&](const auto& other) {
    return other.address == access.address && other.bytes == access.bytes;
  });
  if (same == accesses.end()) {
    accesses.push_back(access);
  } else if (same->mode != mode) {
    same->mode = Mode::kReadWrite;
  }
}

// The device of all tensors of an op.
device::Device& common_device(const char* op, std::span<const Tensor> reads,
                              std::span<const Tensor> writes) {
  device::Device* device = nullptr;
  for (const auto& list : {reads, writes}) {
    for (const Tensor& tensor : list) {
      if (!tensor.defined()) continue;
      EBB_CHECK(device == nullptr || device == &tensor.device(), kInvalidArgument, op,
                ": its tensors are on different devices");
      device = &tensor.device();
    }
  }
  EBB_CHECK(device != nullptr, kInvalidArgument, op, ": no tensor is defined");
  return *device;
}

// Nothing uses `host` any more when it returns or throws.
void copy(const char* name, const Tensor& tensor, device::CopyInfo::Direction direction,
          std::byte* host) {
  EBB_CHECK(tensor.contiguous(), kInvalidArgument, name, ": the tensor is not contiguous");
  device::Stream& stream = tensor.device().current_stream();
  const Event end = stream.copy({.name = name,
                                 .direction = direction,
                                 .device = reinterpret_cast<std::uintptr_t>(tensor.data()),
                                 .host = host,
                                 .bytes = tensor.bytes()});
  if (direction == device::CopyInfo::Direction::kHostToDevice) {
    tensor.storage()->written_until(end);
  } else {
    tensor.storage()->used_until(end);
  }
  end.wait();
  stream.synchronize();
}

}  // namespace

Event launch(device::OpInfo info, std::span<const Tensor> reads,
             std::span<const Tensor> writes, device::Body body) {
  device::Device& device = common_device(info.name, reads, writes);
  std::vector<device::Access> accesses;
  accesses.reserve(reads.size() + writes.size());
  for (const Tensor& tensor : reads) {
    if (tensor.defined()) add_access(accesses, tensor, Mode::kRead);
  }
  for (const Tensor& tensor : writes) {
    if (tensor.defined()) add_access(accesses, tensor, Mode::kWrite);
  }
  info.accesses = accesses;
  device::Stream& stream = device.current_stream();
  for (const Tensor& tensor : writes) {
    // A copy of the offload engine may still read what is overwritten here.
    if (!tensor.defined()) continue;
    stream.wait(tensor.storage()->last_use(),
                {device::StallCause::kD2HBacklog, "tensor.launch.write"});
  }
  const Event end = stream.launch(info, std::move(body));
  for (const Tensor& tensor : reads) {
    if (tensor.defined()) tensor.storage()->used_until(end);
  }
  for (const Tensor& tensor : writes) {
    if (tensor.defined()) tensor.storage()->written_until(end);
  }
  return end;
}

Event launch(device::OpInfo info, std::initializer_list<Tensor> reads,
             std::initializer_list<Tensor> writes, device::Body body) {
  return launch(info, std::span<const Tensor>(reads.begin(), reads.size()),
                std::span<const Tensor>(writes.begin(), writes.size()), std::move(body));
}

void written_in_place(const Tensor& tensor) {
  tensor.storage()->version()->value.fetch_add(1, std::memory_order_relaxed);
}

void copy_from_host(const Tensor& tensor, const void* host) {
  if (tensor.bytes() == 0) return;
  // The device only reads from `host` in this direction.
  auto* source = static_cast<std::byte*>(const_cast<void*>(host));
  written_in_place(tensor);
  copy("copy_from_host", tensor, device::CopyInfo::Direction::kHostToDevice, source);
}

void copy_to_host(const Tensor& tensor, void* host) {
  if (tensor.bytes() == 0) return;
  copy("copy_to_host", tensor, device::CopyInfo::Direction::kDeviceToHost,
       static_cast<std::byte*>(host));
}

}  // namespace ebb::tensor
