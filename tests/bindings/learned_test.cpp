#include "bindings/cli/train/learned.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "bindings/cli/train/run.h"
#include "kernels/cpu/cpu_kernels.h"
#include "tests/support/tiny_request.h"

namespace ebb::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(LearnedTest, ContinuesTheUnseenTextAndSaysHowWellItPredictsIt) {
  const config::RunConfig config = test::tiny_request();
  std::string text;
  for (int i = 0; i < 500; ++i) text += "verse " + std::to_string(i) + "\n";
  const train::TextData data("text", text, 32, 256);
  cli::Run run(config, {}, &data);
  const Learned learned = look_at_learned(run.model(), data, config);
  EXPECT_NEAR(learned.validation_loss.value(), 5.5, 0.5);  // ln 256
  EXPECT_FALSE(learned.text.empty());
  EXPECT_THAT(text, HasSubstr(learned.prompt));
  EXPECT_EQ(learned.why_not, "");
  EXPECT_EQ(look_at_learned(run.model(), data, config).text, learned.text);
}

TEST(LearnedTest, ADeviceWithoutRoomIsAnAnswer) {
  const config::RunConfig config = test::tiny_request({{"batch", "512"}});
  const train::TextData data("text", std::string(40000, 'a'), 32, 256);
  device::SimOptions options;
  options.profile = config.profile;
  options.limit_bytes = std::size_t{1} << 20;
  const auto device = device::make_sim_device(options, cpu_kernels());
  const nn::Gpt2 model(*device, config.model, 1);
  const Learned learned = look_at_learned(model, data, config);
  EXPECT_NE(learned.why_not, "");
  EXPECT_THAT(to_text(learned), HasSubstr("no text was sampled"));
}

TEST(LearnedTest, NeedsNoMoreThanTheTrainingOfATinyModelDid) {
  const config::RunConfig config = test::tiny_request({{"batch", "1"}, {"seq", "8"}});
  const train::TextData data("text", std::string(4000, 'a'), 8, 256);
  RunSetup setup;
  setup.dry = true;
  cli::Run dry(config, setup, nullptr);
  dry.step();
  setup.dry = false;
  setup.device_limit_bytes = dry.device().memory().figures().peak_reserved_bytes;
  cli::Run run(config, setup, &data);
  run.step();
  EXPECT_EQ(look_at_learned(run.model(), data, config).why_not, "");
}

TEST(LearnedTest, PrintsNothingThatUpsetsATerminal) {
  const std::string text = to_text(
      {.validation_loss = 1.5, .prompt = "In the", .text = "\x1b[2J", .why_not = ""});
  EXPECT_THAT(text, HasSubstr("validation loss 1.5000"));
  EXPECT_THAT(text, HasSubstr("after \"In the\""));
  EXPECT_THAT(text, Not(HasSubstr("\x1b")));
}

}  // namespace
}  // namespace ebb::cli
