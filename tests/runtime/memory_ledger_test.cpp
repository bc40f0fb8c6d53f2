#include "runtime/device/sim/memory_ledger.h"

#include <algorithm>
#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace ebb::device {
namespace {

TEST(MemoryLedger, CountsFromTheFirstStartToTheLastEnd) {
  MemoryLedger ledger;
  const auto block = ledger.add(100, Purpose::kActivations);
  EXPECT_EQ(ledger.live().total(), 0U);
  EXPECT_EQ(ledger.lent().total(), 100U);
  ledger.submit(block);
  ledger.submit(block);
  ledger.free(block);
  EXPECT_EQ(ledger.lent().total(), 0U);
  EXPECT_EQ(ledger.live().total(), 0U);
  ledger.start(block);
  EXPECT_EQ(ledger.live().total(), 100U);
  ledger.end(block);
  EXPECT_EQ(ledger.live().total(), 100U);
  ledger.start(block);
  ledger.end(block);
  EXPECT_EQ(ledger.live().total(), 0U);
  EXPECT_EQ(ledger.peak().bytes, 100U);
}

TEST(MemoryLedger, TakesBytesOffFromTheLastUseOnWhenTheHostIsLate) {
  MemoryLedger ledger;
  const auto early = ledger.add(100, Purpose::kActivations);
  const auto late = ledger.add(50, Purpose::kParameters);
  ledger.submit(early);
  ledger.start(early);
  ledger.end(early);
  ledger.submit(late);
  ledger.start(late);
  EXPECT_EQ(ledger.peak().bytes, 150U);  // As far as is known now.
  ledger.free(early);
  EXPECT_EQ(ledger.peak().bytes, 100U);
  EXPECT_EQ(ledger.live().total(), 50U);
  EXPECT_EQ(ledger.peak().activation_bytes, 100U);
  EXPECT_EQ(ledger.peak().at_peak[Purpose::kActivations], 100U);
  ledger.end(late);
}

TEST(MemoryLedger, KeepsBytesThatAreUsedAgain) {
  MemoryLedger ledger;
  const auto weights = ledger.add(100, Purpose::kParameters);
  const auto other = ledger.add(50, Purpose::kActivations);
  const auto use = [&](MemoryLedger::Block block) {
    ledger.submit(block);
    ledger.start(block);
    ledger.end(block);
  };
  use(weights);
  use(other);
  use(weights);
  ledger.free(weights);
  EXPECT_EQ(ledger.peak().bytes, 150U);
}

TEST(MemoryLedger, CountsSentBytesApart) {
  MemoryLedger ledger;
  const auto block = ledger.add(100, Purpose::kActivations);
  ledger.mark_sent(block);
  ledger.mark_sent(block);
  EXPECT_EQ(ledger.live_sent_bytes(), 0U);
  ledger.submit(block);
  ledger.start(block);
  EXPECT_EQ(ledger.live_sent_bytes(), 100U);
  ledger.free(block);
  ledger.end(block);
  EXPECT_EQ(ledger.live_sent_bytes(), 0U);
}

TEST(MemoryLedger, StartsItsPeakAgainFromWhatIsLive) {
  MemoryLedger ledger;
  const auto big = ledger.add(100, Purpose::kActivations);
  const auto small = ledger.add(10, Purpose::kActivations);
  for (const auto block : {big, small}) {
    ledger.submit(block);
    ledger.start(block);
  }
  ledger.free(big);
  ledger.end(big);
  ledger.reset_peak();
  EXPECT_EQ(ledger.peak().bytes, 10U);
  ledger.end(small);
  ledger.free(small);
  EXPECT_EQ(ledger.peak().bytes, 10U);
}

TEST(MemoryLedger, ForgetsABlockThatNothingTouched) {
  MemoryLedger ledger;
  ledger.free(ledger.add(100, Purpose::kActivations));
  EXPECT_EQ(ledger.peak().bytes, 0U);
  EXPECT_EQ(ledger.add(1, Purpose::kActivations), 0U);
}

// Against the definition: at each time, all blocks between first start and last end.
TEST(MemoryLedger, AgreesWithTheDefinitionOverRandomUses) {
  struct Life {
    MemoryLedger::Block block = 0;
    std::size_t bytes = 0;
    int first = -1;
    int last = -1;
    bool freed = false;
  };
  for (unsigned seed = 0; seed < 50; ++seed) {
    std::mt19937 random(seed);
    MemoryLedger ledger;
    std::vector<Life> lives;
    int time = 0;
    for (int i = 0; i < 300; ++i) {
      const unsigned what = random() % 4;
      if (what == 0 || lives.empty()) {
        const std::size_t bytes = 1 + random() % 100;
        lives.push_back({ledger.add(bytes, Purpose::kActivations), bytes});
        continue;
      }
      Life& life = lives[random() % lives.size()];
      if (life.freed) continue;
      if (what == 1) {
        ledger.free(life.block);
        life.freed = true;
        continue;
      }
      ledger.submit(life.block);
      ledger.start(life.block);
      if (life.first < 0) life.first = time;
      life.last = time++;
      ledger.end(life.block);
    }
    for (Life& life : lives) {
      if (!life.freed) ledger.free(life.block);
    }
    std::size_t peak = 0;
    for (int t = 0; t < time; ++t) {
      std::size_t live = 0;
      for (const Life& life : lives) {
        if (life.first >= 0 && life.first <= t && t <= life.last) live += life.bytes;
      }
      peak = std::max(peak, live);
    }
    EXPECT_EQ(ledger.peak().bytes, peak) << seed;
    EXPECT_EQ(ledger.peak().activation_bytes, peak) << seed;
    EXPECT_EQ(ledger.live().total(), 0U);
  }
}

}  // namespace
}  // namespace ebb::device
