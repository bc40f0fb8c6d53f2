// Of kernels/cpu/vector.h and random_vector.h, as compiled for this file: the baseline. The
// tests of the ops see the other instruction sets.

#include "kernels/cpu/vector.h"

#include "kernels/cpu/random_vector.h"
#include "tests/kernels/kernel_fixture.h"

namespace ebb::cpu::EBB_ISA {
namespace {

TEST(Vector, ExponentialIsWithinTwoUnitsInTheLastPlace) {
  const std::int64_t count = 1 << 20;
  double worst = 0;
  for (std::int64_t i = 0; i < count; i += kLanes) {
    Vector x{};
    for (std::int64_t lane = 0; lane < kLanes; ++lane) {
      x[lane] = static_cast<float>(-87.3 + 176.0 * static_cast<double>(i + lane) / count);
    }
    const Vector y = exp(x);
    for (std::int64_t lane = 0; lane < kLanes; ++lane) {
      const double exact = std::exp(double{x[lane]});
      const auto near = static_cast<float>(exact);
      const double unit = std::nextafter(near, INFINITY) - near;
      worst = std::max(worst, std::fabs(y[lane] - exact) / unit);
    }
  }
  EXPECT_LE(worst, 2);
}

TEST(Vector, ExponentialMeetsItsEnds) {
  const auto at = [](float x) { return Vector(exp(broadcast(x)))[0]; };
  EXPECT_EQ(at(0), 1);
  EXPECT_EQ(at(-INFINITY), 0);
  EXPECT_EQ(at(-88), 0);
  EXPECT_EQ(at(1000), at(INFINITY));
  EXPECT_GT(at(1000), 3e38F);
  EXPECT_TRUE(std::isnan(at(NAN)));
}

TEST(Vector, SumsAndMaximaTakeTheLanesThatAreThere) {
  for (std::int64_t count = 1; count < 100; ++count) {
    const Floats x = random_floats(count, 1);
    const float sum = sum_terms(count, [&](auto access, std::int64_t i) {
      return access.load(&x[static_cast<std::size_t>(i)]);
    });
    EXPECT_NEAR(sum, dot(Doubles(x.size(), 1), x), 1e-4);
  }
  Vector v = broadcast(-3);
  v[kLanes - 1] = -1;
  EXPECT_EQ(max_lanes(v), -1);
}

TEST(Vector, RandomNumbersAreThoseOfPhilox) {
  const RandomKey key{.seed = 1234567890123U, .step = 5, .op = 6, .first_sample = 7};
  std::uint32_t numbers[40 + 4 * kLanes];
  for (const std::uint64_t first : {std::uint64_t{0}, (std::uint64_t{1} << 32) - 3}) {
    random_numbers(key, 2, first, 40, numbers);
    for (std::size_t i = 0; i < 40; ++i) {
      EXPECT_EQ(numbers[i], random_block(key, 2, first + i / 4)[i % 4]);
    }
  }
}

// Known answers of Random123's kat_vectors for philox4x32-10.
TEST(Philox, GivesItsAuthorsNumbers) {
  EXPECT_EQ(philox4x32({0, 0, 0, 0}, 0, 0),
            (PhiloxBlock{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(
      philox4x32({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, 0xffffffff, 0xffffffff),
      (PhiloxBlock{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(
      philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, 0xa4093822, 0x299f31d0),
      (PhiloxBlock{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

}  // namespace
}  // namespace ebb::cpu::EBB_ISA
