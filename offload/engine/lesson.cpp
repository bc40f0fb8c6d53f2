#include "offload/engine/lesson.h"

#include <algorithm>
#include <utility>

#include "absl/hash/hash.h"

namespace ebb::offload {
namespace {

using Sizes = std::vector<std::size_t>;
using Alignment = std::vector<std::optional<std::size_t>>;

bool same(const Sizes& a, std::size_t i, const Sizes& b, std::size_t j) {
  return i < a.size() && j < b.size() && a[i] == b[j];
}

// Whether a[i..] and b[j..] go on alike: two in a row, or to an end of both.
bool run(const Sizes& a, std::size_t i, const Sizes& b, std::size_t j) {
  if (!same(a, i, b, j)) return false;
  return same(a, i + 1, b, j + 1) || (i + 1 == a.size()) == (j + 1 == b.size());
}

// How many positions of `seen` were left out before order[i] goes on there, if any.
std::optional<std::size_t> left_out(const Sizes& order, std::size_t i, const Sizes& seen,
                                    std::size_t j) {
  constexpr std::size_t kMost = 64;  // A few layers.
  for (std::size_t skip = 1; skip <= kMost && j + skip < seen.size(); ++skip) {
    if (run(order, i, seen, j + skip)) return skip;
  }
  return std::nullopt;
}

std::size_t matches(const Alignment& alignment) {
  return static_cast<std::size_t>(
      std::count_if(alignment.begin(), alignment.end(),
                    [](const auto& position) { return position.has_value(); }));
}

// What the lesson of one order says for another that is aligned with it.
Lesson lesson_along(const Alignment& alignment, const Lesson& lesson) {
  Lesson result;
  std::ptrdiff_t not_before = -1;
  // The first use from here on that comes no earlier than use `seen` did there.
  const auto use = [&](std::ptrdiff_t seen) {
    if (seen < 0) return seen;
    std::size_t i = 0;
    while (i < alignment.size() &&
           (!alignment[i] || *alignment[i] < static_cast<std::size_t>(seen))) {
      ++i;
    }
    return static_cast<std::ptrdiff_t>(i);
  };
  std::ptrdiff_t last_seen = -1;
  for (std::size_t i = 0; i < alignment.size(); ++i) {
    if (alignment[i] && lesson.not_before[*alignment[i]] != last_seen) {
      last_seen = lesson.not_before[*alignment[i]];
      not_before = std::max(not_before, use(last_seen));
    }
    result.not_before.push_back(std::min(not_before, static_cast<std::ptrdiff_t>(i)));
    if (lesson.gaps.empty()) continue;
    result.gaps.push_back(alignment[i] ? lesson.gaps[*alignment[i]] : 0);
  }
  return result;
}

}  // namespace

Alignment align(const Sizes& order, const Sizes& seen) {
  Alignment alignment(order.size());
  std::size_t j = 0;
  for (std::size_t i = 0; i < order.size() && j < seen.size(); ++i) {
    if (same(order, i, seen, j)) {
      alignment[i] = j++;
    } else if (run(order, i + 1, seen, j + 1)) {
      ++j;  // Another one in its place.
    } else if (run(order, i + 1, seen, j)) {
      continue;  // A new one.
    } else if (const auto skip = left_out(order, i, seen, j)) {
      alignment[i] = j + *skip;
      j += *skip + 1;
    } else {
      ++j;
    }
  }
  return alignment;
}

Judgement Learned::learn(const WalkRecord& walk, const device::Device& device) {
  Judgement judgement;
  const std::optional<double> began = device.ended_at(walk.began);
  bool known = began.has_value() && walk.in_order && !walk.uses.empty();
  std::vector<double> gaps;
  gaps.reserve(walk.sizes.size());
  double start = began.value_or(0);
  for (const Use& use : walk.uses) {
    const std::optional<double> reached = device.ended_at(use.reached);
    const std::optional<double> fetched = device.ended_at(use.fetched);
    const bool came = use.fetched.source() != nullptr;
    const bool late = came && reached && fetched && *fetched > *reached;
    if (use.ahead) ++(late ? judgement.late : judgement.hits);
    known = known && reached && (!came || fetched);
    if (!known) continue;
    gaps.push_back(std::max(0.0, *reached - start));
    start = std::max(start, *reached);
    // The time that compute then stood still is none that a copy can hide behind.
    if (came) start = std::max(start, *fetched);
  }
  const std::size_t hash = absl::Hash<Sizes>()(walk.sizes);
  if (const auto found = exactly(hash, walk.sizes); found != taught_.end()) {
    const auto place = taught_.begin() + (found - taught_.cbegin());
    std::rotate(place, place + 1, taught_.end());
  } else {
    if (taught_.size() == kMaxOrders) taught_.erase(taught_.begin());
    taught_.push_back({hash, walk.sizes, {}});
  }
  Lesson& lesson = taught_.back().lesson;
  lesson.not_before = walk.not_before;
  if (!known) return judgement;
  gaps.resize(walk.sizes.size());  // What was not used after all.
  lesson.gaps = std::move(gaps);
  return judgement;
}

std::vector<Learned::Taught>::const_iterator Learned::exactly(std::size_t hash,
                                                              const Sizes& sizes) const {
  return std::find_if(taught_.begin(), taught_.end(), [&](const Taught& taught) {
    return taught.hash == hash && taught.sizes == sizes;
  });
}

std::optional<Lesson> Learned::find(const Sizes& sizes) const {
  const auto found = exactly(absl::Hash<Sizes>()(sizes), sizes);
  if (found != taught_.end()) return found->lesson;
  const Lesson* nearest = nullptr;
  Alignment nearest_alignment;
  std::size_t most = sizes.size() / 2;  // At least half of it has been seen.
  for (auto taught = taught_.rbegin(); taught != taught_.rend(); ++taught) {
    Alignment alignment = align(sizes, taught->sizes);
    const std::size_t count = matches(alignment);
    if (count <= most) continue;
    most = count;
    nearest = &taught->lesson;
    nearest_alignment = std::move(alignment);
  }
  if (nearest == nullptr) return std::nullopt;
  return lesson_along(nearest_alignment, *nearest);
}

}  // namespace ebb::offload
