#include "runtime/autograd/checkpoint/recompute_check.h"

#include <functional>
#include <limits>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "allocator/error.h"
#include "runtime/autograd/autograd.h"
#include "runtime/autograd/ops/ops.h"
#include "runtime/tensor/launch.h"
#include "tests/support/host_hooks.h"
#include "tests/support/sim_devices.h"
#include "tests/support/sim_orders.h"
#include "tests/support/tensors.h"

namespace ebb::autograd {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class RecomputeCheckTest : public testing::Test {
 protected:
  ~RecomputeCheckTest() override { set_verify_recompute(0); }

  // The text of the error, of this code, that `call` and what it queued end with; empty:
  // none.
  std::string failure(absl::StatusCode code, const std::function<void()>& call,
                      device::Device& device) {
    try {
      call();
      device.synchronize();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), code) << error.what();
      return error.what();
    }
    return "";
  }
  std::string differs(const std::function<void()>& call) {
    return failure(absl::StatusCode::kDataLoss, call, *device_);
  }
  std::string runs_otherwise(const std::function<void()>& call) {
    return failure(absl::StatusCode::kFailedPrecondition, call, *device_);
  }

  std::unique_ptr<device::CheckDevice> device_ = test::checked_sim();
};

// An op whose n-th run gives n times its input, in two outputs: the first is right always.
class Drifting final : public Function {
 public:
  const char* name() const noexcept override { return "drifting"; }
  std::vector<Tensor> forward(Saved&, std::span<const Tensor> in) override {
    return {scale(in[0], 2), scale(in[0], static_cast<float>(++runs_))};
  }
  std::vector<Tensor> backward(Saved&, std::span<const Tensor> g) override {
    return {scale(g[1], 1)};
  }

 private:
  int runs_ = 0;
};

// gelu, drifting, gelu, gelu; nothing saves what drifting makes.
Segment drifting(const std::shared_ptr<Function>& function) {
  return [function](std::span<const Tensor> in) {
    Tensor h = gelu(in[0]);
    {
      const StageScope stage(3);
      const Tensor inputs[] = {h};
      const std::vector<Tensor> both = autograd::apply(function, inputs);
      h = add(both[0], both[1]);
    }
    return std::vector<Tensor>{gelu(gelu(h))};
  };
}

TEST_F(RecomputeCheckTest, NamesTheFirstOutputThatDiffersAndItsOpAndLayer) {
  const Tensor x = test::random_leaf(*device_, {4}, 1);
  const Tensor inputs[] = {x};
  set_verify_recompute(1);
  const std::string what = differs([&] {
    backward(sum(checkpoint(drifting(std::make_shared<Drifting>()), inputs).front()));
  });
  EXPECT_THAT(what, HasSubstr("output 1 of drifting (layer 3)"));
  EXPECT_THAT(what, testing::ContainsRegex("checksum [0-9a-f]{16} for [0-9a-f]{16};"));
  EXPECT_THAT(what, HasSubstr("next_random()"));
}

TEST_F(RecomputeCheckTest, SaysNothingOfSegmentsThatAreSteadyOrNotLookedAt) {
  const Tensor x = test::random_leaf(*device_, {4}, 1);
  const Tensor inputs[] = {x};
  const Segment steady = [](std::span<const Tensor> in) {
    return std::vector<Tensor>{gelu(dropout_add(gelu(in[0]), in[0], 0.5F))};
  };
  set_verify_recompute(1);
  EXPECT_EQ(differs([&] { backward(sum(checkpoint(steady, inputs).front())); }), "");
  set_verify_recompute(0);
  EXPECT_EQ(
      differs([&] {
        backward(sum(checkpoint(drifting(std::make_shared<Drifting>()), inputs).front()));
      }),
      "");
}

TEST_F(RecomputeCheckTest, LooksAtEveryNth) {
  // The input, gelu, drifting's two, add, gelu: every third is the input and drifting's
  // second; every fourth the input and add's.
  for (const auto& [every, named] :
       {std::pair(3, "output 1 of drifting"), std::pair(4, "output 0 of add")}) {
    const auto device = test::checked_sim();
    const Tensor own = test::random_leaf(*device, {4}, 1);
    const Tensor in[] = {own};
    set_verify_recompute(every);
    EXPECT_THAT(
        failure(
            absl::StatusCode::kDataLoss,
            [&] {
              backward(sum(checkpoint(drifting(std::make_shared<Drifting>()), in).front()));
            },
            *device),
        HasSubstr(named))
        << every;
  }
}

TEST_F(RecomputeCheckTest, ComparesBitsAndTheirPlace) {
  // Each run gives the other order of two numbers; then NaN, which equals itself.
  class Swaps final : public Function {
   public:
    explicit Swaps(float first) : first_(first) {}
    const char* name() const noexcept override { return "swaps"; }
    std::vector<Tensor> forward(Saved& saved, std::span<const Tensor> in) override {
      saved.save(in);
      device::Device& device = in[0].device();
      const bool swapped = runs_++ % 2 == 1;
      return {test::tensor_of(
          device, {2},
          swapped ? std::vector<float>{2, first_} : std::vector<float>{first_, 2})};
    }
    std::vector<Tensor> backward(Saved& saved, std::span<const Tensor> g) override {
      return {multiply(g[0], saved.saved().front())};
    }

   private:
    const float first_;
    int runs_ = 0;
  };
  const Tensor x = test::random_leaf(*device_, {2}, 1);
  const Tensor inputs[] = {x};
  set_verify_recompute(1);
  const auto run = [&](float first) {
    const auto function = std::make_shared<Swaps>(first);
    const Segment segment = [function](std::span<const Tensor> in) {
      return std::vector<Tensor>{gelu(autograd::apply(function, in).front())};
    };
    return differs([&] { backward(sum(checkpoint(segment, inputs).front())); });
  };
  EXPECT_EQ(run(2), "");
  const Segment nan = [](std::span<const Tensor> in) {
    const float none = std::numeric_limits<float>::quiet_NaN();
    return std::vector<Tensor>{gelu(scale(in[0], none))};
  };
  EXPECT_EQ(differs([&] { backward(sum(checkpoint(nan, inputs).front())); }), "");
  EXPECT_THAT(run(3), HasSubstr("output 0 of swaps"));
}

TEST_F(RecomputeCheckTest, SeesInputsThatComeBackChanged) {
  // Hooks that bring something else back.
  class Wrong final : public SavedTensorHooks {
   public:
    class Packed final : public PackedTensor {
     public:
      explicit Packed(Tensor tensor) : tensor_(std::move(tensor)) {}
      Tensor unpack() override {
        const NoGrad no_grad;
        return scale(tensor_, 3);
      }
      void used() noexcept override {}

     private:
      Tensor tensor_;
    };
    PackResult pack(const Tensor& tensor, const SaveSite&) override {
      return std::make_unique<Packed>(tensor);
    }
    void begin_backward(std::span<PackedTensor* const>) override {}
    void end_backward() noexcept override {}
  };
  Wrong hooks;
  const HooksScope scope(&hooks);
  const Tensor x = test::random_leaf(*device_, {4}, 1);
  const Tensor inputs[] = {x};
  const Segment two = [](std::span<const Tensor> in) {
    return std::vector<Tensor>{gelu(gelu(in[0]))};
  };
  set_verify_recompute(1);
  const StageScope stage(5);
  EXPECT_THAT(differs([&] { backward(sum(checkpoint(two, inputs).front())); }),
              HasSubstr("input 0 of the segment (layer 5)"));
}

TEST_F(RecomputeCheckTest, NamesOpsThatAreOthersTheSecondTime) {
  const Tensor x = test::random_leaf(*device_, {4}, 1);
  const Tensor inputs[] = {x};
  set_verify_recompute(1);
  // The same tensors are saved; only what makes them is not the same.
  const Segment other = [](std::span<const Tensor> in) {
    const StageScope stage(2);
    const Tensor h = recomputing() ? scale(in[0], 2) : add(in[0], in[0]);
    return std::vector<Tensor>{gelu(h)};
  };
  EXPECT_THAT(runs_otherwise([&] { backward(sum(checkpoint(other, inputs).front())); }),
              AllOf(HasSubstr("output 0 of add (layer 2)"),
                    HasSubstr("output 0 of scale (layer 2)")));
  const Segment more = [](std::span<const Tensor> in) {
    Tensor h = gelu(in[0]);
    if (recomputing()) h = scale(scale(scale(h, 1), 1), 1);
    return std::vector<Tensor>{gelu(h)};
  };
  EXPECT_THAT(runs_otherwise([&] { backward(sum(checkpoint(more, inputs).front())); }),
              HasSubstr("scale"));
}

TEST_F(RecomputeCheckTest, ChangesNeitherTheClockNorAByte) {
  const auto figures = [](int every) {
    const auto device = test::checked_sim();
    set_verify_recompute(every);
    const Tensor x = test::random_leaf(*device, {4}, 1);
    const Tensor inputs[] = {x};
    const Segment segment = [](std::span<const Tensor> in) {
      return std::vector<Tensor>{gelu(scale(in[0], 2))};
    };
    backward(sum(checkpoint(segment, inputs).front()));
    device->synchronize();
    return std::pair(device->now(), device->memory().figures().peak_bytes);
  };
  EXPECT_EQ(figures(1), figures(0));
}

TEST_F(RecomputeCheckTest, ComparesNothingOnADryDevice) {
  const auto dry = test::dry_sim();
  set_verify_recompute(1);
  const Tensor x = Tensor::empty(*dry, {4}, DType::kF32);
  set_requires_grad(x, true);
  const Tensor inputs[] = {x};
  backward(sum(checkpoint(drifting(std::make_shared<Drifting>()), inputs).front()));
  EXPECT_NO_THROW(dry->synchronize());
}

// Segments in segments, of both kinds: what is compared is the same op always.
TEST_F(RecomputeCheckTest, FollowsNestedSegments) {
  test::HostHooks hooks(test::HostHooks::remake);
  for (const Recompute outer : {Recompute::kAlways, Recompute::kAsNeeded}) {
    for (const Recompute inner : {Recompute::kAlways, Recompute::kAsNeeded}) {
      for (const bool steady : {true, false}) {
        const auto device = test::checked_sim();
        const HooksScope scope(&hooks);
        const Tensor x = test::random_leaf(*device, {4}, 1);
        const Tensor inputs[] = {x};
        set_verify_recompute(1);
        const auto function = std::make_shared<Drifting>();
        const Segment nested = [&, function](std::span<const Tensor> in) {
          const Tensor h[] = {gelu(scale(in[0], 2))};
          const Segment steps = [](std::span<const Tensor> at) {
            return std::vector<Tensor>{gelu(gelu(scale(at[0], 1)))};
          };
          Tensor y = checkpoint(steady ? steps : drifting(function), h, inner).front();
          return std::vector<Tensor>{gelu(gelu(y))};
        };
        const std::string what = failure(
            absl::StatusCode::kDataLoss,
            [&] { backward(sum(checkpoint(nested, inputs, outer).front())); }, *device);
        if (steady) {
          EXPECT_EQ(what, "");
        } else {
          EXPECT_THAT(what, HasSubstr("drifting (layer 3)"));
        }
      }
    }
  }
}

TEST_F(RecomputeCheckTest, FindsTheSameOpInEveryOrderOfWork) {
  for (const device::Order& order : test::twenty_four_orders()) {
    const auto device = test::checked_sim(order);
    const Tensor x = test::random_leaf(*device, {4}, 1);
    const Tensor inputs[] = {x};
    set_verify_recompute(1);
    EXPECT_THAT(failure(
                    absl::StatusCode::kDataLoss,
                    [&] {
                      const auto function = std::make_shared<Drifting>();
                      backward(sum(checkpoint(drifting(function), inputs).front()));
                    },
                    *device),
                HasSubstr("output 1 of drifting (layer 3)"))
        << test::order_name(order);
  }
}

}  // namespace
}  // namespace ebb::autograd
