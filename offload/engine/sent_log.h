// The blocks that were sent in a step, for whoever judges the step when it is over.

#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "offload/engine/engine_figures.h"

namespace ebb::offload {

// One thread at a time.
class SentLog {
 public:
  // A block's place in the log. The default one is no block's.
  struct Mark {
    std::uint64_t generation = 0;
    std::size_t index = 0;

    bool empty() const noexcept { return generation == 0; }
  };

  Mark add(std::size_t bytes, std::int32_t stage, const Fence& made);
  // The block is used, and `before` is the end of the last op before that. The first use
  // counts. Nothing happens if the log has closed since the block came.
  void used(const Mark& mark, const Event& before) noexcept;
  // A step is over: the blocks of steps before it are forgotten.
  void end_step() noexcept;
  // The blocks of the last step and of this one. The log is empty then.
  std::vector<SentBlock> take();

 private:
  std::vector<SentBlock> now_;   // In this step,
  std::vector<SentBlock> last_;  // and in the last one.
  std::uint64_t generation_ = 1;
};

}  // namespace ebb::offload
