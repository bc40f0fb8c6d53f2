#include "kernels/cpu/check.h"

#include "tests/kernels/kernel_fixture.h"

namespace ebb::cpu {
namespace {

TEST(Check, NamesTheOpAndWhatIsWrong) {
  expect_invalid([] { require_f32(DType::kBF16, "some_op"); }, "some_op: dtype bf16");
  expect_invalid([] { require_positive(0, "some_op", "rows"); }, "some_op: rows is 0");
  expect_invalid([] { require_elements(-1, "some_op"); }, "some_op: -1 elements");
  expect_invalid([] { require_probability(1.0F, "some_op"); }, "probability of 1");
  expect_invalid([] { require_probability(NAN, "some_op"); }, "some_op");
  expect_invalid([] { require_workspace({nullptr, 8}, 8, "some_op"); }, "some_op");
  expect_invalid([] { require_dimensions(9, 8, "some_op"); }, "9 dimensions; at most 8");
  const float master = 0;
  expect_invalid([&] { require_no_master(&master); }, "master");
  expect_invalid([] { require_attention({.batch = 1, .seq = 0}, "some_op"); }, "seq is 0");
  const std::int32_t tokens[] = {0, 4, 5};
  expect_invalid([&] { require_indices(3, tokens, 0, 5, "some_op", "token"); },
                 "token 5 at 2 is outside the vocabulary of 5");
}

TEST(Check, LetsWhatIsRightPass) {
  require_f32(DType::kF32, "op");
  require_positive(1, "op", "rows");
  require_elements(0, "op");
  require_probability(0, "op");
  require_workspace({nullptr, 0}, 0, "op");
  require_dimensions(0, 8, "op");
  require_no_master(nullptr);
  const std::int32_t targets[] = {-1, 4};
  require_indices(2, targets, -1, 5, "op", "target");
}

}  // namespace
}  // namespace ebb::cpu
