// How far is each op of the CPU's table from what the machine can do, at the shapes of one
// GPT-2 124M training step of 4 x 256 tokens?
//
// `of_bound` is the time that a product of oneDNN takes for as many FLOPs (1024 x 1024 x
// 1024), plus what memcpy takes for as many bytes in as large a footprint, over the op's
// own time. Both are measured here, with the same threads.

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <vector>

#include <benchmark/benchmark.h>

#include "kernels/cpu/cpu_kernels.h"
#include "kernels/cpu/gemm.h"
#include "kernels/cpu/parallel.h"

namespace {

using ebb::cpu_kernels;
using ebb::DType;
using Floats = std::vector<float>;

constexpr std::int64_t kBatch = 4;
constexpr std::int64_t kSeq = 256;
constexpr std::int64_t kRows = kBatch * kSeq;
constexpr std::int64_t kHidden = 768;
constexpr std::int64_t kVocabulary = 50257;

// The shortest of several runs: what else runs on the machine only ever adds.
double best_seconds(const std::function<void()>& body) {
  double best = INFINITY;
  for (int i = 0; i < 12; ++i) {
    const auto start = std::chrono::steady_clock::now();
    body();
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
    best = std::min(best, taken.count());
  }
  return best;
}

double product_flops_per_second() {
  static const double rate = [] {
    constexpr std::int64_t kSize = 1024;
    const Floats a(kSize * kSize, 0.5F);
    Floats c(a.size());
    return 2.0 * kSize * kSize * kSize / best_seconds([&] {
             ebb::cpu::gemm({.m = kSize, .n = kSize, .k = kSize}, a.data(), a.data(),
                            c.data());
           });
  }();
  return rate;
}

// Reading half of `bytes` and writing the other half.
double copy_seconds(double bytes) {
  static std::map<double, double> known;
  if (const auto found = known.find(bytes); found != known.end()) return found->second;
  const auto half = static_cast<std::int64_t>(bytes / 2);
  std::vector<char> from(static_cast<std::size_t>(half), 1);
  std::vector<char> to(from.size());
  return known[bytes] = best_seconds([&] {
           ebb::cpu::parallel_pieces(half, 1 << 16,
                                     [&](std::int64_t begin, std::int64_t end) {
                                       std::memcpy(to.data() + begin, from.data() + begin,
                                                   static_cast<std::size_t>(end - begin));
                                     });
         });
}

struct Op {
  double flops = 0;  // In products.
  double bytes = 0;  // Read and written, each once.
  std::function<void()> run = {};
  const Floats* result = nullptr;
};

void measure(benchmark::State& state, const Op& op) {
  op.run();
  double best = INFINITY;
  for (auto _ : state) {
    const auto start = std::chrono::steady_clock::now();
    op.run();
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
    best = std::min(best, taken.count());
    state.SetIterationTime(taken.count());
  }
  const auto finite = [](float value) { return std::isfinite(value); };
  if (!std::all_of(op.result->begin(), op.result->end(), finite)) {
    state.SkipWithError("the result is not finite");
    return;
  }
  const double bound =
      op.flops / product_flops_per_second() + (op.bytes > 0 ? copy_seconds(op.bytes) : 0);
  state.counters["of_bound"] = bound / best;
  state.counters["best_ms"] = best * 1e3;
  if (op.flops > 0) state.counters["GFLOP/s"] = op.flops / best * 1e-9;
  if (op.bytes > 0) state.counters["GB/s"] = op.bytes / best * 1e-9;
}

Floats values(std::int64_t count, float scale = 1) {
  Floats x(static_cast<std::size_t>(count));
  std::uint32_t state = 1;
  for (float& value : x) {
    state = state * 1664525U + 1013904223U;
    value = scale * (static_cast<float>(state >> 8) * 0x1p-23F - 1.0F);
  }
  return x;
}

ebb::Dropout dropout() { return {.probability = 0.1F, .key = {.seed = 1}}; }

enum class Direction : std::uint8_t { kForward, kForwardGelu, kInput, kWeight };

void linear(benchmark::State& state, Direction direction, std::int64_t in,
            std::int64_t out) {
  const ebb::Kernels& k = cpu_kernels();
  const ebb::LinearShape s{.rows = kRows, .in = in, .out = out};
  Floats x = values(kRows * in);
  Floats weight = values(out * in, 0.1F);
  Floats y = values(kRows * out);
  Floats bias = values(out);
  Floats scratch(k.linear_forward_workspace(s) / sizeof(float) + 1);
  const ebb::Workspace workspace{scratch.data(), scratch.size() * sizeof(float)};
  Op op{.flops = 2.0 * kRows * static_cast<double>(in * out),
        .bytes = 0,
        .run = {},
        .result = nullptr};
  switch (direction) {
    case Direction::kForward:
    case Direction::kForwardGelu:
      op.result = &y;
      op.run = [&, gelu = direction == Direction::kForwardGelu] {
        k.linear_forward(s, x.data(), weight.data(), bias.data(), gelu, y.data(), workspace,
                         nullptr);
      };
      break;
    case Direction::kInput:
      op.result = &x;
      op.run = [&] {
        k.linear_backward_input(s, y.data(), weight.data(), x.data(), {}, nullptr);
      };
      break;
    case Direction::kWeight:
      op.result = &weight;
      op.run = [&] {
        k.linear_backward_weight(s, x.data(), y.data(), ebb::Into::kOverwrite,
                                 weight.data(), bias.data(), {}, nullptr);
      };
      break;
  }
  measure(state, op);
}

void attention(benchmark::State& state, bool backward, std::int64_t batch, std::int64_t seq,
               float probability) {
  const ebb::Kernels& k = cpu_kernels();
  const ebb::AttentionShape s{
      .batch = batch, .seq = seq, .heads = 12, .kv_heads = 12, .head_size = 64};
  ebb::Dropout drop = dropout();
  drop.probability = probability;
  const Floats qkv = values(batch * seq * 3 * kHidden);
  Floats dqkv(qkv.size());
  Floats out(static_cast<std::size_t>(batch * seq * kHidden));
  Floats log_sum_exp(static_cast<std::size_t>(batch * seq * 12));
  const std::size_t bytes =
      std::max(k.attention_forward_workspace(s), k.attention_backward_workspace(s));
  Floats scratch(bytes / sizeof(float));
  const auto forward = [&] {
    k.attention_forward(s, drop, qkv.data(), out.data(), log_sum_exp.data(),
                        {scratch.data(), bytes}, nullptr);
  };
  // Half of the matrix of scores, two products forward and five backward.
  const auto pairs = static_cast<double>(batch * 12 * seq * (seq + 1)) / 2;
  const auto elements = static_cast<double>(batch * seq * kHidden);
  Op op{.flops = pairs * 64 * 2 * (backward ? 5 : 2),
        .bytes = elements * 4 * (backward ? 8 : 4),
        .run = forward,
        .result = &out};
  if (backward) {
    forward();
    op.result = &dqkv;
    op.run = [&] {
      k.attention_backward(s, drop, qkv.data(), out.data(), log_sum_exp.data(), out.data(),
                           dqkv.data(), {scratch.data(), bytes}, nullptr);
    };
  }
  measure(state, op);
}

void layer_norm(benchmark::State& state, bool backward) {
  const ebb::Kernels& k = cpu_kernels();
  const ebb::NormShape s{.rows = kRows, .columns = kHidden};
  const Floats x = values(kRows * kHidden);
  Floats y(x.size());
  Floats gamma = values(kHidden);
  Floats beta = values(kHidden);
  Floats mean(kRows);
  Floats rstd(kRows);
  Floats scratch(k.layer_norm_backward_workspace(s) / sizeof(float));
  const auto forward = [&] {
    k.layer_norm_forward(s, x.data(), gamma.data(), beta.data(), y.data(), mean.data(),
                         rstd.data(), nullptr);
  };
  Op op{.bytes = 2.0 * kRows * kHidden * 4, .run = forward, .result = &y};
  Floats dx(x.size());
  Floats dgamma(kHidden);
  Floats dbeta(kHidden);
  if (backward) {
    forward();
    op = {.bytes = 3.0 * kRows * kHidden * 4, .result = &dx};
    op.run = [&] {
      k.layer_norm_backward(s, x.data(), gamma.data(), mean.data(), rstd.data(), y.data(),
                            dx.data(), ebb::Into::kOverwrite, dgamma.data(), dbeta.data(),
                            {scratch.data(), scratch.size() * sizeof(float)}, nullptr);
    };
  }
  measure(state, op);
}

void gelu(benchmark::State& state, bool backward) {
  constexpr std::int64_t kCount = kRows * 4 * kHidden;
  const Floats x = values(kCount, 3);
  Floats y(x.size());
  measure(state, {.bytes = (backward ? 3.0 : 2.0) * kCount * 4,
                  .run =
                      [&] {
                        if (backward) {
                          cpu_kernels().gelu_backward(DType::kF32, kCount, x.data(),
                                                      x.data(), y.data(), nullptr);
                        } else {
                          cpu_kernels().gelu_forward(DType::kF32, kCount, x.data(),
                                                     y.data(), nullptr);
                        }
                      },
                  .result = &y});
}

void dropout_add(benchmark::State& state) {
  constexpr std::int64_t kCount = kRows * kHidden;
  const Floats x = values(kCount);
  const Floats residual = values(kCount);
  Floats y(x.size());
  measure(state, {.bytes = 3.0 * kCount * 4,
                  .run =
                      [&] {
                        cpu_kernels().dropout_forward(
                            {.samples = kBatch, .elements = kCount / kBatch}, dropout(),
                            x.data(), residual.data(), y.data(), nullptr);
                      },
                  .result = &y});
}

void cross_entropy(benchmark::State& state, bool gradient) {
  Floats logits = values(kRows * kVocabulary);
  const std::vector<std::int32_t> targets(kRows, 7);
  Floats losses(kRows);
  measure(state, {.bytes = (gradient ? 2.0 : 1.0) * kRows * kVocabulary * 4,
                  .run =
                      [&] {
                        cpu_kernels().cross_entropy(
                            {.rows = kRows, .vocabulary = kVocabulary}, logits.data(),
                            targets.data(), losses.data(), gradient, 1.0F / kRows, nullptr);
                      },
                  .result = &losses});
}

void embedding(benchmark::State& state, bool backward) {
  const ebb::EmbeddingShape s{
      .batch = kBatch, .seq = kSeq, .hidden = kHidden, .vocabulary = kVocabulary};
  std::vector<std::int32_t> tokens(kRows);
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    tokens[i] = static_cast<std::int32_t>(i * 7919 % kVocabulary);
  }
  Floats table = values(kVocabulary * kHidden);
  Floats positions = values(kSeq * kHidden);
  Floats out = values(kRows * kHidden);
  measure(state, {.bytes = (backward ? 5.0 : 3.0) * kRows * kHidden * 4,
                  .run =
                      [&] {
                        if (backward) {
                          cpu_kernels().embedding_backward(s, tokens.data(), out.data(),
                                                           table.data(), positions.data(),
                                                           {}, nullptr);
                        } else {
                          cpu_kernels().embedding_forward(s, tokens.data(), table.data(),
                                                          positions.data(), out.data(),
                                                          nullptr);
                        }
                      },
                  .result = &out});
}

constexpr std::int64_t kParameters = kVocabulary * kHidden;

void adamw(benchmark::State& state) {
  Floats p = values(kParameters);
  const Floats g = values(kParameters);
  Floats m = values(kParameters);
  Floats v(p.size(), 1);
  const ebb::AdamW options{.learning_rate = 1e-3F};
  measure(state, {.bytes = 7.0 * kParameters * 4,
                  .run =
                      [&] {
                        cpu_kernels().adamw(DType::kF32, kParameters, options, p.data(),
                                            g.data(), nullptr, m.data(), v.data(), nullptr,
                                            nullptr);
                      },
                  .result = &p});
}

void sum_of_squares(benchmark::State& state) {
  const Floats x = values(kParameters);
  Floats out(1);
  measure(state, {.bytes = 1.0 * kParameters * 4,
                  .run =
                      [&] {
                        cpu_kernels().sum_of_squares(DType::kF32, kParameters, x.data(),
                                                     out.data(), nullptr);
                      },
                  .result = &out});
}

void add(benchmark::State& state) {
  constexpr std::int64_t kCount = kRows * kHidden;
  const Floats x = values(kCount);
  Floats y(x.size());
  measure(state, {.bytes = 3.0 * kCount * 4,
                  .run =
                      [&] {
                        cpu_kernels().add(DType::kF32, kCount, x.data(), x.data(), y.data(),
                                          nullptr);
                      },
                  .result = &y});
}

void time_in_milliseconds(benchmark::internal::Benchmark* bench) {
  bench->UseManualTime()->Unit(benchmark::kMillisecond);
}

using D = Direction;
BENCHMARK_CAPTURE(linear, qkv_forward, D::kForward, 768, 2304)->Apply(time_in_milliseconds);
BENCHMARK_CAPTURE(linear, qkv_input, D::kInput, 768, 2304)->Apply(time_in_milliseconds);
BENCHMARK_CAPTURE(linear, qkv_weight, D::kWeight, 768, 2304)->Apply(time_in_milliseconds);
BENCHMARK_CAPTURE(linear, out_forward, D::kForward, 768, 768)->Apply(time_in_milliseconds);
BENCHMARK_CAPTURE(linear, out_input, D::kInput, 768, 768)->Apply(time_in_milliseconds);
BENCHMARK_CAPTURE(linear, out_weight, D::kWeight, 768, 768)->Apply(time_in_milliseconds);
BENCHMARK_CAPTURE(linear, up_forward, D::kForward, 768, 3072)->Apply(time_in_milliseconds);
BENCHMARK_CAPTURE(linear, up_gelu, D::kForwardGelu, 768, 3072)->Apply(time_in_milliseconds);
BENCHMARK_CAPTURE(linear, up_input, D::kInput, 768, 3072)->Apply(time_in_milliseconds);
BENCHMARK_CAPTURE(linear, up_weight, D::kWeight, 768, 3072)->Apply(time_in_milliseconds);
BENCHMARK_CAPTURE(linear, down_forward, D::kForward, 3072, 768)
    ->Apply(time_in_milliseconds);
BENCHMARK_CAPTURE(linear, down_input, D::kInput, 3072, 768)->Apply(time_in_milliseconds);
BENCHMARK_CAPTURE(linear, down_weight, D::kWeight, 3072, 768)->Apply(time_in_milliseconds);
BENCHMARK_CAPTURE(linear, head_forward, D::kForward, 768, kVocabulary)
    ->Apply(time_in_milliseconds);
BENCHMARK_CAPTURE(linear, head_input, D::kInput, 768, kVocabulary)
    ->Apply(time_in_milliseconds);
BENCHMARK_CAPTURE(linear, head_weight, D::kWeight, 768, kVocabulary)
    ->Apply(time_in_milliseconds);
BENCHMARK_CAPTURE(attention, forward, false, 4, 256, 0.1F)->Apply(time_in_milliseconds);
BENCHMARK_CAPTURE(attention, backward, true, 4, 256, 0.1F)->Apply(time_in_milliseconds);
BENCHMARK_CAPTURE(attention, forward_plain, false, 4, 256, 0.0F)
    ->Apply(time_in_milliseconds);
BENCHMARK_CAPTURE(attention, backward_plain, true, 4, 256, 0.0F)
    ->Apply(time_in_milliseconds);
BENCHMARK_CAPTURE(attention, forward_long, false, 1, 1024, 0.1F)
    ->Apply(time_in_milliseconds);
BENCHMARK_CAPTURE(attention, backward_long, true, 1, 1024, 0.1F)
    ->Apply(time_in_milliseconds);
BENCHMARK_CAPTURE(layer_norm, forward, false)->Apply(time_in_milliseconds);
BENCHMARK_CAPTURE(layer_norm, backward, true)->Apply(time_in_milliseconds);
BENCHMARK_CAPTURE(gelu, forward, false)->Apply(time_in_milliseconds);
BENCHMARK_CAPTURE(gelu, backward, true)->Apply(time_in_milliseconds);
BENCHMARK(dropout_add)->Apply(time_in_milliseconds);
BENCHMARK_CAPTURE(cross_entropy, loss, false)->Apply(time_in_milliseconds);
BENCHMARK_CAPTURE(cross_entropy, gradient, true)->Apply(time_in_milliseconds);
BENCHMARK_CAPTURE(embedding, forward, false)->Apply(time_in_milliseconds);
BENCHMARK_CAPTURE(embedding, backward, true)->Apply(time_in_milliseconds);
BENCHMARK(adamw)->Apply(time_in_milliseconds);
BENCHMARK(sum_of_squares)->Apply(time_in_milliseconds);
BENCHMARK(add)->Apply(time_in_milliseconds);

}  // namespace
