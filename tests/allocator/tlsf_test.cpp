#include "allocator/tlsf.h"

#include <algorithm>
#include <random>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ebb {
namespace {

constexpr std::size_t kGranule = Tlsf::kGranularityBytes;

// Requests in granules. There is no memory behind the addresses.
class TlsfTest : public ::testing::Test {
 protected:
  static std::byte* address(std::size_t granule) {
    // NOLINTNEXTLINE(performance-no-int-to-ptr): nobody follows it.
    return reinterpret_cast<std::byte*>(0x100000 + granule * kGranule);
  }
  Tlsf::Index take(std::size_t granules) {
    const Tlsf::Index chunk = tlsf_.take(granules * kGranule);
    if (chunk != Tlsf::kNone) {
      EXPECT_EQ(tlsf_[chunk].granules, granules);
    }
    return chunk;
  }

  std::byte* data(Tlsf::Index chunk) const { return tlsf_[chunk].data; }

  Tlsf tlsf_;
};

TEST_F(TlsfTest, HasNothingWithoutASlab) { EXPECT_EQ(take(1), Tlsf::kNone); }

TEST_F(TlsfTest, CarvesASlabToItsLastGranule) {
  tlsf_.add(address(0), 100 * kGranule);
  EXPECT_EQ(take(101), Tlsf::kNone);
  EXPECT_EQ(data(take(60)), address(0));
  EXPECT_EQ(take(41), Tlsf::kNone);
  EXPECT_EQ(data(take(40)), address(60));
  EXPECT_EQ(take(1), Tlsf::kNone);
}

TEST_F(TlsfTest, JoinsWhatIsFreedInAnyOrder) {
  Tlsf::Index slab = tlsf_.add(address(0), 100 * kGranule);
  std::vector<std::size_t> order{0, 1, 2, 3};
  do {
    std::vector<Tlsf::Index> chunks;
    for (int i = 0; i < 4; ++i) chunks.push_back(take(25));
    EXPECT_FALSE(tlsf_.is_whole(slab));
    for (const std::size_t i : order) tlsf_.put(chunks[i]);
    EXPECT_TRUE(tlsf_.is_whole(slab));
    EXPECT_EQ(tlsf_[slab].granules, 100U);
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST_F(TlsfTest, DoesNotJoinSlabsThatTouch) {
  Tlsf::Index first = tlsf_.add(address(0), 50 * kGranule);
  Tlsf::Index second = tlsf_.add(address(50), 50 * kGranule);
  EXPECT_EQ(take(51), Tlsf::kNone);
  Tlsf::Index a = take(50);
  Tlsf::Index b = take(50);
  tlsf_.put(a);
  tlsf_.put(b);
  EXPECT_EQ(take(51), Tlsf::kNone);
  EXPECT_TRUE(tlsf_.is_whole(first));
  EXPECT_TRUE(tlsf_.is_whole(second));
}

TEST_F(TlsfTest, TakesASlabOutAgain) {
  Tlsf::Index first = tlsf_.add(address(0), 50 * kGranule);
  tlsf_.add(address(50), 40 * kGranule);
  tlsf_.remove(first);
  EXPECT_EQ(take(41), Tlsf::kNone);
  EXPECT_EQ(data(take(40)), address(50));
}

TEST_F(TlsfTest, TakesTheSmallestFreeChunkThatFits) {
  tlsf_.add(address(0), 5000 * kGranule);
  std::vector<Tlsf::Index> chunks;
  for (const std::size_t granules : {900U, 300U, 40U, 310U, 700U}) {
    chunks.push_back(take(granules));
    take(1);
  }
  for (Tlsf::Index chunk : chunks) tlsf_.put(chunk);
  EXPECT_EQ(data(take(35)), address(900 + 1 + 300 + 1));
  EXPECT_EQ(data(take(305)), address(900 + 1 + 300 + 1 + 40 + 1));  // 310, its own class.
  EXPECT_EQ(data(take(299)), address(900 + 1));
  EXPECT_EQ(data(take(650)), address(900 + 1 + 300 + 1 + 40 + 1 + 310 + 1));
}

TEST_F(TlsfTest, TakesTheSmallestOfAClassThatFits) {
  tlsf_.add(address(0), 5'000 * kGranule);
  Tlsf::Index close = take(1'030);  // 1'024 to 1'039 are one class.
  take(1);
  Tlsf::Index far = take(1'038);
  take(1);
  tlsf_.put(close);
  tlsf_.put(far);  // The first of its class's list.
  EXPECT_EQ(data(take(1'026)), address(0));
}

TEST_F(TlsfTest, FindsWhatFitsHoweverManyOfItsClassDoNot) {
  tlsf_.add(address(0), 2'000'000 * kGranule);
  std::vector<Tlsf::Index> chunks;
  chunks.push_back(take(1'038));  // The first to be freed is the last of its class's list.
  take(1);
  for (int i = 0; i < 100; ++i) {
    chunks.push_back(take(1'025));  // 1'024 to 1'039 are one class.
    take(1);
  }
  while (take(100'000) != Tlsf::kNone) {
  }
  while (take(1'100) != Tlsf::kNone) {
  }
  while (take(1) != Tlsf::kNone) {
  }
  for (Tlsf::Index chunk : chunks) tlsf_.put(chunk);
  EXPECT_EQ(data(take(1'038)), address(0));
  EXPECT_EQ(take(1'038), Tlsf::kNone);
}

TEST_F(TlsfTest, LeavesTheHeapAloneOnceItHasMadeItsChunks) {
  tlsf_.add(address(0), 100'000 * kGranule);
  std::vector<Tlsf::Index> chunks(10'000);
  const auto round = [&] {
    for (Tlsf::Index& chunk : chunks) chunk = take(3);
    for (Tlsf::Index chunk : chunks) tlsf_.put(chunk);
  };
  round();
  const std::size_t made = tlsf_.made();
  EXPECT_GE(made, chunks.size());
  round();
  EXPECT_EQ(tlsf_.made(), made);
}

TEST_F(TlsfTest, DoesNotGrowBySlabsThatComeAndGo) {
  const Tlsf::Index stays = tlsf_.add(address(0), 100 * kGranule);
  std::size_t made = 0;
  for (int i = 0; i < 100; ++i) {
    const Tlsf::Index slab = tlsf_.add(address(1000), 100 * kGranule);
    if (i == 0) made = tlsf_.made();
    tlsf_.remove(slab);
  }
  EXPECT_EQ(tlsf_.made(), made);
  EXPECT_TRUE(tlsf_.is_whole(stays));
}

TEST_F(TlsfTest, TakesASlabThoughAllChunksThatItMadeAreInUse) {
  tlsf_.add(address(0), 10000 * kGranule);
  const std::size_t least = tlsf_.made();
  std::size_t taken = 0;
  // The last chunk is free as long as it is not taken whole.
  while (tlsf_.made() < 4 * least || taken < tlsf_.made() - 1) {
    ASSERT_NE(take(1), Tlsf::kNone);
    ++taken;
  }
  tlsf_.add(address(20000), 100 * kGranule);
  EXPECT_NE(take(100), Tlsf::kNone);
}

// Against a model: a request is refused only if nothing fits, chunks never overlap, and in
// the end all is whole again.
TEST_F(TlsfTest, StaysConsistentUnderRandomUse) {
  constexpr std::size_t kSlab = 20'000;
  Tlsf::Index slab = tlsf_.add(address(0), kSlab * kGranule);
  std::mt19937 random(1);
  std::vector<Tlsf::Index> taken;
  for (int i = 0; i < 20'000; ++i) {
    if (random() % 100 < 55 || taken.empty()) {
      const std::size_t granules = 1 + random() % (random() % 2 == 0 ? 30 : 900);
      std::size_t longest = 0;
      std::size_t end = 0;
      bool free_before = false;
      for (Tlsf::Index at = slab; at != Tlsf::kNone; at = tlsf_[at].after) {
        const Tlsf::Chunk& chunk = tlsf_[at];
        ASSERT_EQ(chunk.data, address(end));
        ASSERT_FALSE(chunk.is_free() && free_before) << "neighbours not joined";
        free_before = chunk.is_free();
        end += chunk.granules;
        if (chunk.is_free()) longest = std::max<std::size_t>(longest, chunk.granules);
      }
      ASSERT_EQ(end, kSlab);
      Tlsf::Index chunk = take(granules);
      ASSERT_EQ(chunk != Tlsf::kNone, granules <= longest);
      if (chunk != Tlsf::kNone) taken.push_back(chunk);
    } else {
      std::swap(taken[random() % taken.size()], taken.back());
      tlsf_.put(taken.back());
      taken.pop_back();
    }
  }
  for (Tlsf::Index chunk : taken) tlsf_.put(chunk);
  EXPECT_TRUE(tlsf_.is_whole(slab));
}

}  // namespace
}  // namespace ebb
