#include "bench/pool_trace.h"

#include <cmath>
#include <memory>
#include <random>
#include <sstream>
#include <utility>

#include "allocator/error.h"
#include "allocator/read_file.h"

namespace ebb::bench {
namespace {

using Kind = PoolEvent::Kind;

constexpr double kSmallestLog2 = 9;
constexpr double kLargestLog2 = 28;
constexpr std::size_t kLongestBytes = std::size_t{64} << 20;

std::optional<Kind> kind_of(char mark) {
  switch (mark) {
    case '+':
      return Kind::kAllocate;
    case '-':
      return Kind::kRelease;
    case '!':
      return Kind::kReached;
    case '=':
      return Kind::kStep;
    default:
      return std::nullopt;
  }
}

// What may happen to a block next.
enum class Life : std::uint8_t { kLent, kRetired, kOver };

// Whether `event` may follow those before it; moves its block on.
bool follows(const PoolEvent& event, std::vector<Life>& blocks) {
  if (event.kind == Kind::kStep) return true;
  if (event.kind == Kind::kAllocate) {
    blocks.push_back(Life::kLent);
    return true;
  }
  const bool release = event.kind == Kind::kRelease;
  const Life before = release ? Life::kLent : Life::kRetired;
  if (event.value >= blocks.size() || blocks[event.value] != before) return false;
  blocks[event.value] = release ? Life::kRetired : Life::kOver;
  return true;
}

class RandomEvents {
 public:
  explicit RandomEvents(const RandomTrace& trace)
      : trace_(trace), random_(trace.seed), ending_(trace.most_fence_lag + 1) {}

  std::optional<PoolEvent> next() {
    if (!reached_.empty()) {
      const std::uint64_t block = reached_.back();
      reached_.pop_back();
      return PoolEvent{Kind::kReached, block};
    }
    if (step_is_due_) {
      step_is_due_ = false;
      return PoolEvent{Kind::kStep};
    }
    if (operation_ == trace_.operations) return std::nullopt;
    std::swap(reached_, ending_[operation_ % ending_.size()]);
    ++operation_;
    step_is_due_ = operation_ % trace_.step_operations == 0;
    return live_.size() < trace_.blocks ? allocate() : release();
  }

 private:
  PoolEvent allocate() {
    std::uniform_real_distribution<double> log2(kSmallestLog2, kLargestLog2);
    live_.push_back(next_block_++);
    return {Kind::kAllocate, static_cast<std::uint64_t>(std::exp2(log2(random_)))};
  }
  PoolEvent release() {
    std::swap(live_[random_() % live_.size()], live_.back());
    const std::uint64_t block = live_.back();
    live_.pop_back();
    const std::size_t lag = random_() % ending_.size();
    ending_[(operation_ + lag) % ending_.size()].push_back(block);
    return {Kind::kRelease, block};
  }

  const RandomTrace trace_;
  std::mt19937_64 random_;
  std::size_t operation_ = 0;
  std::uint64_t next_block_ = 0;
  std::vector<std::uint64_t> live_;
  std::vector<std::vector<std::uint64_t>> ending_;  // By operation, round and round.
  std::vector<std::uint64_t> reached_;              // Now.
  bool step_is_due_ = false;
};

}  // namespace

std::vector<PoolEvent> read_pool_trace(const std::filesystem::path& file) {
  std::istringstream lines(read_file(file.string(), kLongestBytes));
  std::vector<PoolEvent> trace;
  std::vector<Life> blocks;
  std::string line;
  for (std::size_t number = 1; std::getline(lines, line); ++number) {
    if (line.empty() || line.front() == '#') continue;
    std::istringstream words(line);
    char mark = 0;
    words >> mark;
    const std::optional<Kind> kind = kind_of(mark);
    PoolEvent event{kind.value_or(Kind::kStep)};
    if (event.kind != Kind::kStep) words >> event.value;
    const bool read = kind.has_value() && !words.fail() && (words >> std::ws).eof();
    EBB_CHECK(read && follows(event, blocks), kInvalidArgument, file.string(), ":", number,
              ": \"", line, "\" is no event of a pool's trace, or comes too early");
    trace.push_back(event);
  }
  return trace;
}

PoolEvents events_of(std::vector<PoolEvent> trace) {
  return [trace = std::move(trace), at = std::size_t{0}]() mutable {
    return at < trace.size() ? std::optional(trace[at++]) : std::nullopt;
  };
}

PoolEvents random_pool_events(const RandomTrace& trace) {
  EBB_CHECK(trace.blocks > 0 && trace.step_operations > 0, kInvalidArgument,
            "a random trace needs a block, and steps of an operation");
  return [events = std::make_shared<RandomEvents>(trace)] { return events->next(); };
}

}  // namespace ebb::bench
