// What the tests of the kernels share: inputs, memory at odd addresses, tolerances, and
// each test run for every instruction set that the machine has.

#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "allocator/error.h"
#include "kernels/cpu/cpu_kernels.h"
#include "kernels/cpu/instruction_sets.h"

namespace ebb {

// Half the distance between 1 and the next float: the relative error of one operation.
inline constexpr double kRounding = 5.9604644775390625e-8;

inline std::vector<cpu::InstructionSet> supported_sets() {
  const auto all = cpu::instruction_sets();
  std::vector<cpu::InstructionSet> sets;
  std::copy_if(all.begin(), all.end(), std::back_inserter(sets),
               [](const cpu::InstructionSet& set) { return set.supported; });
  return sets;
}

// A test that runs once for each instruction set.
class KernelTest : public ::testing::TestWithParam<cpu::InstructionSet> {
 protected:
  const Kernels& kernels() const { return *GetParam().table; }
};

inline std::string set_name(const ::testing::TestParamInfo<cpu::InstructionSet>& info) {
  std::string name = info.param.name;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

using Floats = std::vector<float>;
using Doubles = std::vector<double>;

inline Floats random_floats(std::int64_t count, std::uint32_t seed, float scale = 1) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal(0.0F, scale);
  Floats values(static_cast<std::size_t>(count));
  for (float& value : values) value = normal(generator);
  return values;
}

inline Doubles doubles(const Floats& x) { return {x.begin(), x.end()}; }

// As many bytes as a kernel asks for, and not one more: ASan sees it.
class Scratch {
 public:
  explicit Scratch(std::size_t bytes) : bytes_(bytes) {}
  operator Workspace() {  // NOLINT(google-explicit-constructor): it stands for one.
    return {bytes_.empty() ? nullptr : bytes_.data(), bytes_.size()};
  }

 private:
  std::vector<char> bytes_;
};

// Each of `got` is within tolerance(i) of `expected`.
inline void expect_close(const Floats& got, const Doubles& expected,
                         const std::function<double(std::size_t)>& tolerance,
                         const char* what) {
  ASSERT_EQ(got.size(), expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    ASSERT_LE(std::fabs(got[i] - expected[i]), tolerance(i))
        << what << "[" << i << "] is " << got[i] << ", not " << expected[i];
  }
}

// Of `roundings` operations on numbers as large as `magnitude` at most.
inline std::function<double(std::size_t)> rounding(double roundings, double magnitude) {
  return [=](std::size_t) { return roundings * kRounding * magnitude; };
}

inline double largest(const Doubles& x) {
  double most = 0;
  for (const double value : x) most = std::max(most, std::fabs(value));
  return most;
}

// d f / d x[i] by central differences, f being smooth and in doubles: the error is about
// step^2.
inline Doubles finite_differences(Doubles x, const std::function<double(const Doubles&)>& f,
                                  double step = 1e-4) {
  Doubles gradient(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double at = x[i];
    x[i] = at + step;
    const double above = f(x);
    x[i] = at - step;
    gradient[i] = (above - f(x)) / (2 * step);
    x[i] = at;
  }
  return gradient;
}

inline double dot(const Doubles& a, const Floats& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

inline bool same_bits(const Floats& a, const Floats& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * 4) == 0;
}

// The absl code that `call` throws.
inline void expect_invalid(const std::function<void()>& call, const std::string& part) {
  try {
    call();
    FAIL() << "nothing thrown; expected an error with '" << part << "'";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
  }
}

}  // namespace ebb

// Declares the suite `name` and runs its TEST_P for every instruction set.
#define EBB_KERNEL_TEST(name)        \
  class name : public KernelTest {}; \
  INSTANTIATE_TEST_SUITE_P(Sets, name, ::testing::ValuesIn(supported_sets()), set_name)
