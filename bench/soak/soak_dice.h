// Random decisions that are the same everywhere.

#pragma once

#include <cstdint>
#include <random>
#include <span>

namespace ebb::bench {

// One thread at a time.
class Dice {
 public:
  explicit Dice(std::uint64_t seed) : engine_(seed) {}

  // From `least` to `most`.
  std::int64_t between(std::int64_t least, std::int64_t most) {
    const auto count = static_cast<std::uint64_t>(most - least + 1);
    return least + static_cast<std::int64_t>(engine_() % count);
  }
  bool chance(double probability) { return unit() < probability; }
  // A place in `weights`, each as likely as it weighs; not all are 0.
  std::size_t weighted(std::span<const double> weights) {
    double sum = 0;
    for (const double weight : weights) sum += weight;
    double left = unit() * sum;
    std::size_t last = 0;
    for (std::size_t i = 0; i < weights.size(); ++i) {
      if (weights[i] <= 0) continue;
      last = i;
      left -= weights[i];
      if (left < 0) break;
    }
    return last;
  }

 private:
  double unit() { return static_cast<double>(engine_() >> 11) * 0x1p-53; }

  std::mt19937_64 engine_;
};

}  // namespace ebb::bench
