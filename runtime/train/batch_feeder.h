// Brings batches to the device ahead of their use, and losses back after.
//
// Copies go over streams of their own. Two batches have room on the device: while one is
// computed with, the next arrives. On the host a batch stays where it is for a whole step,
// so that filling the next one waits for nobody.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "allocator/pinned_pool.h"
#include "runtime/device/owned.h"
#include "runtime/tensor/tensor.h"
#include "runtime/train/text_data.h"

namespace ebb::train {

// One micro-batch on the device: i32 [batch, seq] each.
struct DeviceBatch {
  Tensor tokens;
  Tensor targets;
};

// Micro-batches are counted through the run: number n is micro-batch n % accumulate of step
// n / accumulate. One thread at a time. `device` and `pool` outlive it; it outlives the
// work in flight.
class BatchFeeder {
 public:
  // `accumulate` micro-batches a step. Takes pinned memory as Purpose::kStaging, for which
  // the pool grows if need be.
  BatchFeeder(device::Device& device, PinnedPool& pool, std::int64_t batch,
              std::int64_t seq, std::int64_t accumulate);

  // Where micro-batch `number` is filled in before send(). What was there, the micro-batch
  // two steps before, has been computed with.
  BatchView host(std::int64_t number);

  // Queues the copy of micro-batch `number`, behind all that uses the one two before: none
  // of that is submitted later. It is an in-place write of what that one was saved as.
  void send(std::int64_t number);

  // Micro-batch `number`, which was sent: current_stream() waits for it.
  DeviceBatch receive(std::int64_t number);

  // Queues the copy of `loss` (f32 [1]) of micro-batch `number` to the host, behind all
  // that current_stream() has been given.
  void send_loss(std::int64_t number, const Tensor& loss);

  // The losses of the step of `number`, once its copies have ended.
  std::span<const float> losses(std::int64_t number) const;

 private:
  static constexpr std::size_t kRoom = 2;  // Batches on the device.

  std::size_t values() const { return static_cast<std::size_t>(2 * batch_ * seq_); }
  std::byte* host_slot(std::int64_t number) const;
  float* loss_slot(std::int64_t number) const;

  device::Device& device_;
  const std::int64_t batch_;
  const std::int64_t seq_;
  const std::int64_t accumulate_;
  PinnedPool::Block staging_;  // 2 x accumulate batches, then as many losses.
  device::OwnedStream arrivals_;
  device::OwnedStream departures_;
  std::vector<Tensor> room_;    // i32 [2, batch, seq]: tokens, targets.
  std::vector<Event> arrived_;  // By room.
};

}  // namespace ebb::train
