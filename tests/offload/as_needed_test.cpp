// Segments that are recomputed as needed, on the real tape and with the real engine: what
// there is no host memory for is made again, and nothing else.

#include <memory>
#include <tuple>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "allocator/error.h"
#include "allocator/pinned_pool.h"
#include "offload/engine/engine.h"
#include "offload/store/host/host_store.h"
#include "runtime/autograd/autograd.h"
#include "runtime/autograd/ops/ops.h"
#include "tests/support/sim_devices.h"
#include "tests/support/sim_orders.h"
#include "tests/support/tensors.h"

namespace ebb::offload {
namespace {

using namespace test;
using autograd::Recompute;
using Floats = std::vector<float>;

constexpr int kLayers = 6;
constexpr std::int64_t kRows = 64;
constexpr std::int64_t kWidth = 32;  // A boundary is 8 KiB; a layer saves about 72 KiB.

struct Room {
  std::size_t host_bytes = std::size_t{4} << 20;
  std::optional<std::size_t> device_bytes = std::nullopt;
};

// Layers that share their weights, in segments or not.
class Job {
 public:
  Job(const device::SimOptions& options, const std::optional<Room>& room)
      : device_(checked(options)) {
    set_cpu_threads(1);
    w1_ = random_parameter(*device_, {4 * kWidth, kWidth}, 2);
    w2_ = random_parameter(*device_, {kWidth, 4 * kWidth}, 3);
    x_ = random_leaf(*device_, {kRows, kWidth}, 1, Purpose::kParameters);
    lent_ = device_->memory().figures().lent.total();
    if (!room) return;
    pool_ = std::make_unique<PinnedPool>(device_->host_memory(), room->host_bytes);
    pool_->reserve(room->host_bytes);
    link_ = std::make_unique<transfer::Link>(*device_);
    store_ = std::make_unique<HostStore>(*link_, *pool_);
    engine_ =
        std::make_unique<Engine>(*device_, *store_,
                                 EngineOptions{.policy = Policy::kSaved,
                                               .min_offload_bytes = std::size_t{1024},
                                               .device_budget_bytes = room->device_bytes});
  }
  ~Job() {
    finish();
    EXPECT_EQ(device_->memory().figures().lent.total(), lent_);
    EXPECT_EQ(device_->order().violations, 0U);
    if (!engine_) return;
    pool_->collect();
    EXPECT_EQ(pool_->stats().lent_bytes, 0U);
    EXPECT_EQ(engine_->books().blocks, 0U);
    EXPECT_EQ(engine_->books().held_bytes, 0U);
  }

  // Forward and backward; the gradients of all three.
  std::vector<Floats> step(std::uint32_t number, bool segments) {
    {
      const autograd::HooksScope hooks(engine_.get());
      autograd::set_random({.seed = 5, .step = number});
      const autograd::Segment layer = [this](std::span<const Tensor> in) {
        Tensor h = autograd::linear_gelu(in[0], w1_, {});
        h = autograd::linear(h, w2_, {});
        return std::vector<Tensor>{autograd::dropout_add(h, in[0], 0.1F)};
      };
      Tensor h = autograd::scale(x_, 0.5F);
      for (int i = 0; i < kLayers; ++i) {
        const autograd::StageScope stage(i);
        const Tensor inputs[] = {std::exchange(h, {})};
        h = (segments ? autograd::checkpoint(layer, inputs, Recompute::kAsNeeded)
                      : layer(inputs))
                .front();
      }
      const Tensor loss = autograd::sum(std::exchange(h, {}));
      autograd::backward(loss);
    }
    std::vector<Floats> values;
    const bool dry = device_->capability().dry;
    for (const Tensor& leaf : {x_, w1_, w2_}) {
      if (!dry) values.push_back(values_of(autograd::gradient(leaf)));
    }
    forget();
    finish();
    return values;
  }
  // After an exception.
  void forget() {
    for (const Tensor& leaf : {x_, w1_, w2_}) autograd::set_gradient(leaf, {});
  }

  EngineFigures figures() const { return engine_->figures(); }
  auto costs() const {
    const device::MemoryFigures memory = device_->memory().figures();
    const EngineFigures f = engine_->figures();
    return std::tuple(device_->now(), memory.peak_bytes, memory.peak_activation_bytes,
                      pool_->stats().peak_requested_bytes, f.d2h_bytes, f.h2d_bytes,
                      f.revived_bytes, f.kept_bytes, f.shared_bytes, f.recomputed_bytes);
  }

 private:
  void finish() {
    device_->synchronize();
    if (engine_) engine_->end_step();
  }

  std::unique_ptr<device::CheckDevice> device_;
  std::unique_ptr<PinnedPool> pool_;
  std::unique_ptr<transfer::Link> link_;
  std::unique_ptr<HostStore> store_;
  std::unique_ptr<Engine> engine_;
  Tensor x_;
  Tensor w1_;
  Tensor w2_;
  std::size_t lent_ = 0;
};

TEST(AsNeededTest, SegmentsCostNothingWhereTheStoreHasRoom) {
  const auto costs = [](bool segments) {
    device::SimOptions options = sim_options();
    options.dry = true;
    Job job(options, Room{});
    for (std::uint32_t step = 0; step < 3; ++step) job.step(step, segments);
    EXPECT_EQ(job.figures().recomputed_bytes, 0U);
    EXPECT_GT(job.figures().d2h_bytes, 0U);
    return job.costs();
  };
  EXPECT_EQ(costs(true), costs(false));
}

class AsNeededOrderTest : public testing::TestWithParam<device::Order> {};

INSTANTIATE_TEST_SUITE_P(Orders, AsNeededOrderTest, testing::ValuesIn(twenty_four_orders()),
                         [](const auto& order) { return order_name(order.param); });

TEST_P(AsNeededOrderTest, WhatTheHostHasNoRoomForIsMadeAgainWithTheSameBits) {
  const device::SimOptions options = sim_options(GetParam());
  std::vector<std::vector<Floats>> expected;
  {
    Job plain(options, std::nullopt);
    for (std::uint32_t step = 0; step < 2; ++step) {
      expected.push_back(plain.step(step, false));
    }
  }
  // Boundaries cannot be made again: where not even they have room, a step is refused.
  int recomputed = 0;
  for (const std::size_t host_kib : {500U, 400U, 300U, 200U, 100U, 60U}) {
    for (const std::size_t device_kib : {0U, 400U, 500U, 600U}) {
      Job job(options, Room{host_kib << 10, device_kib << 10});
      bool refused = false;
      for (std::uint32_t step = 0; step < 2; ++step) {
        try {
          EXPECT_EQ(job.step(step, true), expected[step]) << host_kib << " KiB";
        } catch (const Error& error) {
          EXPECT_EQ(error.code(), absl::StatusCode::kResourceExhausted) << error.what();
          refused = true;
          job.forget();
        }
      }
      const bool some = job.figures().no_room_recomputed_bytes > 0;
      recomputed += some && !refused ? 1 : 0;
    }
  }
  EXPECT_GE(recomputed, 16);
}

TEST_P(AsNeededOrderTest, ARefusalInTheMiddleOfASegmentLeavesNothingBehind) {
  // Not even the boundaries have room.
  Job job(sim_options(GetParam()),
          Room{.host_bytes = std::size_t{24} << 10, .device_bytes = std::size_t{0}});
  for (std::uint32_t step = 0; step < 3; ++step) {
    try {
      job.step(step, true);
      ADD_FAILURE() << "there is no room";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), absl::StatusCode::kResourceExhausted);
    }
    job.forget();
  }
}

}  // namespace
}  // namespace ebb::offload
