#include "kernels/cpu/parallel.h"

#include <atomic>
#include <thread>
#include <vector>

#include "tests/kernels/kernel_fixture.h"

namespace ebb::cpu {
namespace {

class Parallel : public ::testing::TestWithParam<int> {
 protected:
  void SetUp() override { before_ = set_cpu_threads(GetParam()); }
  void TearDown() override { set_cpu_threads(before_); }

 private:
  int before_ = 1;
};
INSTANTIATE_TEST_SUITE_P(Threads, Parallel, ::testing::Values(1, 2, 5));

TEST_P(Parallel, VisitsEachIndexOnce) {
  for (const std::int64_t count : {0, 1, 3, 1000}) {
    std::vector<std::atomic<int>> visits(static_cast<std::size_t>(count));
    parallel_for(count, [&](std::int64_t i) { ++visits[static_cast<std::size_t>(i)]; });
    parallel_tasks(count,
                   [&](std::int64_t i, int) { ++visits[static_cast<std::size_t>(i)]; });
    for (const auto& visit : visits) EXPECT_EQ(visit, 2);
  }
}

TEST_P(Parallel, CutsPiecesThatJoinWithoutAGap) {
  std::vector<std::atomic<int>> visits(103);
  parallel_pieces(103, 10, [&](std::int64_t begin, std::int64_t end) {
    EXPECT_EQ(begin % 10, 0);
    EXPECT_LE(end - begin, 10);
    for (std::int64_t i = begin; i < end; ++i) ++visits[static_cast<std::size_t>(i)];
  });
  for (const auto& visit : visits) EXPECT_EQ(visit, 1);
}

TEST_P(Parallel, GivesNoWorkerTwoTasksAtATime) {
  std::vector<std::atomic<int>> busy(static_cast<std::size_t>(cpu_threads()));
  std::atomic<bool> clash = false;
  parallel_tasks(500, [&](std::int64_t, int worker) {
    auto& mine = busy.at(static_cast<std::size_t>(worker));
    if (mine.exchange(1) != 0) clash = true;
    std::this_thread::yield();
    mine = 0;
  });
  EXPECT_FALSE(clash);
}

TEST(CpuThreads, AreForEveryThreadOfTheProgram) {
  const int before = set_cpu_threads(3);
  int seen = 0;
  std::thread([&] { seen = cpu_threads(); }).join();
  // OMP_THREAD_LIMIT, as the runs under TSan set it, may allow fewer.
  EXPECT_GE(seen, 1);
  EXPECT_LE(seen, 3);
  EXPECT_EQ(set_cpu_threads(1), seen);
  EXPECT_EQ(cpu_threads(), 1);
  EXPECT_EQ(set_cpu_threads(before), 1);
  EXPECT_EQ(cpu_threads(), before);
  expect_invalid([] { set_cpu_threads(0); }, "at least 1");
}

}  // namespace
}  // namespace ebb::cpu
