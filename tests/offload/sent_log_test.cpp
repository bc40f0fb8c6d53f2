#include "offload/engine/sent_log.h"

#include "gtest/gtest.h"

#include "tests/support/fakes.h"

namespace ebb::offload {
namespace {

class SentLogTest : public testing::Test {
 protected:
  Event at(std::uint64_t ticket) const { return source.at(ticket); }
  SentLog::Mark add(std::size_t bytes) { return log.add(bytes, 7, Fence(at(bytes))); }

  const test::ManualSource source{};
  SentLog log;
};

TEST_F(SentLogTest, KnowsWhatWasSentAndBeforeWhatItWasUsedFirst) {
  const SentLog::Mark a = add(10);
  add(20);
  EXPECT_FALSE(a.empty());
  EXPECT_TRUE(SentLog::Mark{}.empty());
  log.used(a, at(100));
  log.used(a, at(200));
  log.used({}, at(300));
  const std::vector<SentBlock> blocks = log.take();
  ASSERT_EQ(blocks.size(), 2U);
  EXPECT_EQ(blocks[0].bytes, 10U);
  EXPECT_EQ(blocks[0].stage, 7);
  EXPECT_EQ(blocks[0].made, at(10));
  EXPECT_TRUE(blocks[0].used);
  EXPECT_EQ(blocks[0].before_use, at(100));
  EXPECT_FALSE(blocks[1].used);
  EXPECT_TRUE(log.take().empty());
}

TEST_F(SentLogTest, KeepsTheStepThatEndedAndForgetsThoseBeforeIt) {
  const SentLog::Mark a = add(10);
  log.end_step();
  add(20);
  log.used(a, at(100));  // Its step is over, and another block has its place.
  log.end_step();
  add(30);
  const std::vector<SentBlock> blocks = log.take();
  ASSERT_EQ(blocks.size(), 2U);
  EXPECT_EQ(blocks[0].bytes, 20U);
  EXPECT_FALSE(blocks[0].used);
  EXPECT_EQ(blocks[1].bytes, 30U);
}

TEST_F(SentLogTest, TakesUsesOfNothingThatWasTakenOut) {
  const SentLog::Mark a = add(10);
  log.take();
  add(20);
  log.used(a, at(100));
  EXPECT_FALSE(log.take()[0].used);
}

}  // namespace
}  // namespace ebb::offload
