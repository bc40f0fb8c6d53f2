#include "bench/kernel_ledger.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <vector>

#include "kernels/cpu/cpu_kernels.h"

namespace ebb::bench {
namespace {

using Clock = std::chrono::steady_clock;

double since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

std::vector<float> matrix(std::int64_t rows, std::int64_t columns) {
  std::vector<float> numbers(static_cast<std::size_t>(rows * columns), 0.5F);
  return numbers;
}

double measure(KernelLedger::Product product, const LinearShape& shape) {
  const Kernels& kernels = cpu_kernels();
  std::vector<float> x = matrix(shape.rows, shape.in);
  std::vector<float> weight = matrix(shape.out, shape.in);
  std::vector<float> y = matrix(shape.rows, shape.out);
  std::vector<std::byte> scratch(
      std::max({kernels.linear_forward_workspace(shape),
                kernels.linear_backward_input_workspace(shape),
                kernels.linear_backward_weight_workspace(shape)}));
  const Workspace workspace{scratch.data(), scratch.size()};
  const auto run = [&] {
    switch (product) {
      case KernelLedger::Product::kForward:
        return kernels.linear_forward(shape, x.data(), weight.data(), nullptr, false,
                                      y.data(), workspace, nullptr);
      case KernelLedger::Product::kBackwardInput:
        return kernels.linear_backward_input(shape, y.data(), weight.data(), x.data(),
                                             workspace, nullptr);
      case KernelLedger::Product::kBackwardWeight:
        return kernels.linear_backward_weight(shape, x.data(), y.data(), Into::kOverwrite,
                                              weight.data(), nullptr, workspace, nullptr);
    }
  };
  run();  // Warms up.
  double best = 1e30;
  for (int i = 0; i < 5; ++i) {
    const auto start = Clock::now();
    run();
    best = std::min(best, since(start));
  }
  return best;
}

// The entries of an op table are plain functions, so what they write to is found here.
KernelLedger*& current_ledger() {
  thread_local KernelLedger* current = nullptr;
  return current;
}

// --- what a call of each entry needs, from its arguments ---

constexpr double kBytes = 4;  // Of an f32.
double times(std::int64_t a, std::int64_t b) {
  return static_cast<double>(a) * static_cast<double>(b);
}

Least elements_least(std::int64_t elements, double tensors) {
  return {.bytes = static_cast<double>(elements) * kBytes * tensors};
}
Least least_of(const AttentionShape& s, double products, double tensors) {
  const double rows = times(s.batch, s.seq);
  const double width = times(s.heads, s.head_size);
  const double half = s.causal ? 0.5 : 1.0;
  return {.flops = half * products * 2.0 * rows * static_cast<double>(s.seq) * width,
          .bytes = rows * width * kBytes * tensors};
}

// Times an entry; `how` says what a call needs, from its arguments.
template <auto kEntry, auto kHow>
struct Timed;
template <typename... Arguments, void (*Kernels::*kEntry)(Arguments...), auto kHow>
struct Timed<kEntry, kHow> {
  static inline const char* name = "";
  static void call(Arguments... arguments) {
    const auto start = Clock::now();
    (cpu_kernels().*kEntry)(arguments...);
    const double seconds = since(start);
    if (current_ledger() != nullptr) {
      current_ledger()->add(name, seconds, kHow(arguments...));
    }
  }
};
template <auto kEntry, auto kHow>
void time_entry(Kernels& table, const char* name) {
  Timed<kEntry, kHow>::name = name;
  table.*kEntry = &Timed<kEntry, kHow>::call;
}

template <KernelLedger::Product kWhich>
constexpr auto kProduct = [](const LinearShape& shape, auto...) {
  return Least{.product_seconds = current_ledger()->product_seconds(kWhich, shape)};
};
template <int kTensors>
constexpr auto kElements = [](DType, std::int64_t elements, auto...) {
  return elements_least(elements, kTensors);
};
template <int kTensors>
constexpr auto kNorm = [](const NormShape& s, auto...) {
  return elements_least(s.rows * s.columns, kTensors);
};
template <int kProducts, int kTensors>
constexpr auto kAttention =
    [](const AttentionShape& s, auto...) { return least_of(s, kProducts, kTensors); };
template <int kTensors>
constexpr auto kEmbedding = [](const EmbeddingShape& s, auto...) {
  return elements_least(s.batch * s.seq * s.hidden, kTensors);
};
template <int kTensors>
constexpr auto kDropout = [](const DropoutShape& s, auto...) {
  return elements_least(s.samples * s.elements, kTensors);
};
constexpr auto kCrossEntropy = [](const CrossEntropyShape& s, auto...) {
  return elements_least(s.rows * s.vocabulary, 2);
};

}  // namespace

void KernelLedger::add(const char* entry, double seconds, const Least& least) {
  Row& row = rows_[entry];
  ++row.calls;
  row.seconds += seconds;
  row.least.product_seconds += least.product_seconds;
  row.least.flops += least.flops;
  row.least.bytes += least.bytes;
}

double KernelLedger::product_seconds(Product product, const LinearShape& shape) {
  const Key key{product, shape.rows, shape.in, shape.out};
  const auto found = product_seconds_.find(key);
  if (found != product_seconds_.end()) return found->second;
  const double seconds = measure(product, shape);
  const double flops = 2.0 * static_cast<double>(shape.rows) *
                       static_cast<double>(shape.in) * static_cast<double>(shape.out);
  best_flop_rate_ = std::max(best_flop_rate_, flops / seconds);
  return product_seconds_[key] = seconds;
}

LedgerScope::LedgerScope(KernelLedger& ledger) : before_(current_ledger()) {
  current_ledger() = &ledger;
}
LedgerScope::~LedgerScope() { current_ledger() = before_; }

Kernels timed_kernels() {
  using Product = KernelLedger::Product;
  Kernels table = cpu_kernels();
  time_entry<&Kernels::linear_forward, kProduct<Product::kForward>>(table,
                                                                    "linear_forward");
  time_entry<&Kernels::linear_backward_input, kProduct<Product::kBackwardInput>>(
      table, "linear_backward_input");
  time_entry<&Kernels::linear_backward_weight, kProduct<Product::kBackwardWeight>>(
      table, "linear_backward_weight");
  time_entry<&Kernels::gelu_forward, kElements<2>>(table, "gelu_forward");
  time_entry<&Kernels::gelu_backward, kElements<3>>(table, "gelu_backward");
  time_entry<&Kernels::layer_norm_forward, kNorm<2>>(table, "layer_norm_forward");
  time_entry<&Kernels::layer_norm_backward, kNorm<3>>(table, "layer_norm_backward");
  // Forward: q k^T and p v. Backward: both again, and the products for dv, dp, dq and dk
  // less the one that forward's statistics save.
  time_entry<&Kernels::attention_forward, kAttention<2, 4>>(table, "attention_forward");
  time_entry<&Kernels::attention_backward, kAttention<5, 8>>(table, "attention_backward");
  time_entry<&Kernels::embedding_forward, kEmbedding<2>>(table, "embedding_forward");
  time_entry<&Kernels::embedding_backward, kEmbedding<3>>(table, "embedding_backward");
  time_entry<&Kernels::dropout_forward, kDropout<3>>(table, "dropout_forward");
  time_entry<&Kernels::dropout_backward, kDropout<2>>(table, "dropout_backward");
  time_entry<&Kernels::cross_entropy, kCrossEntropy>(table, "cross_entropy");
  time_entry<&Kernels::fill, kElements<1>>(table, "fill");
  time_entry<&Kernels::add, kElements<3>>(table, "add");
  time_entry<&Kernels::scale, kElements<2>>(table, "scale");
  time_entry<&Kernels::sum_of_squares, kElements<1>>(table, "sum_of_squares");
  constexpr auto kAdamW = [](DType, std::int64_t elements, const AdamW&, auto...) {
    return elements_least(elements, 7);  // Reads p, g, m, v; writes p, m, v.
  };
  time_entry<&Kernels::adamw, kAdamW>(table, "adamw");
  return table;
}

}  // namespace ebb::bench
