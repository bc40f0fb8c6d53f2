#include "bindings/cli/train/preflight.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/tiny_request.h"

namespace ebb::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using Flags = std::vector<std::pair<std::string, std::string>>;

class PreflightTest : public ::testing::Test {
 protected:
  Verdict verdict(Flags flags) const {
    return preflight(test::tiny_request(std::move(flags)), interrupt_);
  }
  Clearance cleared(Flags flags) const {
    const Verdict found = verdict(std::move(flags));
    if (const auto* refusal = std::get_if<Refusal>(&found)) {
      ADD_FAILURE() << refusal->message;
      return {};
    }
    return std::get<Clearance>(found);
  }
  Refusal refused(Flags flags) const {
    const Verdict found = verdict(std::move(flags));
    EXPECT_TRUE(std::holds_alternative<Refusal>(found));
    const auto* refusal = std::get_if<Refusal>(&found);
    return refusal == nullptr ? Refusal{} : *refusal;
  }
  static Flags with(Flags flags, const char* flag, std::size_t value) {
    flags.emplace_back(flag, std::to_string(value));
    return flags;
  }

  const Interrupt interrupt_;
};

TEST_F(PreflightTest, ClearsAPlainRunWithItsOwnFigures) {
  const Clearance plain = cleared({});
  EXPECT_EQ(plain.without.peak_bytes, plain.figures.memory.peak_bytes);
  EXPECT_EQ(plain.without.step_seconds, plain.figures.step_seconds);
  EXPECT_EQ(plain.device_limit_bytes, plain.figures.memory.peak_reserved_bytes);
}

TEST_F(PreflightTest, ReservesTheBudgetWhereARehearsalDoesNotSayItAll) {
  EXPECT_FALSE(cleared({{"device", "sim:free"}}).device_limit_bytes.has_value());
  EXPECT_EQ(cleared({{"device", "sim:free"}, {"device-budget", "1GiB"}}).device_limit_bytes,
            std::size_t{1} << 30);
  EXPECT_EQ(cleared({{"steps", "100000"}, {"device-budget", "1GiB"}}).device_limit_bytes,
            std::size_t{1} << 30);
}

TEST_F(PreflightTest, ReservesWhatIsParkedAndLittleMore) {
  const Clearance run = cleared({{"checkpoint", "none"}, {"offload", "saved"}});
  EXPECT_GT(run.figures.engine.offloaded_bytes, 0U);
  EXPECT_EQ(run.figures.engine.no_room_bytes, 0U);
  EXPECT_LE(static_cast<double>(run.host_reserve_bytes),
            1.05 * static_cast<double>(run.figures.host.peak_requested_bytes));
  EXPECT_LT(run.figures.memory.peak_bytes, run.without.peak_bytes);
}

// With room to spare, blocks of the first micro-step are still there in the second.
TEST_F(PreflightTest, ReservesNothingForWhatIsOverAndNotTakenBackYet) {
  const Clearance run = cleared({{"layers", "3"},
                                 {"hidden", "64"},
                                 {"heads", "4"},
                                 {"seq", "64"},
                                 {"vocab", "1000"},
                                 {"accumulate", "2"},
                                 {"min-offload-bytes", "0"},
                                 {"checkpoint", "every:2"},
                                 {"offload", "saved"}});
  EXPECT_EQ(run.figures.engine.no_room_bytes, 0U);
  EXPECT_LE(static_cast<double>(run.host_reserve_bytes),
            1.05 * static_cast<double>(run.figures.host.peak_requested_bytes));
}

TEST_F(PreflightTest, NamesASmallestBudgetThatWorksAndBelowWhichNothingDoes) {
  for (const Flags& policy :
       {Flags{}, Flags{{"checkpoint", "every:1"}, {"offload", "inputs"}},
        Flags{{"checkpoint", "sqrt"}}, Flags{{"offload", "saved"}}}) {
    const Refusal refusal = refused(with(policy, "device-budget", 4096));
    ASSERT_TRUE(refusal.smallest_device_budget_bytes.has_value());
    const std::size_t smallest = *refusal.smallest_device_budget_bytes;
    const Clearance run = cleared(with(policy, "device-budget", smallest));
    EXPECT_LE(run.device_limit_bytes, smallest);
    const auto less = static_cast<std::size_t>(0.97 * static_cast<double>(smallest));
    EXPECT_EQ(refused(with(policy, "device-budget", less)).smallest_device_budget_bytes,
              smallest);
  }
}

TEST_F(PreflightTest, SaysWhatItNeedsWhatItHasAndWhatWouldFit) {
  const std::size_t plain = cleared({}).figures.memory.peak_bytes;
  const Refusal refusal = refused(with({}, "device-budget", plain * 19 / 20));
  EXPECT_EQ(refusal.code, absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(refusal.message,
              AllOf(HasSubstr("needs"), HasSubstr("has"), HasSubstr("it would fit with --"),
                    HasSubstr("--device-budget")));
  EXPECT_THAT(refused(with({}, "device-budget", 4096)).message,
              HasSubstr("no policy of this release makes it fit"));
}

TEST_F(PreflightTest, NamesTheProfileThatHasLessThanTheBudget) {
  const Refusal refusal = refused({{"device-budget", "1000TiB"}});
  EXPECT_EQ(refusal.code, absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(refusal.message, AllOf(HasSubstr("a100-pcie4"), HasSubstr("is more than")));
}

TEST_F(PreflightTest, KeepsTheHostBudget) {
  const Flags policy{{"offload", "saved"}};
  const std::size_t parked = cleared(policy).figures.host.peak_requested_bytes;
  const Clearance tight = cleared(with(policy, "host-budget", parked / 2));
  EXPECT_LE(tight.host_reserve_bytes, parked / 2);
  EXPECT_LE(tight.figures.host.pinned_bytes, parked / 2);
}

TEST_F(PreflightTest, NamesASmallestHostBudgetThatWorksAndBelowWhichNothingDoes) {
  // Less than the batches on their way need.
  const Flags policy{{"offload", "saved"}, {"batch", "64"}, {"seq", "64"}};
  const Refusal refusal = refused(with(policy, "host-budget", 1));
  EXPECT_EQ(refusal.code, absl::StatusCode::kResourceExhausted);
  ASSERT_TRUE(refusal.smallest_host_budget_bytes.has_value());
  const std::size_t smallest = *refusal.smallest_host_budget_bytes;
  EXPECT_THAT(refusal.message,
              AllOf(HasSubstr("of host memory and has 1 B (its host budget)"),
                    HasSubstr("--host-budget " + std::to_string(smallest))));
  EXPECT_LE(cleared(with(policy, "host-budget", smallest)).figures.host.pinned_bytes,
            smallest);
  EXPECT_EQ(
      refused(with(policy, "host-budget", smallest / 100 * 97)).smallest_host_budget_bytes,
      smallest);
}

// The device has what the run reserves with all the host memory it wants (its peak of live
// bytes would not do: places between blocks are lost), and less than what it needs to keep
// there what 8 KiB of host memory have no room for. That is more than just those bytes, as
// much as a tensor takes has to be free besides (EngineOptions), and where a bit more room
// makes the arena place blocks otherwise such budgets work in between: so one is looked
// for.
TEST_F(PreflightTest, NamesBothBudgetsWhereEitherWouldDo) {
  const Flags policy{{"offload", "saved"}};
  const std::size_t open = cleared(policy).figures.memory.peak_reserved_bytes;
  std::size_t device = open;
  const auto tight = [&] {
    return with(with(policy, "device-budget", device), "host-budget", 8192);
  };
  while (device <= open / 100 * 102 && !std::holds_alternative<Refusal>(verdict(tight()))) {
    device += 4096;
  }
  const Refusal refusal = refused(tight());
  ASSERT_TRUE(refusal.smallest_host_budget_bytes.has_value());
  ASSERT_TRUE(refusal.smallest_device_budget_bytes.has_value());
  EXPECT_THAT(refusal.message,
              AllOf(HasSubstr("--host-budget"), HasSubstr("--device-budget")));
  (void)cleared(with(with(policy, "device-budget", device), "host-budget",
                     *refusal.smallest_host_budget_bytes));
  (void)cleared(with(with(policy, "device-budget", *refusal.smallest_device_budget_bytes),
                     "host-budget", 8192));
}

// More host memory can make the arena place blocks for the worse, and never the run.
TEST_F(PreflightTest, DoesWithLessWhereAllOfTheHostBudgetDoesNotFit) {
  const Flags policy{{"layers", "4"},     {"hidden", "64"},
                     {"heads", "4"},      {"vocab", "256"},
                     {"batch", "2"},      {"seq", "64"},
                     {"steps", "3"},      {"offload", "saved"},
                     {"accumulate", "8"}, {"min-offload-bytes", "0"}};
  int lowered = 0;
  for (const std::size_t device : {6291456U, 6312960U}) {
    for (std::size_t host = 36 << 10; host <= 64 << 10; host += 4096) {
      const Clearance run =
          cleared(with(with(policy, "device-budget", device), "host-budget", host));
      if (!run.host_budget_bytes) continue;
      ++lowered;
      EXPECT_LT(*run.host_budget_bytes, host);
      EXPECT_LE(run.host_reserve_bytes, *run.host_budget_bytes);
    }
  }
  EXPECT_GT(lowered, 0) << "nothing here is looked at any more";
}

TEST_F(PreflightTest, TakesTheCapacityForABudget) {
  EXPECT_EQ(device_budget_bytes(test::tiny_request()),
            test::tiny_request().profile.capacity_bytes);
  EXPECT_EQ(device_budget_bytes(test::tiny_request({{"device-budget", "1GiB"}})),
            std::size_t{1} << 30);
  EXPECT_FALSE(device_budget_bytes(test::tiny_request({{"device", "sim:free"}})));
}

TEST_F(PreflightTest, RehearsesAllStepsUnlessThatWouldTakeLong) {
  EXPECT_EQ(dry_steps(test::tiny_request({{"steps", "3"}})), 3);
  const std::int64_t many = dry_steps(test::tiny_request({{"steps", "1000000"}}));
  EXPECT_GE(many, 4);
  EXPECT_LT(many, 1000);
}

}  // namespace
}  // namespace ebb::cli
