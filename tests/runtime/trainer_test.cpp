#include "runtime/train/trainer.h"

#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/errors.h"
#include "tests/support/tensors.h"
#include "tests/support/tiny_training.h"

namespace ebb::train {
namespace {

using test::fails_with;

struct Trained {
  std::vector<double> loss;
  std::vector<std::uint64_t> checksum;
};

Trained train(const TrainOptions& options, int steps, const device::Order& order = {},
              const nn::Gpt2Config& config = test::tiny_model()) {
  test::TinyTraining tiny(test::checked_sim(order), config);
  const auto trainer = tiny.trainer(options);
  Trained result;
  for (int step = 0; step < steps; ++step) {
    const StepResult done = trainer->step();
    EXPECT_EQ(done.step, step);
    result.loss.push_back(done.loss.value());
    result.checksum.push_back(done.checksum.value());
    EXPECT_TRUE(done.border.done());
  }
  return result;
}

TEST(TrainerTest, LearnsATextByHeart) {
  nn::Gpt2Config config = test::tiny_model();
  config.dropout = 0;
  TrainOptions options = test::tiny_options();
  options.batch = 8;
  options.schedule = Schedule::over(60, 1e-2);
  const Trained trained = train(options, 60, {}, config);
  EXPECT_NEAR(trained.loss.front(), 4.85, 0.3);  // ln 128: it knows nothing.
  EXPECT_LT(trained.loss.back(), 2.5);
}

TEST(TrainerTest, GivesTheSameBitsInEveryOrderOfWork) {
  const Trained expected = train(test::tiny_options(), 3);
  for (const device::Order& order : test::all_orders()) {
    const Trained trained = train(test::tiny_options(), 3, order);
    EXPECT_EQ(trained.loss, expected.loss) << test::order_name(order);
    EXPECT_EQ(trained.checksum, expected.checksum) << test::order_name(order);
  }
}

TEST(TrainerTest, RecomputingChangesNoBit) {
  const Trained expected = train(test::tiny_options(), 3);
  TrainOptions options = test::tiny_options();
  options.segments = {{0, 0}, {1, 1}};
  const Trained trained = train(options, 3);
  EXPECT_EQ(trained.loss, expected.loss);
  EXPECT_EQ(trained.checksum, expected.checksum);
}

// A kernel that rounds otherwise every time it runs is found, in every order of work.
TEST(TrainerTest, VerifyingRecomputesNamesAKernelThatIsNotDeterministic) {
  static thread_local int runs = 0;
  Kernels unsteady = cpu_kernels();
  unsteady.gelu_forward = [](DType dtype, std::int64_t n, const void* x, void* y,
                             NativeQueue queue) {
    cpu_kernels().gelu_forward(dtype, n, x, y, queue);
    if (++runs % 2 == 0) *static_cast<float*>(y) += 1e-3F;
  };
  TrainOptions options = test::tiny_options();
  options.segments = {{0, 0}, {1, 1}};
  for (const device::Order& order : test::all_orders()) {
    for (const bool verify : {true, false}) {
      runs = 0;
      // Layer 0 runs it first and fourth, layer 1 second and third.
      autograd::set_verify_recompute(verify ? 1 : 0);
      test::TinyTraining tiny(device::make_check_device(
          device::make_sim_device(test::sim_options(order), unsteady)));
      const auto trainer = tiny.trainer(options);
      if (verify) {
        EXPECT_THAT([&] { trainer->step(); },
                    test::fails_with(absl::StatusCode::kDataLoss,
                                     "output 0 of gelu (layer 1)", "recomputing()"));
      } else {
        EXPECT_NO_THROW(trainer->step());
      }
      autograd::set_verify_recompute(0);
    }
  }
}

TEST(TrainerTest, AnotherSeedGivesOtherBatches) {
  TrainOptions options = test::tiny_options();
  ++options.seed;
  EXPECT_NE(train(options, 1).loss, train(test::tiny_options(), 1).loss);
}

// Samples are numbered through a step, so two micro-batches of two hold what one of four
// does; only the order of adding differs.
TEST(TrainerTest, AccumulatesTheMeanOverMicroBatches) {
  nn::Gpt2Config config = test::tiny_model();
  config.dropout = 0;
  TrainOptions whole = test::tiny_options();
  whole.batch = 4;
  TrainOptions halves = test::tiny_options();
  halves.batch = 2;
  halves.accumulate = 2;
  const Trained a = train(whole, 4, {}, config);
  const Trained b = train(halves, 4, {}, config);
  // Losses near 5, of which f32 keeps seven digits; four steps of at most 1e-2.
  for (std::size_t step = 0; step < 4; ++step) {
    EXPECT_NEAR(a.loss[step], b.loss[step], 1e-4);
  }
}

TEST(TrainerTest, EndsAStepWhenTheOptimizerHasEnded) {
  test::TinyTraining tiny(test::checked_sim());
  const auto trainer = tiny.trainer(test::tiny_options());
  const StepResult first = trainer->step();
  const StepResult second = trainer->step();
  const auto end = tiny.device->ended_at(second.border);
  ASSERT_TRUE(end.has_value());
  EXPECT_GT(*end, *tiny.device->ended_at(first.border));
  EXPECT_LE(*end, tiny.device->now());
  EXPECT_GT(first.wall_seconds, 0);
}

TEST(TrainerTest, IsTimedExactlyByADryRunThatHasNoLoss) {
  test::TinyTraining real(test::checked_sim());
  test::TinyTraining dry(test::dry_sim());
  const auto on_real = real.trainer(test::tiny_options());
  const auto on_dry = dry.trainer(test::tiny_options());
  for (int step = 0; step < 3; ++step) {
    const StepResult a = on_real->step();
    const StepResult b = on_dry->step();
    EXPECT_FALSE(b.loss.has_value());
    EXPECT_FALSE(b.checksum.has_value());
    EXPECT_EQ(real.device->ended_at(a.border), dry.device->ended_at(b.border));
  }
  EXPECT_EQ(real.device->memory().figures().peak_bytes,
            dry.device->memory().figures().peak_bytes);
}

TEST(TrainerTest, NeedsATextUnlessItIsDry) {
  test::TinyTraining tiny(test::checked_sim());
  EXPECT_THAT(
      [&] {
        Trainer(*tiny.device, tiny.pool, tiny.model, nullptr, test::tiny_options(), nullptr,
                nullptr);
      },
      fails_with(absl::StatusCode::kInvalidArgument));
}

}  // namespace
}  // namespace ebb::train
