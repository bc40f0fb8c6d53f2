#include "bench/kernel_ledger.h"

#include <array>
#include <cstddef>
#include <vector>

#include "gtest/gtest.h"

#include "kernels/cpu/cpu_kernels.h"

namespace ebb::bench {
namespace {

constexpr std::int64_t kElements = 1000;

void add_ones(const Kernels& kernels, float* y) {
  std::array<float, kElements> ones;
  ones.fill(1);
  kernels.add(DType::kF32, kElements, ones.data(), ones.data(), y, nullptr);
}

TEST(KernelLedgerTest, CountsCallsAndBytesAndLeavesTheResultAlone) {
  KernelLedger ledger;
  std::array<float, kElements> y{};
  {
    const LedgerScope scope(ledger);
    add_ones(timed_kernels(), y.data());
    add_ones(timed_kernels(), y.data());
  }
  EXPECT_EQ(y[0], 2);
  EXPECT_EQ(y[kElements - 1], 2);
  const KernelLedger::Row& row = ledger.rows().at("add");
  EXPECT_EQ(row.calls, 2);
  EXPECT_GT(row.seconds, 0);
  EXPECT_EQ(row.least.bytes, 2 * 3 * 4 * kElements);
  EXPECT_EQ(row.least.flops, 0);
}

TEST(KernelLedgerTest, HearsNothingOutsideOfAScope) {
  KernelLedger ledger;
  std::array<float, kElements> y{};
  { const LedgerScope scope(ledger); }
  add_ones(timed_kernels(), y.data());
  EXPECT_TRUE(ledger.rows().empty());
}

TEST(KernelLedgerTest, MeasuresEachProductOnce) {
  KernelLedger ledger;
  const LinearShape shape{.rows = 64, .in = 32, .out = 48};
  const double seconds = ledger.product_seconds(KernelLedger::Product::kForward, shape);
  EXPECT_GT(seconds, 0);
  EXPECT_EQ(ledger.product_seconds(KernelLedger::Product::kForward, shape), seconds);
  EXPECT_NEAR(ledger.best_flop_rate(), 2.0 * 64 * 32 * 48 / seconds, 1e-3 / seconds);
}

TEST(KernelLedgerTest, CausalAttentionNeedsHalfTheProducts) {
  const auto flops = [](bool causal) {
    const AttentionShape shape{
        .batch = 1, .seq = 4, .heads = 1, .kv_heads = 1, .head_size = 8, .causal = causal};
    const Kernels kernels = timed_kernels();
    std::array<float, 4 * 3 * 8> qkv{};
    std::array<float, 4 * 8> out{};
    std::array<float, 4> log_sum_exp{};
    std::vector<std::byte> scratch(kernels.attention_forward_workspace(shape));
    KernelLedger ledger;
    const LedgerScope scope(ledger);
    kernels.attention_forward(shape, {}, qkv.data(), out.data(), log_sum_exp.data(),
                              {scratch.data(), scratch.size()}, nullptr);
    return ledger.rows().at("attention_forward").least.flops;
  };
  EXPECT_EQ(flops(false), 2.0 * 2 * 4 * 4 * 8);
  EXPECT_EQ(flops(true), flops(false) / 2);
}

}  // namespace
}  // namespace ebb::bench
