#include "bench/pool_trace.h"

#include <fstream>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/errors.h"
#include "tests/support/temp_folder.h"

namespace ebb::bench {
namespace {

using Kind = PoolEvent::Kind;

class PoolTraceTest : public ::testing::Test {
 protected:
  std::vector<PoolEvent> read(const std::string& text) {
    const auto file = folder_.path() / "trace.txt";
    std::ofstream(file) << text;
    return read_pool_trace(file);
  }

  test::TempFolder folder_;
};

TEST_F(PoolTraceTest, ReadsOneEventALine) {
  const auto trace = read("# made by hand\n+ 4096\n- 0\n+ 1\n=\n! 0\n");
  ASSERT_EQ(trace.size(), 5U);
  EXPECT_EQ(trace[0].kind, Kind::kAllocate);
  EXPECT_EQ(trace[0].value, 4096U);
  EXPECT_EQ(trace[1].kind, Kind::kRelease);
  EXPECT_EQ(trace[3].kind, Kind::kStep);
  EXPECT_EQ(trace[4].kind, Kind::kReached);
  EXPECT_EQ(trace[4].value, 0U);
}

TEST_F(PoolTraceTest, RefusesWhatIsNoEventAndNamesItsLine) {
  for (const char* line : {"+", "+ x", "+ 1 2", "* 1", "- 0", "! 0", "= 1"}) {
    EXPECT_THAT([&] { read(std::string("=\n") + line + "\n"); },
                test::fails_with(absl::StatusCode::kInvalidArgument, "trace.txt:2: \""))
        << line;
  }
  EXPECT_ANY_THROW(read("+ 1\n! 0\n")) << "not given back yet";
  EXPECT_ANY_THROW(read("+ 1\n- 0\n- 0\n")) << "twice";
  EXPECT_ANY_THROW(read_pool_trace(folder_.path() / "missing.txt"));
}

TEST(RandomPoolEvents, GiveEveryBlockBackAtMostOnceAndReachFencesOutOfOrder) {
  RandomTrace random;
  random.operations = 20'000;
  random.blocks = 100;
  random.step_operations = 5'000;
  const PoolEvents events = random_pool_events(random);
  std::size_t operations = 0;
  std::size_t steps = 0;
  std::size_t out_of_order = 0;
  std::uint64_t blocks = 0;
  std::uint64_t last_reached = 0;
  std::set<std::uint64_t> lent;
  std::set<std::uint64_t> retired;
  std::set<int> octaves;
  while (const auto event = events()) {
    switch (event->kind) {
      case Kind::kAllocate:
        ASSERT_GE(event->value, 512U);
        ASSERT_LE(event->value, std::size_t{256} << 20);
        octaves.insert(static_cast<int>(std::bit_width(event->value)));
        lent.insert(blocks++);
        ASSERT_LE(lent.size(), random.blocks);
        ++operations;
        break;
      case Kind::kRelease:
        ASSERT_EQ(lent.erase(event->value), 1U);
        retired.insert(event->value);
        ++operations;
        break;
      case Kind::kReached:
        ASSERT_EQ(retired.erase(event->value), 1U);
        out_of_order += event->value < last_reached;
        last_reached = event->value;
        break;
      case Kind::kStep:
        ++steps;
        break;
    }
  }
  EXPECT_EQ(operations, random.operations);
  EXPECT_EQ(steps, 4U);
  EXPECT_EQ(octaves.size(), 19U);
  EXPECT_GT(out_of_order, 1'000U);
  EXPECT_LE(retired.size(), random.most_fence_lag);
}

TEST(RandomPoolEvents, AreTheSameForTheSameSeed) {
  RandomTrace random;
  random.operations = 1'000;
  const auto sizes = [&] {
    std::vector<std::uint64_t> all;
    const PoolEvents events = random_pool_events(random);
    while (const auto event = events()) all.push_back(event->value);
    return all;
  };
  const auto first = sizes();
  EXPECT_EQ(first, sizes());
  random.seed = 2;
  EXPECT_NE(first, sizes());
}

}  // namespace
}  // namespace ebb::bench
