// How well the arena packs what training asks for: the allocations of a GPT's steps,
// replayed.

#include <deque>
#include <functional>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "allocator/device_arena.h"
#include "tests/support/fakes.h"

namespace ebb {
namespace {

using test::ManualOrder;
using test::ManualSource;

constexpr StreamId kCompute{0};
constexpr StreamId kFetch{1};

enum class Mode { kKeep, kOffloadSaved, kCheckpointInputs };

struct Shape {
  int layers;
  std::size_t tokens;
  std::size_t hidden;
  std::size_t heads;
  std::size_t logits_bytes;
};

// Allocates and frees what the steps would. All compute is on one stream; offloaded blocks
// leave and come back as the engine moves them: two wait for their copy, two are fetched
// ahead.
class Trainer {
 public:
  Trainer(const Shape& shape, Mode mode, std::size_t limit)
      : shape_(shape), mode_(mode), arena_(order_, 0, limit) {
    order_.wait(kCompute, compute_.at(~std::uint64_t{0}));
    order_.wait(kFetch, fetch_.at(~std::uint64_t{0}));
  }

  void step() {
    const std::size_t x = shape_.tokens * shape_.hidden * sizeof(float);
    std::uintptr_t stream = make(x);
    for (int layer = 0; layer < shape_.layers; ++layer) {
      if (mode_ == Mode::kCheckpointInputs) {
        std::vector<Saved> dropped;
        save({stream, x}, saved_);
        const std::uintptr_t out = forward(0, dropped);
        while (!dropped.empty()) drop(dropped);
        stream = out;
      } else {
        stream = forward(stream, saved_);
      }
    }
    drain_window(0);
    loss(stream, x);
    std::uintptr_t gradient = make(x);
    for (int layer = 0; layer < shape_.layers; ++layer) {
      if (mode_ == Mode::kCheckpointInputs) {
        const Saved input = unpack();
        std::vector<Saved> remade;
        give(forward(0, remade));
        gradient = backward(gradient, [&] {
          const Saved saved = remade.back();
          remade.pop_back();
          return saved;
        });
        give(input.address);
      } else {
        gradient = backward(gradient, [&] { return unpack(); });
      }
    }
    give(gradient);
    // The host waits at the border of the step.
    compute_.reach(ticket_);
    copy_.reach(ticket_);
    fetch_.reach(ticket_);
  }

  double ratio() const {
    const DeviceArena::Stats stats = arena_.stats();
    return static_cast<double>(stats.reserved_bytes) /
           static_cast<double>(stats.peak_lent_bytes);
  }
  std::size_t reserved() const { return arena_.stats().reserved_bytes; }
  int waits() const { return waits_; }
  bool failed() const { return failed_; }

 private:
  struct Saved {
    std::uintptr_t address;
    std::size_t bytes;
  };

  std::uintptr_t make(std::size_t bytes, StreamId stream = kCompute) {
    const auto grant = arena_.allocate(bytes, stream);
    if (!grant) {
      failed_ = true;
      return 0;
    }
    if (!grant->wait_for.empty()) ++waits_;
    order_.wait(stream, grant->wait_for);
    ++ticket_;
    return grant->address;
  }
  void give(std::uintptr_t address) {
    if (!failed_) arena_.free(address, Fence(compute_.at(++ticket_)));
  }

  void save(Saved saved, std::vector<Saved>& list) {
    list.push_back(saved);
    if (mode_ == Mode::kKeep || &list != &saved_) return;
    window_.push_back(list.size() - 1);
    drain_window(2);
  }
  void drain_window(std::size_t keep) {
    while (window_.size() > keep) {
      Saved& saved = saved_[window_.front()];
      window_.pop_front();
      Fence fence(compute_.at(ticket_));
      const Event copied = copy_.at(++ticket_);
      order_.wait(kCompute, copied);
      fence.add(copied);
      if (!failed_) arena_.free(saved.address, fence);
    }
  }
  Saved unpack() {
    if (mode_ != Mode::kKeep) {
      order_.wait(kFetch, compute_.at(ticket_));
      order_.wait(kFetch, copy_.at(ticket_));  // Which compute has waited for.
      while (fetched_.size() < 3 && fetched_.size() < saved_.size()) {
        const Saved& next = saved_[saved_.size() - 1 - fetched_.size()];
        fetched_.push_back({make(next.bytes, kFetch), next.bytes});
      }
      saved_.pop_back();
      const Saved saved = fetched_.front();
      fetched_.pop_front();
      order_.wait(kCompute, fetch_.at(ticket_));
      return saved;
    }
    const Saved saved = saved_.back();
    saved_.pop_back();
    return saved;
  }
  void drop(std::vector<Saved>& list) {
    give(list.back().address);
    list.pop_back();
  }

  // Saves its input, if there is one, and what it makes but the last.
  std::uintptr_t forward(std::uintptr_t input, std::vector<Saved>& saved) {
    const std::size_t row = shape_.tokens * sizeof(float);
    const std::size_t x = row * shape_.hidden;
    const auto keep = [&](std::size_t bytes) { save({make(bytes), bytes}, saved); };
    if (input != 0 || mode_ != Mode::kCheckpointInputs) save({input, x}, saved);
    keep(x);  // layer norm
    keep(2 * row);
    keep(3 * x);  // q, k, v
    keep(x);      // attention
    keep(row * shape_.heads);
    const std::uintptr_t projected = make(x);
    keep(x);  // residual
    give(projected);
    keep(x);  // layer norm
    keep(2 * row);
    keep(4 * x);  // before GELU
    keep(4 * x);  // after
    const std::uintptr_t down = make(x);
    const std::uintptr_t out = make(x);
    give(down);
    return out;
  }

  std::uintptr_t backward(std::uintptr_t gradient, const std::function<Saved()>& next) {
    const std::size_t x = shape_.tokens * shape_.hidden * sizeof(float);
    const auto use = [&](int count) {
      for (int i = 0; i < count; ++i) give(next().address);
    };
    const std::uintptr_t d_gelu = make(4 * x);
    use(1);
    const std::uintptr_t d_up = make(4 * x);
    give(d_gelu);
    use(1);
    const std::uintptr_t d_norm = make(x);
    give(d_up);
    const std::uintptr_t d_middle = make(x);
    use(3);
    give(d_norm);
    give(gradient);
    const std::uintptr_t d_attention = make(x);
    const std::uintptr_t workspace = make(shape_.tokens * 64);
    const std::uintptr_t d_qkv = make(3 * x);
    use(3);
    give(workspace);
    give(d_attention);
    const std::uintptr_t d_norm1 = make(x);
    give(d_qkv);
    const std::uintptr_t d_input = make(x);
    use(mode_ == Mode::kCheckpointInputs ? 2 : 3);
    give(d_norm1);
    give(d_middle);
    return d_input;
  }

  void loss(std::uintptr_t stream, std::size_t x) {
    const std::uintptr_t norm = make(x);
    give(stream);
    std::vector<std::uintptr_t> chunks;
    for (int i = 0; i < 3; ++i) chunks.push_back(make(shape_.logits_bytes));
    for (const std::uintptr_t chunk : chunks) give(chunk);
    give(norm);
  }

  const Shape shape_;
  const Mode mode_;
  ManualSource compute_;
  ManualSource copy_;
  ManualSource fetch_;
  ManualOrder order_;
  DeviceArena arena_;
  std::uint64_t ticket_ = 0;
  int waits_ = 0;
  bool failed_ = false;
  std::vector<Saved> saved_;
  std::deque<std::size_t> window_;  // Of saved_: waits for its copy.
  std::deque<Saved> fetched_;
};

struct Case {
  std::string name;
  Shape shape;
  Mode mode;
  double most;
};

class TrainingShape : public ::testing::TestWithParam<Case> {};

TEST_P(TrainingShape, ReservesLittleMoreThanItsPeakAndRunsInThat) {
  constexpr std::size_t kNoLimit = std::size_t{1} << 50;
  Trainer free(GetParam().shape, GetParam().mode, kNoLimit);
  for (int step = 0; step < 3; ++step) free.step();
  std::printf("reserved / peak lent = %.3f\n", free.ratio());
  EXPECT_FALSE(free.failed());
  EXPECT_LE(free.ratio(), GetParam().most);
  EXPECT_EQ(free.waits(), 0);

  Trainer capped(GetParam().shape, GetParam().mode, free.reserved());
  for (int step = 0; step < 3; ++step) capped.step();
  EXPECT_FALSE(capped.failed());
  EXPECT_EQ(capped.waits(), 0);
  EXPECT_EQ(capped.reserved(), free.reserved());
}

constexpr Shape kNano{12, 8 * 256, 384, 6, 2048 * 256 * 4};
constexpr Shape kXl{48, 4096, 1600, 25, 256 << 20};
const Case kCases[] = {{"nano_keep", kNano, Mode::kKeep, 1.001},
                       {"nano_saved", kNano, Mode::kOffloadSaved, 1.32},
                       {"nano_inputs", kNano, Mode::kCheckpointInputs, 1.001},
                       {"xl_keep", kXl, Mode::kKeep, 1.001},
                       {"xl_saved", kXl, Mode::kOffloadSaved, 1.001},
                       {"xl_inputs", kXl, Mode::kCheckpointInputs, 1.001}};
INSTANTIATE_TEST_SUITE_P(Gpt, TrainingShape, ::testing::ValuesIn(kCases),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace ebb
