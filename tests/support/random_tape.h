// Random tapes: chains of stages that make, save and use blocks of all sizes, on random
// links. Equal seeds make equal tapes on every machine.

#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>
#include <utility>
#include <vector>

#include "runtime/device/sim/profile.h"

namespace ebb::test {

// Numbers from a seed. The distributions of the standard library are not the same
// everywhere.
class Draw {
 public:
  explicit Draw(std::uint64_t seed) : random_(seed) {}

  double uniform(double from, double to) {
    return from + (to - from) * static_cast<double>(random_() >> 11) * 0x1p-53;
  }
  double log_uniform(double from, double to) {
    return std::exp(uniform(std::log(from), std::log(to)));
  }
  std::size_t below(std::size_t count) { return random_() % count; }
  bool chance(double probability) { return uniform(0, 1) < probability; }

 private:
  std::mt19937_64 random_;
};

struct TapeBlock {
  std::size_t bytes = 0;
  std::vector<std::size_t> saved_at;  // Stages, from the one that makes it on.
};

inline constexpr double kTapeFlopsPerSecond = 1e9;

// A block that a stage saves, and whether its backward will ask for it.
struct TapeSave {
  std::size_t block = 0;
  bool used = true;
};

struct TapeStage {
  double forward_seconds = 0;
  double backward_seconds = 0;
  std::size_t workspace_bytes = 4;  // Of both ops, each its own.
  std::size_t gradient_bytes = 0;   // That its backward makes for the stage before.
  std::vector<std::size_t> makes;
  std::vector<TapeSave> saves;  // Used in reverse.
};

struct TapeShape {
  std::size_t min_stages = 1;
  std::size_t max_stages = 64;
  std::size_t min_bytes = 4096;  // Of a block.
  std::size_t max_bytes = std::size_t{64} << 20;
};

struct Tape {
  std::uint64_t seed = 0;
  std::vector<TapeStage> stages;
  std::vector<TapeBlock> blocks;
  std::size_t micro_steps = 1;
  // Neighbours in the order of use that come the other way round than announced: each time
  // the same, or others in every step.
  std::size_t swaps = 0;
  bool swaps_change = false;
  device::Profile profile;

  std::size_t saved_bytes() const {
    std::size_t sum = 0;
    for (const TapeBlock& block : blocks) sum += block.bytes;
    return sum;
  }
};

namespace tape_draw {

inline void draw_links(Draw& draw, Tape& tape) {
  device::Profile& profile = tape.profile;
  profile.name = "tape";
  profile.f32_flops_per_second = profile.bf16_flops_per_second = kTapeFlopsPerSecond;
  profile.memory_bytes_per_second = 1e18;
  profile.host_submit_seconds = 1e-9;
  profile.network = profile.disk_read = profile.disk_write = {1e9, 0};
  const double d2h = draw.log_uniform(2e9, 5e10);
  const double h2d = d2h * draw.log_uniform(0.5, 2);
  profile.d2h.bytes_per_second = d2h;
  profile.h2d.bytes_per_second = h2d;
  if (draw.chance(0.5)) {
    profile.duplex_bytes_per_second = (d2h + h2d) * draw.uniform(0.55, 1);
  }
}

inline void draw_blocks(Draw& draw, const TapeShape& shape, Tape& tape) {
  // The sizes of one tape spread over a part of the whole range.
  const double spread = draw.log_uniform(1, 256);
  const auto most = static_cast<double>(shape.max_bytes);
  const auto least = static_cast<double>(shape.min_bytes);
  const double low = draw.log_uniform(least, std::max(least, most / spread));
  const double high = std::min(most, low * spread);
  // A block is worth a copy that takes a few times as long to start (see
  // default_min_offload_bytes()).
  if (draw.chance(0.5)) {
    tape.profile.d2h.latency_seconds = tape.profile.h2d.latency_seconds =
        draw.log_uniform(0.01, 4) * low / tape.profile.d2h.bytes_per_second;
  }
  const double shared = draw.chance(0.5) ? 0 : draw.uniform(0, 0.4);
  const double unused = draw.chance(0.7) ? 0 : draw.uniform(0, 0.1);
  const std::size_t stages = tape.stages.size();
  for (std::size_t s = 0; s < stages; ++s) {
    TapeStage& stage = tape.stages[s];
    for (std::size_t count = 1 + draw.below(3); count-- > 0;) {
      TapeBlock block;
      block.bytes = static_cast<std::size_t>(draw.log_uniform(low, high)) / 4 * 4;
      block.saved_at.push_back(s);
      if (draw.chance(shared)) {
        const std::size_t reach = draw.chance(0.9) ? 3 : stages;
        const std::size_t again = s + 1 + draw.below(reach);
        if (again < stages) block.saved_at.push_back(again);
      }
      stage.makes.push_back(tape.blocks.size());
      for (const std::size_t at : block.saved_at) {
        tape.stages[at].saves.push_back({tape.blocks.size(), !draw.chance(unused)});
      }
      tape.blocks.push_back(std::move(block));
    }
    const auto first = static_cast<double>(tape.blocks[stage.makes.front()].bytes);
    stage.workspace_bytes =
        static_cast<std::size_t>(draw.chance(0.5) ? 4 : first * draw.uniform(0, 0.5));
    stage.gradient_bytes =
        static_cast<std::size_t>(draw.chance(0.3) ? 0 : first * draw.uniform(0.2, 1));
  }
}

// So that the copies of a whole pass take `ratio` times as long as its ops.
inline void draw_times(Draw& draw, Tape& tape) {
  const double ratio = draw.log_uniform(0.2, 3);
  const bool by_size = draw.chance(0.5);
  const double noise = draw.log_uniform(1, 8);
  double sum = 0;
  for (TapeStage& stage : tape.stages) {
    double bytes = 0;
    for (const std::size_t block : stage.makes) {
      bytes += static_cast<double>(tape.blocks[block].bytes);
    }
    stage.forward_seconds = (by_size ? bytes : 1) * draw.log_uniform(1, noise);
    stage.backward_seconds = stage.forward_seconds * draw.uniform(1, 3);
    sum += stage.forward_seconds;
  }
  const double copies =
      static_cast<double>(tape.saved_bytes()) / tape.profile.d2h.bytes_per_second;
  for (TapeStage& stage : tape.stages) {
    stage.forward_seconds *= copies / ratio / sum;
    stage.backward_seconds *= copies / ratio / sum;
  }
}

}  // namespace tape_draw

inline Tape random_tape(std::uint64_t seed, const TapeShape& shape = {}) {
  Draw draw(seed);
  Tape tape;
  tape.seed = seed;
  tape.stages.resize(shape.min_stages +
                     draw.below(shape.max_stages - shape.min_stages + 1));
  tape_draw::draw_links(draw, tape);
  tape_draw::draw_blocks(draw, shape, tape);
  tape_draw::draw_times(draw, tape);
  tape.micro_steps = draw.chance(0.8) ? 1 : 2;
  if (draw.chance(0.3)) {
    tape.swaps = 1 + draw.below(1 + tape.stages.size() / 8);
    tape.swaps_change = draw.chance(0.5);
  }
  return tape;
}

}  // namespace ebb::test
