#include "runtime/transfer/transfer_queue.h"

#include <cmath>
#include <cstddef>
#include <cstring>
#include <memory>
#include <vector>

#include "gtest/gtest.h"

#include "allocator/error.h"
#include "runtime/device/check/check_device.h"
#include "tests/support/devices.h"
#include "tests/support/faulty_device.h"
#include "tests/support/sim_orders.h"

namespace ebb::transfer {
namespace {

using Direction = TransferQueue::Direction;
constexpr std::size_t kMiB = std::size_t{1} << 20;

// One byte a microsecond out, two in; no latencies: a chunk is 4 MiB.
device::Profile profile() {
  device::Profile profile;
  profile.name = "link";
  profile.capacity_bytes = std::size_t{1} << 30;
  profile.f32_flops_per_second = profile.bf16_flops_per_second = 1;
  profile.memory_bytes_per_second = 1e12;
  profile.d2h = {1e6, 0};
  profile.h2d = {2e6, 0};
  profile.network = profile.disk_read = profile.disk_write = {1e6, 0};
  return profile;
}

std::unique_ptr<device::CheckDevice> make(const device::Order& order) {
  device::SimOptions options;
  options.profile = profile();
  options.order = order;
  options.limit_bytes = 64 * kMiB;
  return device::make_check_device(device::make_sim_device(options, test::no_kernels()));
}

class TransferQueueTest : public testing::TestWithParam<device::Order> {
 protected:
  std::uintptr_t on_device(std::size_t bytes, std::byte value) {
    device::Stream& stream = device->current_stream();
    const std::uintptr_t address =
        device->memory().allocate(bytes, Purpose::kActivations, stream);
    fill(address, bytes, value);
    return address;
  }
  void fill(std::uintptr_t address, std::size_t bytes, std::byte value) {
    const device::Access access{address, bytes, device::Access::Mode::kWrite};
    device->current_stream().launch(test::op("fill", 1, {&access, 1}), [=](void*) {
      std::memset(reinterpret_cast<void*>(address), std::to_integer<int>(value), bytes);
    });
  }
  Dependency now() {
    return {Fence(device->current_stream().record()),
            {device::StallCause::kHost, "test.now"}};
  }

  std::unique_ptr<device::CheckDevice> device = make(GetParam());
};

TEST_P(TransferQueueTest, MovesBytesBothWaysChunkByChunk) {
  constexpr std::size_t kBytes = 11 * kMiB;
  std::byte* host = device->host_memory().pin(kBytes);
  {
    TransferQueue out(*device, Direction::kDeviceToHost);
    TransferQueue in(*device, Direction::kHostToDevice);
    EXPECT_EQ(out.chunk_bytes(), 4 * kMiB);
    test::Recorder recorder;
    device->set_observer(&recorder);
    const std::uintptr_t from = on_device(kBytes, std::byte{7});
    const std::uintptr_t to = on_device(kBytes, std::byte{1});
    const Event gone = out.submit({"out", from, host, kBytes, {now()}});
    const Event back =
        in.submit({"in",
                   to,
                   host,
                   kBytes,
                   {{now(), {Fence(gone), {device::StallCause::kHost, "gone"}}}}});
    device->current_stream().wait(back, {device::StallCause::kH2DLate, "test"});
    const device::Access access{to, kBytes, device::Access::Mode::kRead};
    std::size_t wrong = 0;
    device->current_stream().launch(test::op("look", 1, {&access, 1}), [&](void*) {
      for (std::size_t i = 0; i < kBytes; ++i) {
        wrong += reinterpret_cast<const std::byte*>(to)[i] != std::byte{7};
      }
    });
    device->synchronize();
    EXPECT_EQ(wrong, 0U);
    std::vector<std::size_t> chunks;
    for (const device::OpRecord& record : recorder.records) {
      if (record.unit == device::OpRecord::Unit::kD2H) chunks.push_back(record.bytes);
    }
    EXPECT_EQ(chunks, (std::vector<std::size_t>{4 * kMiB, 4 * kMiB, 3 * kMiB}));
    device->set_observer(nullptr);
  }
  device->host_memory().unpin(host, kBytes);
}

TEST_P(TransferQueueTest, KeepsOneChunkOutstanding) {
  constexpr std::size_t kBytes = 8 * kMiB;
  std::byte* host = device->host_memory().pin(2 * kBytes);
  {
    TransferQueue in(*device, Direction::kHostToDevice);
    const std::uintptr_t to = on_device(2 * kBytes, std::byte{0});
    const double begin = device->now();
    in.submit({"bulk", to, host, kBytes, {now()}});
    // A chunk takes 2.1 seconds; the urgent copy waits for the one under way, not for all.
    device->current_stream().synchronize();
    const Event urgent =
        in.submit({"urgent", to + kBytes, host + kBytes, 4096, {}}, Priority::kUrgent);
    urgent.wait();
    EXPECT_LT(device->now() - begin, 1 + 2.2);
    device->synchronize();
    EXPECT_GT(device->now() - begin, 1 + 4.1);
  }
  device->host_memory().unpin(host, 2 * kBytes);
}

TEST_P(TransferQueueTest, LeavesOutWhatIsCancelledBeforeItsTurnAndTheRestOfWhatIsUnderWay) {
  constexpr std::size_t kBytes = 12 * kMiB;
  std::byte* host = device->host_memory().pin(3 * kBytes);
  std::memset(host, 0, 3 * kBytes);
  {
    TransferQueue out(*device, Direction::kDeviceToHost);
    test::Recorder recorder;
    device->set_observer(&recorder);
    const std::uintptr_t from = on_device(kBytes, std::byte{7});
    std::vector<Event> ends;
    for (std::size_t i = 0; i < 3; ++i) {
      ends.push_back(out.submit({"out", from, host + i * kBytes, kBytes, {now()}}));
    }
    out.cancel(ends[0]);
    out.cancel(ends[1]);
    ends[1].wait();
    EXPECT_TRUE(ends[0].done());
    EXPECT_FALSE(ends[2].done());
    out.cancel(ends[0]);  // It is over: nothing happens.
    device->synchronize();
    std::vector<std::size_t> chunks;
    for (const device::OpRecord& record : recorder.records) {
      if (record.unit == device::OpRecord::Unit::kD2H) chunks.push_back(record.bytes);
    }
    EXPECT_EQ(chunks, std::vector<std::size_t>(4, 4 * kMiB));
    EXPECT_EQ(host[4 * kMiB - 1], std::byte{7});
    EXPECT_EQ(host[4 * kMiB], std::byte{0});
    EXPECT_EQ(host[kBytes], std::byte{0});
    EXPECT_EQ(host[3 * kBytes - 1], std::byte{7});
    device->memory().free(from, Fence(ends[2]));
    EXPECT_EQ(device->memory().figures().live.total(), 0U);
    device->set_observer(nullptr);
  }
  device->host_memory().unpin(host, 3 * kBytes);
}

TEST(TransferPriorityTest, AnUrgentCopyWaitsForOneChunkOfAGiBAtMostInBothDirections) {
  for (const Direction direction : {Direction::kDeviceToHost, Direction::kHostToDevice}) {
    device::SimOptions options;
    options.profile = profile();
    options.profile.d2h = options.profile.h2d = {1e9, 1e-5};
    options.profile.capacity_bytes = std::size_t{4} << 30;
    options.dry = true;
    const auto device = device::make_sim_device(options, test::no_kernels());
    constexpr std::size_t kBytes = std::size_t{1} << 30;
    constexpr std::size_t kUrgent = 64 << 10;
    std::byte* host = device->host_memory().pin(kBytes + kUrgent);
    {
      TransferQueue queue(*device, direction);
      const std::uintptr_t on = device->memory().allocate(
          kBytes + kUrgent, Purpose::kActivations, device->current_stream());
      const Event bulk = queue.submit({"bulk", on, host, kBytes, {}});
      // Wherever in the transfer it comes.
      for (const double seconds : {0.0001, 0.1, 0.5123, 0.9}) {
        device->current_stream().launch(test::op("work", seconds), [](void*) {});
        device->current_stream().synchronize();
        ASSERT_FALSE(bulk.done());
        const double begin = device->now();
        queue.submit({"urgent", on + kBytes, host + kBytes, kUrgent, {}}, Priority::kUrgent)
            .wait();
        const double alone = 1e-5 + static_cast<double>(kUrgent) / 1e9;
        const double chunk = 1e-5 + static_cast<double>(queue.chunk_bytes()) / 1e9;
        EXPECT_LE(device->now() - begin, chunk + alone + 1e-9);
        if (seconds > 0.4) break;
      }
    }
    device->host_memory().unpin(host, kBytes + kUrgent);
  }
}

TEST_P(TransferQueueTest, HasOneChunkOutstandingHoweverManyTransfersWait) {
  std::byte* host = device->host_memory().pin(24 * kMiB);
  {
    TransferQueue in(*device, Direction::kHostToDevice);
    const std::uintptr_t to = on_device(24 * kMiB, std::byte{1});
    device->synchronize();
    const double begin = device->now();
    for (std::size_t i = 0; i < 4; ++i) {
      in.submit({"bulk", to + i * 4 * kMiB, host + i * 4 * kMiB, 4 * kMiB, {}});
    }
    const Event urgent = in.submit({"urgent", to + 20 * kMiB, host + 20 * kMiB, 4096, {}},
                                   Priority::kUrgent);
    urgent.wait();
    EXPECT_LT(device->now() - begin, 2 * 4.2e6 / 2e6);  // A chunk, and perhaps one more.
    device->synchronize();
    EXPECT_GT(device->now() - begin, 4 * 4.1e6 / 2e6);
  }
  device->host_memory().unpin(host, 24 * kMiB);
}

TEST_P(TransferQueueTest, LeavesNothingUnderWayOfATransferThatIsRefusedHalfWay) {
  constexpr std::size_t kBytes = 12 * kMiB;
  test::Faults faults;
  test::FaultyDevice faulty(*device, faults);
  std::byte* host = device->host_memory().pin(kBytes);
  std::memset(host, 0, kBytes);
  {
    TransferQueue out(faulty, Direction::kDeviceToHost);
    const std::uintptr_t from = on_device(kBytes, std::byte{7});
    // A chunk is on its way. Its callback fails, so that the next one follows at once.
    faults.fail_from(1, {test::Call::kCopy, test::Call::kCallBack});
    EXPECT_THROW(out.submit({"out", from, host, kBytes, {now()}}), Error);
    faults.stop();
    EXPECT_EQ(host[4 * kMiB - 1], std::byte{7});
    EXPECT_EQ(host[4 * kMiB], std::byte{0});
    device->memory().free(from, {});  // Nobody uses it any more,
    std::memset(host, 1, kBytes);     // nor this.
    device->synchronize();
    EXPECT_EQ(host[0], std::byte{1});
    // The queue goes on.
    const std::uintptr_t again = on_device(kMiB, std::byte{9});
    out.submit({"out", again, host, kMiB, {now()}}).wait();
    EXPECT_EQ(host[0], std::byte{9});
    device->memory().free(again, {});
  }
  EXPECT_EQ(device->order().violations, 0U);
  device->host_memory().unpin(host, kBytes);
}

TEST_P(TransferQueueTest, LeavesNothingUnderWayOfAnUrgentTransferThatIsRefusedHalfWay) {
  test::Faults faults;
  test::FaultyDevice faulty(*device, faults);
  std::byte* host = device->host_memory().pin(kMiB);
  std::memset(host, 0, kMiB);
  {
    TransferQueue out(faulty, Direction::kDeviceToHost);
    const std::uintptr_t from = on_device(kMiB, std::byte{7});
    faults.fail(0, test::Call::kSignal);
    EXPECT_THROW(out.submit({"out", from, host, kMiB, {now()}}, Priority::kUrgent), Error);
    EXPECT_EQ(host[kMiB - 1], std::byte{7});  // The copy has ended.
    device->memory().free(from, {});
    std::memset(host, 1, kMiB);
    const std::uintptr_t again = on_device(kMiB, std::byte{9});
    out.submit({"out", again, host, kMiB, {now()}}, Priority::kUrgent).wait();
    EXPECT_EQ(host[0], std::byte{9});
    device->memory().free(again, {});
  }
  EXPECT_EQ(device->order().violations, 0U);
  device->host_memory().unpin(host, kMiB);
}

TEST_P(TransferQueueTest, EndsInTheOrderOfSubmission) {
  std::byte* host = device->host_memory().pin(8 * kMiB);
  {
    TransferQueue out(*device, Direction::kDeviceToHost);
    const std::uintptr_t from = on_device(8 * kMiB, std::byte{3});
    std::vector<Event> ends;
    for (std::size_t i = 0; i < 8; ++i) {
      ends.push_back(out.submit({"out", from + i * kMiB, host + i * kMiB, kMiB, {now()}}));
    }
    ends[4].wait();
    for (std::size_t i = 0; i < 4; ++i) EXPECT_TRUE(ends[i].done());
    EXPECT_FALSE(ends[7].done());
    // The queue's end waits for the others.
  }
  EXPECT_EQ(host[8 * kMiB - 1], std::byte{3});
  device->host_memory().unpin(host, 8 * kMiB);
}

TEST_P(TransferQueueTest, MemoryMayBeGivenBackBeforeItsCopiesAreSubmitted) {
  constexpr std::size_t kBytes = 16 * kMiB;
  std::byte* host = device->host_memory().pin(4 * kBytes);
  {
    TransferQueue out(*device, Direction::kDeviceToHost);
    // 64 MiB through a device of 64 MiB in which two blocks fit beside what is under way:
    // each is lent again, in stream order, while earlier copies wait for their turn.
    for (std::size_t i = 0; i < 4; ++i) {
      const std::uintptr_t from = on_device(kBytes, static_cast<std::byte>(i + 1));
      const Event gone = out.submit({"out", from, host + i * kBytes, kBytes, {now()}});
      device->memory().free(from, Fence(gone));
    }
    const std::uintptr_t again = on_device(3 * kBytes, std::byte{9});
    device->memory().free(again, Fence(device->current_stream().record()));
    device->synchronize();
  }
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(host[i * kBytes], static_cast<std::byte>(i + 1));
    EXPECT_EQ(host[(i + 1) * kBytes - 1], static_cast<std::byte>(i + 1));
  }
  EXPECT_EQ(device->order().violations, 0U);
  // What was given back counts until its copy has ended, and no longer.
  EXPECT_EQ(device->memory().figures().live.total(), 0U);
  device->host_memory().unpin(host, 4 * kBytes);
}

INSTANTIATE_TEST_SUITE_P(AllOrders, TransferQueueTest,
                         testing::ValuesIn(test::twenty_four_orders()),
                         [](const auto& order) { return test::order_name(order.param); });

TEST(ChunkBytesTest, MakesTheStartOfACopyOnePercentOfIt) {
  EXPECT_EQ(chunk_bytes({1e9, 9e-6}, 1e-6), std::size_t{4} << 20);  // The least.
  const std::size_t chunk = chunk_bytes({25e9, 8e-6}, 2e-6);
  EXPECT_NEAR(static_cast<double>(chunk), 25e6, 4096);
  EXPECT_EQ(chunk % 4096, 0U);
  EXPECT_EQ(chunk_bytes({INFINITY, 0}, 0), std::size_t{4} << 20);
  EXPECT_EQ(chunk_bytes({INFINITY, 1e-6}, 0), std::size_t{4} << 20);
}

}  // namespace
}  // namespace ebb::transfer
