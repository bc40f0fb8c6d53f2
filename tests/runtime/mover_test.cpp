#include "runtime/device/mover.h"

#include <set>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ebb::device {
namespace {

using Kind = Mover::Kind;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

class Log final : public Mover::Runner {
 public:
  absl::Status run(Point /*here*/, Mover::Work& work, bool skip) override {
    if (work.kind == Kind::kWait || work.kind == Kind::kSignal) return {};
    ran.push_back(skip ? std::string("(") + work.name + ")" : work.name);
    if (work.body && !skip) work.body(nullptr);
    return work.name == fails ? absl::InternalError(work.name) : absl::OkStatus();
  }
  std::vector<std::string> ran;
  std::string fails;
};

class MoverTest : public ::testing::Test {
 protected:
  static constexpr Source kA = 0, kB = 1, kT = 2;

  explicit MoverTest(bool eager = true, std::uint64_t seed = 0)
      : mover_(log_, eager, seed) {
    for (int i = 0; i < 3; ++i) mover_.add_source();
  }
  void op(Source stream, const char* name, Kind kind = Kind::kOp) {
    Mover::Work work;
    work.kind = kind;
    work.name = name;
    mover_.push(stream, std::move(work));
  }
  void point(Source stream, Kind kind, Point at) {
    Mover::Work work;
    work.kind = kind;
    work.point = at;
    mover_.push(stream, std::move(work));
  }

  Log log_;
  Mover mover_;
};

TEST_F(MoverTest, MovesAllThatItMay) {
  op(kA, "a1");
  point(kA, Kind::kWait, {kB, 1});
  op(kA, "a2");
  mover_.move_all();
  EXPECT_THAT(log_.ran, ElementsAre("a1"));
  op(kB, "b1");
  mover_.move_all();
  EXPECT_THAT(log_.ran, ElementsAre("a1", "b1", "a2"));
  EXPECT_EQ(mover_.moved(kA), 3U);
}

TEST_F(MoverTest, ForcesWhatAPointNeedsAndNothingElse) {
  op(kB, "b1");
  point(kB, Kind::kSignal, {kT, 1});
  op(kB, "b2");
  point(kA, Kind::kWait, {kT, 1});
  op(kA, "a1");
  op(kA, "a2");
  EXPECT_TRUE(mover_.force({kA, 2}));
  EXPECT_THAT(log_.ran, ElementsAre("b1", "a1"));
}

TEST_F(MoverTest, CannotForceWhatIsNotSubmitted) {
  point(kA, Kind::kWait, {kT, 1});
  op(kA, "a1");
  EXPECT_FALSE(mover_.force({kA, 2}));
  EXPECT_EQ(mover_.first_blocked({kA, 2}).wait, (Point{kA, 1}));
  EXPECT_EQ(mover_.first_blocked({kA, 2}).set, (Point{kT, 1}));
  mover_.abandon({kA, 1});
  EXPECT_TRUE(mover_.force({kA, 2}));
}

TEST_F(MoverTest, CannotForceACircle) {
  point(kA, Kind::kWait, {kT, 1});
  op(kA, "a1");
  point(kB, Kind::kWait, {kA, 2});
  point(kB, Kind::kSignal, {kT, 1});
  EXPECT_FALSE(mover_.force({kA, 2}));
}

TEST_F(MoverTest, AFailureTravelsWithWaitsAndSignals) {
  log_.fails = "b1";
  op(kB, "b1");
  op(kB, "b2");
  point(kB, Kind::kSignal, {kT, 1});
  op(kA, "a1");
  point(kA, Kind::kWait, {kT, 1});
  op(kA, "a2");
  mover_.move_all();
  EXPECT_THAT(log_.ran, ::testing::UnorderedElementsAre("a1", "b1", "(b2)", "(a2)"));
  EXPECT_TRUE(mover_.failure({kA, 1}).ok());
  EXPECT_FALSE(mover_.failure({kA, 2}).ok());
  EXPECT_FALSE(mover_.take_failure(kA).ok());
  EXPECT_TRUE(mover_.take_failure(kA).ok());
  EXPECT_TRUE(mover_.any_failure());
  EXPECT_FALSE(mover_.take_failure(kB).ok());
}

TEST_F(MoverTest, AWaitForWhatCameBeforeAFailureIsNotTainted) {
  log_.fails = "b2";
  op(kB, "b1");
  op(kB, "b2");
  mover_.move_all();
  point(kA, Kind::kWait, {kB, 1});
  op(kA, "a1");
  mover_.move_all();
  EXPECT_THAT(log_.ran, ElementsAre("b1", "b2", "a1"));
}

// As when an op's end frees memory, which asks whether an event is over.
TEST(MoverFuzz, MovesNothingInTheMiddleOfAMove) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    Log log;
    Mover mover(log, false, seed);
    mover.add_source();
    for (const char* name : {"a1", "a2", "a3", "a4"}) {
      Mover::Work work;
      work.kind = Kind::kOp;
      work.name = name;
      work.body = [&mover](void*) { mover.move_some(); };
      mover.push(0, std::move(work));
    }
    EXPECT_TRUE(mover.move_one());
    EXPECT_EQ(mover.moved(0), 1U);
    EXPECT_TRUE(mover.force({0, 4}));
    EXPECT_EQ(mover.moved(0), 4U);
    EXPECT_THAT(log.ran, ElementsAre("a1", "a2", "a3", "a4"));
  }
}

// Seeds differ in what they do; none breaks an order, and copies are held back.
TEST(MoverFuzz, TriesManyOrdersAndOnlyThoseAllowed) {
  std::set<std::vector<std::string>> orders;
  bool held = false;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    Log log;
    Mover mover(log, false, seed);
    for (int i = 0; i < 3; ++i) mover.add_source();
    const auto push = [&](Source stream, Kind kind, const char* name, Point point = {}) {
      Mover::Work work;
      work.kind = kind;
      work.name = name;
      work.point = point;
      mover.push(stream, std::move(work));
      mover.move_some();
    };
    push(0, Kind::kOp, "make");
    push(1, Kind::kWait, "", {0, 1});
    push(1, Kind::kCopy, "copy");
    push(0, Kind::kOp, "next");
    push(2, Kind::kOp, "free");
    push(0, Kind::kOp, "last");
    held = held || std::find(log.ran.begin(), log.ran.end(), "copy") == log.ran.end();
    ASSERT_TRUE(mover.force({0, 3}));
    ASSERT_TRUE(mover.force({1, 2}));
    ASSERT_TRUE(mover.force({2, 1}));
    const auto at = [&](const char* name) {
      return std::find(log.ran.begin(), log.ran.end(), name) - log.ran.begin();
    };
    EXPECT_LT(at("make"), at("copy"));
    EXPECT_LT(at("make"), at("next"));
    EXPECT_LT(at("next"), at("last"));
    EXPECT_EQ(log.ran.size(), 5U);
    orders.insert(log.ran);
  }
  EXPECT_TRUE(held);
  EXPECT_GT(orders.size(), 10U);
}

}  // namespace
}  // namespace ebb::device
