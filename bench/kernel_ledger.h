// What each entry of the CPU's op table takes, and what it would have to take at least.

#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <tuple>

#include "kernels/kernels.h"

namespace ebb::bench {

// What calls have to do at least.
struct Least {
  double product_seconds =
      0;             // Of the matrix products of linear layers, alone, at oneDNN's rate.
  double flops = 0;  // Of other products (attention's).
  double bytes = 0;  // Read and written by ops that are no linear layers.
};

// One thread at a time.
class KernelLedger {
 public:
  struct Row {
    std::int64_t calls = 0;
    double seconds = 0;
    Least least;
  };
  enum class Product : std::uint8_t { kForward, kBackwardInput, kBackwardWeight };

  void add(const char* entry, double seconds, const Least& least);
  void clear() { rows_.clear(); }  // Keeps the rates.
  const std::map<std::string, Row>& rows() const noexcept { return rows_; }

  // The best time of this matrix product with nothing fused to it: measured the first time
  // that it is asked for, which takes some calls of it.
  double product_seconds(Product product, const LinearShape& shape);
  // The highest rate of those products, in flops a second.
  double best_flop_rate() const noexcept { return best_flop_rate_; }

 private:
  using Key = std::tuple<Product, std::int64_t, std::int64_t, std::int64_t>;

  std::map<std::string, Row> rows_;
  std::map<Key, double> product_seconds_;
  double best_flop_rate_ = 0;
};

// Calls that this thread makes through timed_kernels() go to `ledger` while the scope
// lasts.
class LedgerScope {
 public:
  explicit LedgerScope(KernelLedger& ledger);
  ~LedgerScope();
  LedgerScope(const LedgerScope&) = delete;
  LedgerScope& operator=(const LedgerScope&) = delete;

 private:
  KernelLedger* before_;
};

// cpu_kernels(), with the entries that do a step's work timed.
Kernels timed_kernels();

}  // namespace ebb::bench
