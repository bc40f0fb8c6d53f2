#include "runtime/train/batch_feeder.h"

#include <algorithm>
#include <numeric>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/tensor/launch.h"
#include "tests/support/errors.h"
#include "tests/support/sim_devices.h"
#include "tests/support/tensors.h"

namespace ebb::train {
namespace {

using test::fails_with;
using ::testing::Each;
using ::testing::ElementsAre;

constexpr std::int64_t kBatch = 2;
constexpr std::int64_t kSeq = 4;

class BatchFeederTest : public ::testing::TestWithParam<device::Order> {
 protected:
  std::vector<std::int32_t> read(const Tensor& tensor) const {
    std::vector<std::int32_t> values(static_cast<std::size_t>(tensor.elements()));
    tensor::copy_to_host(tensor, values.data());
    return values;
  }
  // Submits an op that writes `value` into a loss, as a forward would.
  Tensor loss(float value) {
    const Tensor loss = Tensor::empty(*device_, {1}, DType::kF32);
    tensor::launch(test::op_named("loss"), {}, {loss},
                   [out = loss.data_as<float>(), value](void*) { *out = value; });
    return loss;
  }
  // An op that reads a batch and remembers the sum of its tokens.
  void consume(const DeviceBatch& batch, std::int32_t& sum) {
    tensor::launch(test::op_named("consume"), {batch.tokens, batch.targets}, {},
                   [&sum, tokens = batch.tokens.data_as<std::int32_t>()](void*) {
                     sum = std::accumulate(tokens, tokens + kBatch * kSeq, 0);
                   });
  }

  std::unique_ptr<device::CheckDevice> device_ = test::checked_sim(GetParam());
  PinnedPool pool_{device_->host_memory(), std::size_t{1} << 20};
};

TEST_P(BatchFeederTest, BringsTokensAndTargetsToTheDevice) {
  BatchFeeder feeder(*device_, pool_, kBatch, kSeq, 1);
  const BatchView view = feeder.host(0);
  std::iota(view.tokens.begin(), view.tokens.end(), 0);
  std::iota(view.targets.begin(), view.targets.end(), 100);
  feeder.send(0);
  const DeviceBatch batch = feeder.receive(0);
  EXPECT_EQ(batch.tokens.shape(), (tensor::Shape{kBatch, kSeq}));
  EXPECT_THAT(read(batch.tokens), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
  EXPECT_THAT(read(batch.targets), ElementsAre(100, 101, 102, 103, 104, 105, 106, 107));
}

// The host never waits inside a step, so nothing but streams and events keeps a batch from
// being overwritten while it is computed with: the checker throws if they do not.
TEST_P(BatchFeederTest, ComputesWithEachBatchWhileTheNextArrives) {
  constexpr std::int64_t kAccumulate = 3;
  constexpr std::int64_t kSteps = 4;
  BatchFeeder feeder(*device_, pool_, kBatch, kSeq, kAccumulate);
  const auto send = [&](std::int64_t number) {
    std::ranges::fill(feeder.host(number).tokens, static_cast<std::int32_t>(number + 1));
    feeder.send(number);
  };
  send(0);
  for (std::int64_t step = 0; step < kSteps; ++step) {
    std::vector<std::int32_t> sums(kAccumulate);
    for (std::int64_t micro = 0; micro < kAccumulate; ++micro) {
      const std::int64_t number = step * kAccumulate + micro;
      consume(feeder.receive(number), sums[static_cast<std::size_t>(micro)]);
      feeder.send_loss(number, loss(static_cast<float>(number)));
      send(number + 1);
    }
    device_->synchronize();
    const auto first = static_cast<std::int32_t>(step * kAccumulate);
    EXPECT_THAT(sums, ElementsAre(8 * (first + 1), 8 * (first + 2), 8 * (first + 3)));
    const auto begin = static_cast<float>(first);
    EXPECT_THAT(feeder.losses(first), ElementsAre(begin, begin + 1, begin + 2));
    EXPECT_EQ(feeder.losses(first + 2).data(), feeder.losses(first).data());
  }
}

// What an op saves of a batch, the offload engine copies to the host.
TEST_P(BatchFeederTest, WaitsForWhoeverCopiesABatchAway) {
  BatchFeeder feeder(*device_, pool_, kBatch, kSeq, 1);
  device::Stream& away = device_->create_stream("away");
  std::vector<std::int32_t> copied(kBatch * kSeq);
  std::ranges::fill(feeder.host(0).tokens, 7);
  feeder.send(0);
  const Tensor tokens = feeder.receive(0).tokens;
  const auto saved_at = tokens.storage()->version()->value.load();
  away.wait(tokens.storage()->last_write(), {device::StallCause::kHost, "test"});
  tokens.storage()->used_until(
      away.copy({.name = "away",
                 .direction = device::CopyInfo::Direction::kDeviceToHost,
                 .device = tokens.storage()->address(),
                 .host = reinterpret_cast<std::byte*>(copied.data()),
                 .bytes = copied.size() * sizeof(std::int32_t)}));
  std::ranges::fill(feeder.host(1).tokens, 8);
  feeder.send(1);
  feeder.send(2);  // Where batch 0 was: the checker throws if it comes too early.
  device_->synchronize();
  EXPECT_THAT(copied, Each(7));
  EXPECT_NE(tokens.storage()->version()->value.load(), saved_at);
  device_->destroy_stream(away);
}

TEST_P(BatchFeederTest, GivesEverythingBack) {
  const std::size_t before = device_->memory().figures().live.total();
  {
    BatchFeeder feeder(*device_, pool_, kBatch, kSeq, 1);
    EXPECT_GT(pool_.stats().requested_by_purpose[Purpose::kStaging], 0U);
    feeder.send(0);
  }
  device_->synchronize();
  EXPECT_EQ(device_->memory().figures().live.total(), before);
  EXPECT_EQ(pool_.stats().requested_bytes, 0U);
}

TEST_P(BatchFeederTest, SaysThatThePoolIsTooSmall) {
  PinnedPool small(device_->host_memory(), 4096);
  EXPECT_THAT([&] { BatchFeeder(*device_, small, 64, 64, 1); },
              fails_with(absl::StatusCode::kResourceExhausted));
}

INSTANTIATE_TEST_SUITE_P(Orders, BatchFeederTest, ::testing::ValuesIn(test::all_orders()));

}  // namespace
}  // namespace ebb::train
