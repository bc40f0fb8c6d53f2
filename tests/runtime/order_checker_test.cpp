#include "runtime/device/check/order_checker.h"

#include <array>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ebb::device {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class OrderCheckerTest : public ::testing::Test {
 protected:
  void access(Source stream, std::uint64_t ticket, Access::Mode mode,
              std::uintptr_t address = 0x1000) {
    const std::array<Access, 1> accesses{Access{address, 64, mode}};
    checker_.access(stream, ticket, "op", accesses);
  }
  std::uint64_t violations() const { return checker_.figures().violations; }

  OrderChecker checker_;
  const Source a_ = checker_.add_stream("a");
  const Source b_ = checker_.add_stream("b");
  const Source t_ = checker_.add_timeline();
};

constexpr auto kRead = Access::Mode::kRead;
constexpr auto kWrite = Access::Mode::kWrite;

TEST_F(OrderCheckerTest, NamesBothOpsBothStreamsAndTheRange) {
  access(a_, 1, kWrite);
  access(b_, 1, kRead);
  ASSERT_EQ(checker_.violations().size(), 1U);
  EXPECT_THAT(checker_.violations()[0],
              AllOf(HasSubstr("'op' on stream 'b' reads [0x1000, 0x1040)"),
                    HasSubstr("'op' on stream 'a' writes")));
  EXPECT_EQ(checker_.figures().accesses, 2U);
}

TEST_F(OrderCheckerTest, TellsItsNewsOnce) {
  access(a_, 1, kWrite);
  access(b_, 1, kWrite);
  EXPECT_NE(checker_.take_news(), "");
  EXPECT_EQ(checker_.take_news(), "");
}

TEST_F(OrderCheckerTest, KeepsItsNewsFromCallbacks) {
  access(a_, 1, kWrite);
  checker_.begin_call_back({t_, 0});
  access(b_, 1, kWrite);
  EXPECT_EQ(checker_.take_news(), "");
  checker_.end_call_back();
  EXPECT_NE(checker_.take_news(), "");
}

TEST_F(OrderCheckerTest, LooksAtAnOpOnceItsSignalIsThere) {
  checker_.wait(b_, 1, {t_, 1});
  access(b_, 2, kRead);
  EXPECT_EQ(checker_.figures().accesses, 0U);
  access(a_, 1, kWrite);
  checker_.signal(a_, 2, {t_, 1});
  EXPECT_EQ(checker_.figures().accesses, 2U);
  EXPECT_EQ(violations(), 0U);
}

TEST_F(OrderCheckerTest, WhatTheHostLearnsAfterASubmissionDoesNotOrderIt) {
  access(a_, 1, kWrite);
  checker_.wait(b_, 1, {t_, 1});
  access(b_, 2, kRead);     // Looked at when the signal comes,
  checker_.learn({a_, 1});  // after the host has learned of the write.
  checker_.signal(a_, 2, {t_, 1});
  EXPECT_EQ(violations(), 0U);  // The signal itself orders it.

  access(a_, 3, kWrite, 0x5000);
  const Source other = checker_.add_stream("other");
  checker_.wait(b_, 3, {t_, 2});
  access(b_, 4, kRead, 0x5000);
  checker_.learn({a_, 3});
  checker_.signal(other, 1, {t_, 2});
  // `other` was submitted to after the host knew, so its signal carries that.
  EXPECT_EQ(violations(), 0U);
  access(other, 2, kWrite, 0x9000);
  checker_.wait(b_, 5, {t_, 3});
  access(b_, 6, kRead, 0x9000);
  checker_.learn({other, 2});
  checker_.signal(a_, 4, {t_, 3});
  EXPECT_EQ(violations(), 0U);
}

// The thread that announces copies hands them over to the callback that submits them.
TEST_F(OrderCheckerTest, WhatTheHostKnewWhenItAnnouncedACopyOrdersIt) {
  constexpr std::uintptr_t kBlock = 0x2000;
  const std::array<Access, 2> both{Access{kBlock, 64, kRead}, Access{0x1000, 64, kWrite}};
  (void)checker_.lend(kBlock, 64);
  access(a_, 1, kRead);
  checker_.hold(kBlock, 1);
  checker_.learn({a_, 1});
  checker_.hold(kBlock, 2);
  checker_.begin_call_back({t_, 0});
  checker_.access(b_, 1, "copy", both, 2);
  EXPECT_EQ(violations(), 0U);
  checker_.end_call_back();

  const Source c = checker_.add_stream("c");
  access(c, 1, kRead, 0x3000);
  checker_.hold(kBlock, 3);
  checker_.learn({c, 1});
  const std::array<Access, 2> late{Access{kBlock, 64, kRead}, Access{0x3000, 64, kWrite}};
  checker_.begin_call_back({t_, 0});
  checker_.access(b_, 2, "copy", late, 3);
  EXPECT_EQ(violations(), 1U) << "what the host learned later is not handed over";
  checker_.end_call_back();
}

TEST_F(OrderCheckerTest, TakesTicketsOutOfTurn) {
  access(a_, 2, kRead);  // A callback's, inside the submission of the first.
  EXPECT_EQ(checker_.figures().accesses, 0U);
  access(a_, 1, kWrite);
  EXPECT_EQ(checker_.figures().accesses, 2U);
}

TEST_F(OrderCheckerTest, SeesTouchesOfTheHost) {
  access(a_, 1, kRead);
  checker_.touch_host({0x1000, 8, kWrite});
  EXPECT_EQ(violations(), 1U);
  checker_.learn({a_, 1});
  checker_.touch_host({0x1000, 64, kWrite});
  access(b_, 1, kRead);  // Submitted after the host's touch.
  EXPECT_EQ(violations(), 1U);
}

TEST_F(OrderCheckerTest, SeesWhatIsUsedAfterItWasFreed) {
  EXPECT_FALSE(checker_.lend(0x1000, 64));
  access(a_, 1, kWrite);
  EXPECT_EQ(checker_.free(0x1000), 64U);
  EXPECT_EQ(checker_.free(0x1000), 0U);
  access(a_, 2, kRead);
  EXPECT_EQ(violations(), 1U);
  EXPECT_THAT(checker_.violations()[0], HasSubstr("used after it was freed"));
  EXPECT_TRUE(checker_.lend(0x1000, 64));
  access(a_, 3, kRead);
  EXPECT_EQ(violations(), 1U);
}

TEST_F(OrderCheckerTest, KeepsNoMoreThanAHundredInWords) {
  for (std::uint64_t i = 1; i <= 150; ++i) {
    access(a_, i, kWrite);
    access(b_, i, kWrite);
  }
  EXPECT_GT(violations(), 100U);
  EXPECT_EQ(checker_.violations().size(), 100U);
}

}  // namespace
}  // namespace ebb::device
