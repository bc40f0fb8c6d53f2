// Vectors of floats as wide as the registers of the instruction set that a file is compiled
// for, and the functions that the kernels need of them.
//
// Files that include this are compiled once for each instruction set, into a namespace of
// its own (EBB_ISA): a machine always takes the same one, so that its bits stay. Everything
// here is per lane, and therefore the same at any position of an array, tails included.

#pragma once

#include <cstdint>
#include <cstring>

namespace ebb::cpu::EBB_ISA {

// NOLINTBEGIN(modernize-use-using): the attribute is read here by both compilers.
typedef float Vector __attribute__((vector_size(__BIGGEST_ALIGNMENT__)));
typedef std::int32_t Integers __attribute__((vector_size(__BIGGEST_ALIGNMENT__)));
typedef std::uint32_t Words __attribute__((vector_size(__BIGGEST_ALIGNMENT__)));
// NOLINTEND(modernize-use-using)

inline constexpr std::int64_t kLanes = sizeof(Vector) / sizeof(float);

[[gnu::always_inline]] inline Vector broadcast(float x) { return x - Vector{}; }

[[gnu::always_inline]] inline Vector load(const float* p) {
  Vector v;
  std::memcpy(&v, p, sizeof v);
  return v;
}

[[gnu::always_inline]] inline void store(float* p, Vector v) {
  std::memcpy(p, &v, sizeof v);
}

// How for_vectors() reads and writes: all lanes, or the first few.
struct Whole {
  [[gnu::always_inline]] Vector load(const float* p, float /*fill*/ = 0) const {
    return EBB_ISA::load(p);
  }
  [[gnu::always_inline]] void store(float* p, Vector v) const { EBB_ISA::store(p, v); }
  // `v`, with 0 in the lanes that are not there.
  [[gnu::always_inline]] Vector only(Vector v) const { return v; }
};

struct Part {
  std::int64_t lanes;

  // The lanes that are not there are `fill`.
  [[gnu::always_inline]] Vector load(const float* p, float fill = 0) const {
    float filled[kLanes];
    for (std::int64_t i = 0; i < kLanes; ++i) filled[i] = i < lanes ? p[i] : fill;
    return EBB_ISA::load(filled);
  }
  [[gnu::always_inline]] void store(float* p, Vector v) const {
    float all[kLanes];
    EBB_ISA::store(all, v);
    for (std::int64_t i = 0; i < lanes; ++i) p[i] = all[i];
  }
  [[gnu::always_inline]] Vector only(Vector v) const {
    float all[kLanes];
    EBB_ISA::store(all, v);
    return load(all);
  }
};

// body(access, i) for i = 0, kLanes, 2 kLanes ... below `count`.
template <typename Body>
[[gnu::always_inline]] inline void for_vectors(std::int64_t count, const Body& body) {
  std::int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) body(Whole{}, i);
  if (i < count) body(Part{count - i}, i);
}

// y[i] += x[i]
inline void add_to(std::int64_t count, const float* x, float* y) {
  for_vectors(count, [=](auto access, std::int64_t i) {
    access.store(y + i, access.load(y + i) + access.load(x + i));
  });
}

[[gnu::always_inline]] inline Vector max(Vector a, Vector b) { return a > b ? a : b; }
[[gnu::always_inline]] inline Vector min(Vector a, Vector b) { return a < b ? a : b; }

[[gnu::always_inline]] inline Vector sqrt(Vector v) {
  for (std::int64_t i = 0; i < kLanes; ++i) v[i] = __builtin_sqrtf(v[i]);
  return v;
}

// The sum, or the highest, of all lanes: a tree of halves.
[[gnu::always_inline]] inline float sum_lanes(Vector v) {
  float lanes[kLanes];
  store(lanes, v);
  for (std::int64_t half = kLanes / 2; half > 0; half /= 2) {
    for (std::int64_t i = 0; i < half; ++i) lanes[i] += lanes[i + half];
  }
  return lanes[0];
}

[[gnu::always_inline]] inline float max_lanes(Vector v) {
  float lanes[kLanes];
  store(lanes, v);
  for (std::int64_t i = 1; i < kLanes; ++i) {
    lanes[0] = lanes[i] > lanes[0] ? lanes[i] : lanes[0];
  }
  return lanes[0];
}

// The sum of term(access, i), as for_vectors() calls it: four sums side by side, then a
// tree. Terms must be 0 in lanes that are not there.
template <typename Term>
[[gnu::always_inline]] inline float sum_terms(std::int64_t count, const Term& term) {
  Vector sums[4] = {};
  std::int64_t i = 0;
  for (; i + 4 * kLanes <= count; i += 4 * kLanes) {
    sums[0] += term(Whole{}, i);
    sums[1] += term(Whole{}, i + kLanes);
    sums[2] += term(Whole{}, i + 2 * kLanes);
    sums[3] += term(Whole{}, i + 3 * kLanes);
  }
  for_vectors(count - i,
              [&](auto access, std::int64_t at) { sums[0] += term(access, i + at); });
  return sum_lanes((sums[0] + sums[1]) + (sums[2] + sums[3]));
}

// e^x within 2 units in the last place for x in [-87.3, 88.7]; 0 below, e^88.7 above, NaN
// for NaN. Cody and Waite's reduction to [-ln 2 / 2, ln 2 / 2], then the polynomial of
// Cephes' expf (Moshier).
[[gnu::always_inline]] inline Vector exp(Vector x) {
  constexpr float kLowest = -87.33654F;
  constexpr float kHighest = 88.72283F;
  constexpr float kLog2E = 1.44269504F;
  constexpr float kLn2High = 0.693359375F;
  constexpr float kLn2Low = -2.12194440e-4F;
  constexpr float kRound = 12582912.0F;  // 1.5 * 2^23: adding it rounds to a whole number.
  const Vector bounded = min(max(x, broadcast(kLowest)), broadcast(kHighest));
  const Vector shifted = bounded * kLog2E + kRound;
  const Vector whole = shifted - kRound;
  const Vector r = (bounded - whole * kLn2High) - whole * kLn2Low;
  Vector p = r * 1.9875691500e-4F + 1.3981999507e-3F;
  p = p * r + 8.3334519073e-3F;
  p = p * r + 4.1665795894e-2F;
  p = p * r + 1.6666665459e-1F;
  p = p * r + 5.0000001201e-1F;
  p = p * (r * r) + r + 1.0F;
  // The whole number lies in the low bits of `shifted`; 2^whole is made in two factors,
  // since 2^128 has no float.
  const Integers power = (Integers)shifted - 0x4B400000;
  const Integers half = power >> 1;
  const auto scale1 = (Vector)((half + 127) << 23);
  const auto scale2 = (Vector)((power - half + 127) << 23);
  const Vector result = p * scale1 * scale2;
  // Comparisons are false for NaN: it goes through `x`.
  const Vector held = x < kLowest ? Vector{} : result;
  return x == x ? held : x;
}

// 1 / (1 + e^-x)
[[gnu::always_inline]] inline Vector sigmoid(Vector x) { return 1.0F / (1.0F + exp(-x)); }

}  // namespace ebb::cpu::EBB_ISA
