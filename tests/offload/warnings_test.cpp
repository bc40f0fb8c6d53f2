#include "offload/report/warnings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ebb::offload {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr std::size_t kMiB = std::size_t{1} << 20;

// A run that gained what it was asked to.
Report sound() {
  Report report;
  report.config["offload"] = "inputs";
  report.config["checkpoint"] = "every:1";
  report.time.steps = 3;
  report.device.memory.peak_bytes = 400 * kMiB;
  report.device.memory.at_peak[Purpose::kActivations] = 300 * kMiB;
  report.device.peak_without_bytes = 900 * kMiB;
  report.engine.kept_bytes = 100;
  report.engine.offloaded_bytes = report.engine.d2h_bytes = 3 * kMiB;
  return report;
}

template <typename... Texts>
auto warning(const char* code, const Texts&... texts) {
  return AllOf(Field(&Warning::code, code),
               Field(&Warning::message, AllOf(HasSubstr(std::string(texts))...)));
}

TEST(WarningsTest, HasNothingToSayOfARunThatGained) {
  EXPECT_THAT(find_warnings(sound()), IsEmpty());
}

TEST(WarningsTest, SaysLoudlyThatNothingWasOffloaded) {
  Report report = sound();
  report.engine = {};
  report.engine.kept_bytes = 100;
  EXPECT_THAT(find_warnings(report),
              ElementsAre(warning("nothing_offloaded", "of the kind", "--offload saved")));
  report.engine.kept[static_cast<std::size_t>(Kept::kSmall)] = {.tensors = 7, .bytes = 99};
  report.engine.largest_small_bytes = 64;
  EXPECT_THAT(find_warnings(report),
              ElementsAre(warning("nothing_offloaded", "all 7 tensors that may go, 99 B",
                                  "lower --min-offload-bytes to 64,")));
  report.engine.no_room_bytes = 100;
  EXPECT_THAT(
      find_warnings(report),
      ElementsAre(warning("host_full", "no room for 100 B"),
                  warning("nothing_offloaded", "no room for 100 B", "--host-budget")));
  report.engine = {};
  EXPECT_THAT(find_warnings(report),
              ElementsAre(warning("nothing_offloaded", "nothing was saved", "")));
}

TEST(WarningsTest, SaysWhatHostMemoryHadNoRoomFor) {
  Report report = sound();
  report.engine.no_room_bytes = 3 * kMiB;
  EXPECT_THAT(
      find_warnings(report),
      ElementsAre(warning("host_full", "not all was offloaded", "3 MiB", "--host-budget")));
}

TEST(WarningsTest, SaysThatTheHostWasFullOfARunThatDidNotEndToo) {
  Report report = sound();
  report.time.steps = 0;
  report.engine.no_room_bytes = kMiB;
  EXPECT_THAT(find_warnings(report), ElementsAre(warning("host_full", "1 MiB")));
}

TEST(WarningsTest, NamesTheHostBudgetThatHolds) {
  Report report = sound();
  report.engine.no_room_bytes = kMiB;
  report.host.budget_bytes = 100;
  report.config["node-host-budget"] = 200;
  EXPECT_THAT(find_warnings(report), ElementsAre(warning("host_full", "with --host-")));
  report.config["node-host-budget"] = 100;
  EXPECT_THAT(find_warnings(report), ElementsAre(warning("host_full", "with --node-host")));
}

TEST(WarningsTest, SaysWhatBecameOfWhatHostMemoryHadNoRoomFor) {
  Report report = sound();
  report.engine.no_room_bytes = kMiB;
  report.engine.no_room_recomputed_bytes = 2 * kMiB;
  EXPECT_THAT(find_warnings(report),
              ElementsAre(warning("host_full", "no room for 3 MiB", "1 MiB stayed",
                                  "2 MiB were computed again")));
}

TEST(WarningsTest, SaysLoudlyThatThePeakDidNotMoveAndWhy) {
  Report report = sound();
  report.device.memory.peak_bytes = 890 * kMiB;
  report.device.memory.at_peak[Purpose::kOptimizer] = 600 * kMiB;
  EXPECT_THAT(
      find_warnings(report),
      ElementsAre(warning("peak_unchanged", "3 MiB were moved",
                          "the peak did not move: 890 MiB, without 900 MiB",
                          "most of it is optimizer, 600 MiB of 890 MiB", "--batch")));
  report.engine.no_room_bytes = 5;
  EXPECT_THAT(find_warnings(report),
              ElementsAre(warning("host_full", "no room for 5 B"),
                          warning("peak_unchanged", "no room for 5 B", "--host-budget")));
}

TEST(WarningsTest, SaysWhatWouldLowerAPeakOfActivations) {
  Report report = sound();
  report.device.memory.peak_bytes = 900 * kMiB;
  report.config["checkpoint"] = "none";
  EXPECT_THAT(find_warnings(report),
              ElementsAre(warning("peak_unchanged", "--checkpoint every:1", "")));
  report.config["checkpoint"] = "every:4";
  EXPECT_THAT(find_warnings(report),
              ElementsAre(warning("peak_unchanged", "--accumulate", "every:1")));
}

TEST(WarningsTest, SaysThatThePeakIsHigherThanWithout) {
  Report report = sound();
  report.device.memory.peak_bytes = 901 * kMiB;
  EXPECT_THAT(find_warnings(report),
              ElementsAre(warning("peak_higher", "901 MiB, without 900 MiB")));
}

TEST(WarningsTest, SaysThatRecomputingGainedNothing) {
  Report report = sound();
  report.config["offload"] = "none";
  report.engine = {};
  report.device.memory.peak_bytes = 900 * kMiB;
  EXPECT_THAT(find_warnings(report),
              ElementsAre(warning("peak_unchanged", "--checkpoint every:1")));
}

TEST(WarningsTest, SaysThatAllWasNeededBeforeItHadLeft) {
  Report report = sound();
  report.engine.revived_bytes = report.engine.d2h_bytes;
  EXPECT_THAT(find_warnings(report),
              ElementsAre(warning("all_revived", "3 MiB", "--layers")));
  // Then it is not for want of layers.
  report.engine.no_room_bytes = kMiB;
  EXPECT_THAT(find_warnings(report),
              ElementsAre(warning("host_full", "no room for 1 MiB"),
                          AllOf(warning("all_revived", "3 MiB", "--host-budget"),
                                Field(&Warning::message, Not(HasSubstr("--layers"))))));
}

TEST(WarningsTest, SaysThatTheLinkIsNotAsPlanned) {
  Report report = sound();
  report.engine.h2d_plan = {.planned = 4e9, .measured = 1e9, .replans = 1, .step = 3};
  EXPECT_THAT(find_warnings(report),
              ElementsAre(warning("link_replanned", "from the host is slower than planned",
                                  "(0.25 times)", "after step 3")));
  report.engine.h2d_plan.measured = 3.5e9;  // Little enough to come from sharing it.
  EXPECT_THAT(find_warnings(report), IsEmpty());
  report.engine.h2d_plan = {.planned = 4e9, .measured = 4e9, .replans = 0, .step = 0};
  EXPECT_THAT(find_warnings(report), IsEmpty());
  report.engine.d2h_plan = {.planned = 1e9, .measured = 4e9, .replans = 2, .step = 5};
  EXPECT_THAT(find_warnings(report),
              ElementsAre(warning("link_replanned", "to the host is faster", "2 times")));
}

TEST(WarningsTest, ExpectsNothingOfARunThatDidNotAskOrDidNotEnd) {
  Report report = sound();
  report.engine = {};
  report.device.memory.peak_bytes = 900 * kMiB;
  report.config["checkpoint"] = report.config["offload"] = "none";
  EXPECT_THAT(find_warnings(report), IsEmpty());
  report = sound();
  report.engine = {};
  report.time.steps = 0;
  EXPECT_THAT(find_warnings(report), IsEmpty());
}

}  // namespace
}  // namespace ebb::offload
