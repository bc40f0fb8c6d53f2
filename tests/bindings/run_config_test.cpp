#include "bindings/config/run_config.h"

#include <cstdlib>
#include <initializer_list>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/errors.h"
#include "tests/support/temp_folder.h"

namespace ebb::config {
namespace {

using test::refuses;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using Flags = std::initializer_list<std::pair<std::string, std::string>>;

RunConfig config(Flags flags, int cores = 2) {
  Settings settings;
  for (const auto& [flag, value] : flags) settings[flag] = {"--" + flag, value};
  return make_run_config(settings, cores);
}

TEST(RunConfigTest, HasTheDefaultsOfTheCommandLine) {
  const RunConfig run = config({}, 3);
  EXPECT_EQ(run.model_name, "gpt2-nano");
  EXPECT_EQ(run.model.layers, 12);
  EXPECT_EQ(run.model.heads, 6);
  EXPECT_EQ(run.model.hidden, 384);
  EXPECT_EQ(run.model.vocabulary, 256);
  EXPECT_EQ(run.model.positions, 1024);
  EXPECT_FLOAT_EQ(run.model.dropout, 0.1F);
  EXPECT_EQ(run.steps, 100);
  EXPECT_EQ(run.batch, 8);
  EXPECT_EQ(run.seq, 256);
  EXPECT_EQ(run.accumulate, 1);
  EXPECT_DOUBLE_EQ(run.learning_rate, 6e-4);
  EXPECT_EQ(run.seed, 1U);
  EXPECT_EQ(run.threads, 3);
  EXPECT_EQ(run.device, "sim:a100-pcie4");
  EXPECT_FALSE(run.device_budget_bytes.has_value());
  EXPECT_EQ(run.checkpoint.text(), "none");
  EXPECT_EQ(run.offload, OffloadPolicy::kNone);
  EXPECT_EQ(run.order.kind, device::Order::Kind::kTime);
  EXPECT_THAT(run.notes(), IsEmpty());
}

TEST(RunConfigTest, TakesEveryFlag) {
  const RunConfig run = config({{"model", "gpt2"},
                                {"layers", "2"},
                                {"hidden", "64"},
                                {"heads", "4"},
                                {"vocab", "300"},
                                {"dropout", "0"},
                                {"data", "a.txt"},
                                {"steps", "7"},
                                {"batch", "3"},
                                {"seq", "32"},
                                {"accumulate", "2"},
                                {"lr", "1e-3"},
                                {"seed", "9"},
                                {"threads", "1"},
                                {"dtype", "f32"},
                                {"device", "sim:t4-pcie3"},
                                {"device-budget", "1GiB"},
                                {"host-budget", "2GiB"},
                                {"node-host-budget", "1GiB"},
                                {"min-offload-bytes", "0"},
                                {"checkpoint", "layers:0,1"},
                                {"offload", "inputs"},
                                {"order", "fuzz:5"},
                                {"check", "true"},
                                {"verify-gradients", "true"},
                                {"verify-recompute", "2"},
                                {"report", "r.json"},
                                {"json", "true"}});
  EXPECT_EQ(run.model.layers, 2);
  EXPECT_EQ(run.model.hidden, 64);
  EXPECT_EQ(run.model.heads, 4);
  EXPECT_EQ(run.model.vocabulary, 300);
  EXPECT_EQ(run.model.dropout, 0);
  EXPECT_EQ(run.data, "a.txt");
  EXPECT_EQ(run.steps, 7);
  EXPECT_EQ(run.batch, 3);
  EXPECT_EQ(run.seq, 32);
  EXPECT_EQ(run.accumulate, 2);
  EXPECT_EQ(run.learning_rate, 1e-3);
  EXPECT_EQ(run.seed, 9U);
  EXPECT_EQ(run.threads, 1);
  EXPECT_EQ(run.profile.name, "t4-pcie3");
  EXPECT_EQ(run.device_budget_bytes, std::size_t{1} << 30);
  EXPECT_EQ(run.host_budget_bytes, std::size_t{1} << 30);  // The node's is the less.
  EXPECT_EQ(run.min_offload_bytes, 0U);
  EXPECT_EQ(run.segments().size(), 2U);
  EXPECT_EQ(run.offload, OffloadPolicy::kInputs);
  EXPECT_EQ(run.order.kind, device::Order::Kind::kFuzz);
  EXPECT_EQ(run.order.seed, 5U);
  EXPECT_TRUE(run.check);
  EXPECT_TRUE(run.verify_gradients);
  EXPECT_EQ(run.verify_recompute, 2);
  EXPECT_EQ(run.report, "r.json");
  EXPECT_TRUE(run.json);
  EXPECT_FALSE(run.dry);
}

TEST(RunConfigTest, TellsTheTwoHostBudgetsApart) {
  const RunConfig node = config({{"host-budget", "2GiB"}, {"node-host-budget", "1GiB"}});
  EXPECT_EQ(node.host_budget_flag, "--node-host-budget");
  EXPECT_EQ(to_json(node)["host-budget"], std::size_t{1} << 30);
  EXPECT_EQ(to_json(node)["node-host-budget"], std::size_t{1} << 30);
  const RunConfig own = config({{"host-budget", "1GiB"}, {"node-host-budget", "2GiB"}});
  EXPECT_EQ(own.host_budget_flag, "--host-budget");
  EXPECT_EQ(own.host_budget_bytes, std::size_t{1} << 30);
  EXPECT_EQ(to_json(own)["node-host-budget"], std::size_t{2} << 30);
  EXPECT_TRUE(to_json(config({}))["node-host-budget"].is_null());
}

TEST(RunConfigTest, GivesALongSequenceAsManyPositions) {
  EXPECT_EQ(config({{"model", "gpt2"}, {"seq", "8192"}}).model.positions, 8192);
  EXPECT_EQ(config({{"model", "gpt2"}, {"seq", "8"}}).model.positions, 1024);
}

TEST(RunConfigTest, TakesAutoAsTheCapacityLessAMargin) {
  const RunConfig run = config({{"device-budget", "auto"}});
  ASSERT_TRUE(run.device_budget_bytes.has_value());
  EXPECT_LT(*run.device_budget_bytes, *run.profile.capacity_bytes);
  EXPECT_GT(*run.device_budget_bytes, *run.profile.capacity_bytes / 10 * 9);
  EXPECT_FALSE(
      config({{"device", "sim:free"}, {"device-budget", "auto"}}).device_budget_bytes);
}

TEST(RunConfigTest, ListsWhatThisReleaseHas) {
  EXPECT_THAT([] { config({{"model", "gpt5"}}); }, refuses("gpt2-nano, gpt2, gpt2-medium"));
  EXPECT_THAT([] { config({{"device", "cuda"}}); }, refuses("this release has: sim"));
  EXPECT_THAT([] { config({{"device", "sim:a1000"}}); }, refuses("a100-pcie4"));
  EXPECT_THAT([] { config({{"offload", "plan"}}); }, refuses("none, inputs, saved"));
  EXPECT_THAT([] { config({{"checkpoint", "plan"}}); }, refuses("every:K"));
  EXPECT_THAT([] { config({{"dtype", "bf16"}}); }, refuses("this release has: f32"));
  EXPECT_THAT([] { config({{"zero", "2"}}); }, refuses("this release has: 0"));
  EXPECT_THAT([] { config({{"compress", "fp8"}}); }, refuses("this release has: none"));
  EXPECT_THAT([] { config({{"order", "random"}}); }, refuses("eager, time, fuzz:SEED"));
}

TEST(RunConfigTest, SaysWhatIsWrongWithAShape) {
  EXPECT_THAT(
      [] {
        config({{"heads", "5"}});
      },
      refuses("--hidden 384 is not a multiple of --heads 5; --hidden 385 would be"));
  EXPECT_THAT([] { config({{"layers", "0"}}); }, refuses("--layers"));
  EXPECT_THAT([] { config({{"checkpoint", "layers:12"}}); }, refuses("no layer 12"));
  EXPECT_THAT(
      [] {
        config({{"batch", "1000000"}, {"seq", "60000"}, {"vocab", "1000000"}});
      },
      refuses("10^15 bytes"));
  EXPECT_THAT(
      [] {
        config({{"hidden", "1000000"}, {"heads", "1"}, {"layers", "10000"}});
      },
      refuses("10^15 bytes"));
}

TEST(RunConfigTest, RefusesWhatContradictsItself) {
  EXPECT_THAT([] { config({{"offload", "inputs"}}); }, refuses("add --checkpoint every:1"));
  EXPECT_THAT(
      [] {
        config({{"dry", "true"}, {"verify-gradients", "true"}});
      },
      refuses("--dry computes nothing that --verify-gradients could compare"));
  EXPECT_THAT(
      [] {
        config({{"dry", "true"}, {"verify-recompute", "1"}, {"checkpoint", "sqrt"}});
      },
      refuses("--verify-recompute"));
  EXPECT_THAT(
      [] {
        config({{"verify-recompute", "1"}});
      },
      refuses("add --checkpoint every:1"));
}

TEST(RunConfigTest, DoesNotOverwriteWhatItReads) {
  const test::TempFolder folder;
  folder.write("text", "some text");
  const std::string text = folder.path("text");
  EXPECT_THAT(
      [&] {
        config({{"data", text}, {"report", text}});
      },
      refuses("is the file that --data reads"));
}

TEST(RunConfigTest, CarriesOutWhatIsUnusualAndSaysSo) {
  EXPECT_THAT(config({{"checkpoint", "every:50"}}).notes(),
              ElementsAre(AllOf(Field(&Note::code, "one_segment"),
                                Field(&Note::message, HasSubstr("all 12 layers")))));
  EXPECT_THAT(config({{"min-offload-bytes", "1MiB"}}).notes(),
              ElementsAre(AllOf(Field(&Note::code, "no_effect"),
                                Field(&Note::message, HasSubstr("--offload is none")))));
}

TEST(RunConfigTest, SoaksWithTheEngineAtWorkUnlessToldOtherwise) {
  const RunConfig run = config({{"stress", "true"}});
  EXPECT_TRUE(run.stress);
  EXPECT_EQ(run.steps, 2000);
  EXPECT_EQ(run.offload, OffloadPolicy::kSaved);
  EXPECT_EQ(config({{"stress", "true"}, {"offload", "inputs"}, {"steps", "5"}}).offload,
            OffloadPolicy::kInputs);
  EXPECT_EQ(config({{"stress", "true"}, {"steps", "5"}}).steps, 5);
}

TEST(RunConfigTest, RefusesWhatASoakHasNoUseFor) {
  for (const char* flag : {"model", "layers", "data", "batch", "checkpoint", "dry",
                           "verify-gradients", "verify-recompute"}) {
    EXPECT_THAT(([&] {
                  config({{"stress", "true"}, {flag, "1"}});
                }),
                test::refuses("--stress", std::string("leave --") + flag + " out"));
  }
  EXPECT_THAT(([] {
                config({{"stress", "true"}, {"offload", "none"}});
              }),
              test::refuses("--offload inputs or saved"));
}

TEST(RunConfigTest, WritesEverySettingIntoTheReport) {
  const auto json = to_json(config({{"checkpoint", "sqrt"}, {"offload", "saved"}}));
  EXPECT_EQ(json["model"], "gpt2-nano");
  EXPECT_EQ(json["checkpoint"], "sqrt");
  EXPECT_EQ(json["offload"], "saved");
  EXPECT_TRUE(json["device-budget"].is_null());
  EXPECT_EQ(json["positions"], 1024);
  EXPECT_EQ(json["threads"], 2);
}

}  // namespace
}  // namespace ebb::config
