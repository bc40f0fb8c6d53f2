#include "bindings/cli/train/run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "bindings/cli/environment.h"
#include "tests/support/tiny_request.h"

namespace ebb::cli {
namespace {

using ::testing::IsEmpty;
using ::testing::Not;

class RunTest : public ::testing::Test {
 protected:
  train::TextData data_ = train::TextData::load(shipped_text(), 32, 256);
};

TEST_F(RunTest, TrainsTheSameDryAndRealInBytesAndVirtualTime) {
  const config::RunConfig config = test::tiny_request(
      {{"checkpoint", "every:1"}, {"offload", "inputs"}, {"check", "true"}});
  const RunSetup real{.dry = false,
                      .device_limit_bytes = std::size_t{64} << 20,
                      .host_reserve_bytes = 1 << 20,
                      .record = true};
  RunSetup dry = real;
  dry.dry = true;
  cli::Run a(config, real, &data_);
  cli::Run b(config, dry, nullptr);
  for (int step = 0; step < 3; ++step) {
    EXPECT_TRUE(a.step().loss.has_value());
    EXPECT_FALSE(b.step().loss.has_value());
    EXPECT_THAT(a.last_sent(), Not(IsEmpty()));
  }
  EXPECT_EQ(a.recorder()->figures().step.step, b.recorder()->figures().step.step);
  EXPECT_EQ(a.device().memory().figures().peak_bytes,
            b.device().memory().figures().peak_bytes);
  EXPECT_EQ(a.engine().figures().d2h_bytes, b.engine().figures().d2h_bytes);
  EXPECT_EQ(a.pin_calls_in_steps(), 0U);
  EXPECT_EQ(a.check()->order().violations, 0U);
  EXPECT_GT(a.check()->order().accesses, 0U);
}

TEST_F(RunTest, HasACheckerAVerifierAndARecorderOnlyWhereAskedFor) {
  cli::Run plain(test::tiny_request(), {}, &data_);
  EXPECT_EQ(plain.check(), nullptr);
  EXPECT_EQ(plain.verifier(), nullptr);
  EXPECT_EQ(plain.recorder(), nullptr);
  EXPECT_FALSE(plain.device().capability().dry);
}

TEST_F(RunTest, VerifiesGradientsAgainstAPlainRun) {
  const config::RunConfig config = test::tiny_request({{"checkpoint", "sqrt"},
                                                       {"offload", "saved"},
                                                       {"accumulate", "2"},
                                                       {"verify-recompute", "1"},
                                                       {"verify-gradients", "true"}});
  cli::Run run(config,
               {.dry = false, .device_limit_bytes = {}, .host_reserve_bytes = 4 << 20},
               &data_);
  run.step();
  run.step();
  EXPECT_EQ(run.verifier()->figures().steps, 2);
  EXPECT_TRUE(run.verifier()->figures().bit_equal);
}

}  // namespace
}  // namespace ebb::cli
