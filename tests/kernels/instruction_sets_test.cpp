#include "kernels/cpu/instruction_sets.h"

#include "tests/kernels/kernel_fixture.h"

namespace ebb::cpu {
namespace {

TEST(InstructionSets, EndWithOneThatRunsEverywhere) {
  ASSERT_FALSE(instruction_sets().empty());
  EXPECT_TRUE(instruction_sets().back().supported);
}

TEST(InstructionSets, HaveATableEach) {
  for (const InstructionSet& set : instruction_sets()) {
    ASSERT_NE(set.table, nullptr) << set.name;
    for (const InstructionSet& other : instruction_sets()) {
      if (&set != &other) {
        EXPECT_NE(set.table, other.table);
        EXPECT_NE(set.table->gelu_forward, other.table->gelu_forward);
      }
    }
  }
}

}  // namespace
}  // namespace ebb::cpu
