#include "allocator/region_map.h"

#include <algorithm>
#include <cassert>

namespace ebb {
namespace {

// Whether one fence can stand for both.
bool lose_nothing(const Fence& a, const Fence& b) noexcept {
  if (a.empty() || b.empty()) return a.empty() && b.empty();
  const EventSource* source = nullptr;
  bool same = true;
  const auto look = [&](const Event& event) {
    if (source == nullptr) source = event.source();
    same = same && event.source() == source;
  };
  a.for_each(look);
  b.for_each(look);
  return same;
}

}  // namespace

void RegionMap::prepare() {
  constexpr std::size_t kAtMost = 2;  // append() and lend() make one each.
  while (spare_.size() < kAtMost) {
    // All three grow before any is used, so that a failure changes nothing that matters.
    spare_.reserve(regions_.size() + 1);
    holes_.reserve(regions_.size() + 1);
    regions_.emplace_back();
    spare_.push_back(static_cast<Index>(regions_.size() - 1));
  }
}

RegionMap::Index RegionMap::append(std::size_t bytes) noexcept {
  const Index region = make(end_, bytes);
  link(tail_, region, kNone);
  tail_ = region;
  end_ += bytes;
  join_hole(region);
  return merge_around(region);
}

RegionMap::Index RegionMap::lend(Index first, std::size_t bytes,
                                 const Fence& prior) noexcept {
  const std::size_t offset = regions_[first].offset;
  const Index lent = make(offset, bytes);
  regions_[lent].lent = true;
  regions_[lent].last_use = prior;
  link(regions_[first].before, lent, first);

  std::size_t missing = bytes;
  Index next = first;
  while (missing > 0 && regions_[next].bytes <= missing) {
    const Index used = next;
    missing -= regions_[used].bytes;
    next = regions_[used].after;
    drop(used);
  }
  if (missing > 0) {
    regions_[next].offset += missing;
    regions_[next].bytes -= missing;
  }

  // What is left of the hole, on either side.
  const auto hole = hole_above(offset);
  const Hole right{offset + bytes, hole->offset + hole->bytes - offset - bytes, next};
  hole->bytes = offset - hole->offset;
  if (hole->bytes == 0 && right.bytes == 0) {
    holes_.erase(hole);
  } else if (hole->bytes == 0) {
    *hole = right;
  } else if (right.bytes > 0) {
    holes_.insert(hole + 1, right);
  }
  return lent;
}

void RegionMap::give_back(Index region, const Fence& last_use) noexcept {
  Region& mine = regions_[region];
  mine.lent = false;
  mine.freed = ++frees_;
  if (!last_use.empty()) mine.last_use = last_use;
  if (mine.last_use.done()) mine.last_use = {};
  if (!mine.last_use.empty()) queue(region);
  join_hole(region);
  merge_around(region);
}

void RegionMap::settle() noexcept {
  while (oldest_ != kNone && regions_[oldest_].last_use.done()) {
    const Index region = oldest_;
    unqueue(region);
    regions_[region].last_use = {};
    merge_around(region);
  }
}

RegionMap::Index RegionMap::make(std::size_t offset, std::size_t bytes) noexcept {
  assert(!spare_.empty() && "prepare() was not called");
  const Index region = spare_.back();
  spare_.pop_back();
  regions_[region] = {};
  regions_[region].offset = offset;
  regions_[region].bytes = bytes;
  return region;
}

void RegionMap::drop(Index region) noexcept {
  unqueue(region);
  const Index before = regions_[region].before;
  const Index after = regions_[region].after;
  if (before != kNone) regions_[before].after = after;
  if (after != kNone) regions_[after].before = before;
  if (tail_ == region) tail_ = before;
  spare_.push_back(region);
}

void RegionMap::link(Index before, Index region, Index after) noexcept {
  regions_[region].before = before;
  regions_[region].after = after;
  if (before != kNone) regions_[before].after = region;
  if (after != kNone) regions_[after].before = region;
}

void RegionMap::queue(Index region) noexcept {
  regions_[region].queued_ = true;
  regions_[region].older_ = newest_;
  regions_[region].newer_ = kNone;
  (newest_ == kNone ? oldest_ : regions_[newest_].newer_) = region;
  newest_ = region;
}

void RegionMap::unqueue(Index region) noexcept {
  Region& mine = regions_[region];
  if (!mine.queued_) return;
  mine.queued_ = false;
  (mine.older_ == kNone ? oldest_ : regions_[mine.older_].newer_) = mine.newer_;
  (mine.newer_ == kNone ? newest_ : regions_[mine.newer_].older_) = mine.older_;
}

RegionMap::Index RegionMap::merge_around(Index region) noexcept {
  merge_with_next(region);
  const Index before = regions_[region].before;
  return is_free(before) && merge_with_next(before) ? before : region;
}

bool RegionMap::merge_with_next(Index region) noexcept {
  const Index next = regions_[region].after;
  if (!is_free(next)) return false;
  if (!lose_nothing(regions_[region].last_use, regions_[next].last_use)) return false;
  regions_[region].last_use.add(regions_[next].last_use);
  regions_[region].bytes += regions_[next].bytes;
  regions_[region].freed = std::max(regions_[region].freed, regions_[next].freed);
  drop(next);
  return true;
}

// Makes one hole of the free region and the holes beside it.
void RegionMap::join_hole(Index region) noexcept {
  const Region& mine = regions_[region];
  const auto next = hole_above(mine.offset);
  const bool left = is_free(mine.before);
  const bool right = is_free(mine.after);
  if (left) {
    const auto hole = next - 1;
    hole->bytes += mine.bytes;
    if (right) {
      hole->bytes += next->bytes;
      holes_.erase(next);
    }
  } else if (right) {
    *next = {mine.offset, mine.bytes + next->bytes, region};
  } else {
    holes_.insert(next, {mine.offset, mine.bytes, region});
  }
}

std::vector<RegionMap::Hole>::iterator RegionMap::hole_above(std::size_t offset) noexcept {
  return std::partition_point(holes_.begin(), holes_.end(), [offset](const Hole& hole) {
    return hole.offset + hole.bytes <= offset;
  });
}

}  // namespace ebb
