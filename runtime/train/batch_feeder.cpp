#include "runtime/train/batch_feeder.h"

#include "allocator/error.h"
#include "runtime/tensor/launch.h"

namespace ebb::train {
namespace {

using device::CopyInfo;
using device::StallCause;

PinnedPool::Block take(PinnedPool& pool, std::size_t bytes) {
  PinnedPool::Block block = pool.allocate(bytes, Purpose::kStaging);
  if (block) return block;
  pool.reserve(pool.stats().pinned_bytes + bytes);
  block = pool.allocate(bytes, Purpose::kStaging);
  EBB_CHECK(static_cast<bool>(block), kResourceExhausted,
            "no pinned memory for the batches on their way: ", bytes, " bytes");
  return block;
}

}  // namespace

BatchFeeder::BatchFeeder(device::Device& device, PinnedPool& pool, std::int64_t batch,
                         std::int64_t seq, std::int64_t accumulate)
    : device_(device),
      batch_(batch),
      seq_(seq),
      accumulate_(accumulate),
      staging_(take(pool, 2 * static_cast<std::size_t>(accumulate) *
                              (values() * sizeof(std::int32_t) + sizeof(float)))),
      arrivals_(device, "batches"),
      departures_(device, "losses"),
      arrived_(kRoom) {
  for (std::size_t i = 0; i < kRoom; ++i) {
    auto storage = tensor::Storage::allocate(device, values() * sizeof(std::int32_t),
                                             Purpose::kActivations, *arrivals_);
    room_.push_back(Tensor::over(std::move(storage), {2, batch, seq}, DType::kI32));
  }
}

std::byte* BatchFeeder::host_slot(std::int64_t number) const {
  const auto slot = static_cast<std::size_t>(number % (2 * accumulate_));
  return staging_.data() + slot * values() * sizeof(std::int32_t);
}

float* BatchFeeder::loss_slot(std::int64_t number) const {
  const auto batches = static_cast<std::size_t>(2 * accumulate_);
  std::byte* const losses = staging_.data() + batches * values() * sizeof(std::int32_t);
  return reinterpret_cast<float*>(losses) + number % (2 * accumulate_);
}

BatchView BatchFeeder::host(std::int64_t number) {
  auto* const first = reinterpret_cast<std::int32_t*>(host_slot(number));
  return {.tokens = {first, values() / 2}, .targets = {first + values() / 2, values() / 2}};
}

void BatchFeeder::send(std::int64_t number) {
  const auto room = static_cast<std::size_t>(number) % kRoom;
  const Tensor& target = room_[room];
  // Ops read it, and whoever takes what they save away.
  arrivals_->wait(target.storage()->last_use(), {StallCause::kHost, "batch_feeder.send"});
  arrived_[room] = arrivals_->copy({.name = "batch.h2d",
                                    .direction = CopyInfo::Direction::kHostToDevice,
                                    .device = target.storage()->address(),
                                    .host = host_slot(number),
                                    .bytes = target.bytes()});
  target.storage()->written_until(arrived_[room]);
  tensor::written_in_place(target);
}

DeviceBatch BatchFeeder::receive(std::int64_t number) {
  const auto room = static_cast<std::size_t>(number) % kRoom;
  device_.current_stream().wait(arrived_[room],
                                {StallCause::kHost, "batch_feeder.receive"});
  const auto half = [&](std::int64_t which) {
    return Tensor::over(room_[room].storage(), {batch_, seq_}, DType::kI32,
                        which * batch_ * seq_);
  };
  return {.tokens = half(0), .targets = half(1)};
}

void BatchFeeder::send_loss(std::int64_t number, const Tensor& loss) {
  departures_->wait(device_.current_stream().record(),
                    {StallCause::kHost, "batch_feeder.send_loss"});
  const Event end =
      departures_->copy({.name = "loss.d2h",
                         .direction = CopyInfo::Direction::kDeviceToHost,
                         .device = reinterpret_cast<std::uintptr_t>(loss.data()),
                         .host = reinterpret_cast<std::byte*>(loss_slot(number)),
                         .bytes = loss.bytes()});
  loss.storage()->used_until(end);
}

std::span<const float> BatchFeeder::losses(std::int64_t number) const {
  const std::int64_t first = number - number % accumulate_;
  return {loss_slot(first), static_cast<std::size_t>(accumulate_)};
}

}  // namespace ebb::train
