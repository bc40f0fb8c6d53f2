#include "kernels/cpu/cpu_kernels.h"

#include <malloc.h>
#include <sys/resource.h>

#include "tests/kernels/attention_reference.h"

namespace ebb {
namespace {

TEST(CpuKernels, AreThoseOfTheBestInstructionSetHere) {
  EXPECT_EQ(&cpu_kernels(), supported_sets().front().table);
}

// Bytes that the C library has from the system, and page faults so far.
struct SystemMemory {
  std::size_t bytes = 0;
  long faults = 0;
};

SystemMemory system_memory() {
  const struct mallinfo2 info = mallinfo2();
  struct rusage usage {};
  getrusage(RUSAGE_SELF, &usage);
  return {info.arena + info.hblkhd, usage.ru_minflt};
}

TEST(CpuKernels, AskTheSystemForNothingOnceAShapeIsKnown) {
  const Kernels& k = cpu_kernels();
  const LinearShape l{.rows = 512, .in = 256, .out = 768};
  const AttentionShape a{
      .batch = 2, .seq = 256, .heads = 4, .kv_heads = 4, .head_size = 64};
  const NormShape n{.rows = 512, .columns = 256};
  const Dropout dropout = attention_dropout(0.1F);
  const Floats x = random_floats(512 * 256, 1);
  const Floats w = random_floats(768 * 256, 2);
  const Floats bias = random_floats(768, 3);
  Floats qkv(512 * 768);
  Floats dqkv(qkv.size());
  Floats out(x.size());
  Floats dx(x.size());
  Floats dw(w.size());
  Floats db(768);
  Floats statistics(2 * 512);
  Floats log_sum_exp(2 * 4 * 256);
  const std::vector<std::int32_t> targets(512, 3);
  Scratch scratch(
      std::max({k.linear_forward_workspace(l), k.attention_forward_workspace(a),
                k.attention_backward_workspace(a), k.layer_norm_backward_workspace(n)}));
  const auto step = [&] {
    k.layer_norm_forward(n, x.data(), bias.data(), bias.data(), out.data(),
                         statistics.data(), statistics.data() + 512, nullptr);
    k.linear_forward(l, out.data(), w.data(), bias.data(), false, qkv.data(), scratch,
                     nullptr);
    k.attention_forward(a, dropout, qkv.data(), out.data(), log_sum_exp.data(), scratch,
                        nullptr);
    k.dropout_forward({.samples = 2, .elements = 256 * 256}, dropout, out.data(), x.data(),
                      dx.data(), nullptr);
    k.attention_backward(a, dropout, qkv.data(), out.data(), log_sum_exp.data(), x.data(),
                         dqkv.data(), scratch, nullptr);
    k.linear_backward_input(l, dqkv.data(), w.data(), dx.data(), {}, nullptr);
    k.linear_backward_weight(l, x.data(), dqkv.data(), Into::kAdd, dw.data(), db.data(), {},
                             nullptr);
    k.layer_norm_backward(n, x.data(), bias.data(), statistics.data(),
                          statistics.data() + 512, out.data(), dx.data(), Into::kAdd,
                          db.data(), db.data() + 256, scratch, nullptr);
    k.gelu_backward(DType::kF32, 512 * 768, qkv.data(), dqkv.data(), dqkv.data(), nullptr);
    k.cross_entropy({.rows = 512, .vocabulary = 768}, qkv.data(), targets.data(),
                    statistics.data(), true, 1, nullptr);
    k.sum_of_squares(DType::kF32, 512 * 768, qkv.data(), db.data(), nullptr);
  };
  step();
  step();
  const SystemMemory before = system_memory();
  for (int i = 0; i < 5; ++i) step();
  const SystemMemory after = system_memory();
  if (before.bytes == 0) return;  // A sanitizer's allocator, which keeps what is freed.
  EXPECT_EQ(after.bytes, before.bytes);
  // oneDNN's scratch for these shapes is some 2 MB a call: 500 pages, were it new each
  // time.
  EXPECT_LT(after.faults - before.faults, 100);
}

}  // namespace
}  // namespace ebb
