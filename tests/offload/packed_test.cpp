#include "offload/engine/packed.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "allocator/error.h"
#include "tests/support/offload_world.h"

namespace ebb::offload {
namespace {

using namespace test;

TEST(PackedTest, NamesTheOpWhoseSavedTensorWasChangedInPlace) {
  World world;
  const Tensor tensor = world.make(1, 64 * kKiB, 1e-6);
  const auto packed = world.engine->pack(tensor, World::site(0)).packed;
  world.write(tensor, 2, 1e-6);
  tensor::written_in_place(tensor);
  try {
    (void)packed->unpack();
    FAIL() << "it came back";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(error.what(),
                testing::HasSubstr("check saved for backward was written in place"));
  }
}

TEST(PackedTest, ATensorSavedAfterAWriteIsAnotherBlock) {
  World world;
  const Tensor tensor = world.make(1, 64 * kKiB, 1e-6);
  const auto before = world.engine->pack(tensor, World::site(0)).packed;
  world.write(tensor, 2, 1e-6);
  tensor::written_in_place(tensor);
  const auto after = world.engine->pack(tensor, World::site(0)).packed;
  EXPECT_EQ(world.engine->figures().shared_bytes, 0U);
  world.check(after->unpack(), 2, 1e-6);
  world.device.synchronize();
  EXPECT_EQ(world.wrong_words, 0U);
}

TEST(PackedTest, GivesDeviceMemoryBackWhenUsedAndHostMemoryWhenGone) {
  World world;
  std::vector<Saved> graph = forward(world, {});
  world.check(graph[0].packed->unpack(), graph[0].seed, 1e-6);
  world.finish();
  const std::size_t held = world.device.memory().figures().lent.total();
  graph[0].packed->used();
  EXPECT_EQ(world.device.memory().figures().lent.total(), held - 256 * kKiB);
  const std::size_t parked = world.pool.stats().lent_bytes;
  graph[0].packed.reset();
  EXPECT_EQ(world.pool.stats().lent_bytes, parked - 256 * kKiB);
}

TEST(PackedTest, AnAddressUsedAgainIsNoBlockOfOld) {
  World world;
  std::uintptr_t address = 0;
  std::unique_ptr<autograd::PackedTensor> old;
  {
    const Tensor tensor = world.make(1, 64 * kKiB, 1e-6);
    address = tensor.storage()->address();
    old = world.engine->pack(tensor, World::site(0)).packed;
  }
  forward(world, {});
  world.finish();
  Tensor again;
  std::vector<Tensor> others;
  for (int i = 0; i < 100 && !again.defined(); ++i) {
    Tensor tensor = world.make(2, 64 * kKiB, 1e-6);
    (tensor.storage()->address() == address ? again : others.emplace_back()) = tensor;
  }
  ASSERT_TRUE(again.defined());
  const auto fresh = world.engine->pack(again, World::site(0)).packed;
  world.check(old->unpack(), 1, 1e-6);
  world.check(fresh->unpack(), 2, 1e-6);
  world.device.synchronize();
  EXPECT_EQ(world.wrong_words, 0U);
}

}  // namespace
}  // namespace ebb::offload
