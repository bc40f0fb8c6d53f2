// Blocks that a backward will ask for, for tests of who orders them.

#pragma once

#include <cstddef>
#include <deque>

#include "offload/engine/block.h"

namespace ebb::test {

// They stay where they are.
class WantedBlocks {
 public:
  offload::Block& add(std::size_t bytes) {
    offload::Block& made = blocks_.emplace_back();
    made.span.bytes = bytes;
    made.wanted = 1;
    return made;
  }

 private:
  std::deque<offload::Block> blocks_;
};

}  // namespace ebb::test
