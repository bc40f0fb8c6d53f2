#include "runtime/device/check/access_map.h"

#include <utility>

namespace ebb::device {

bool AccessMap::ordered(const User& earlier, const User& user,
                        const Clock& clock) noexcept {
  return earlier.point.source == user.point.source || clock.covers(earlier.point);
}

// No segment reaches across `at`.
void AccessMap::split(std::uintptr_t at) {
  auto it = segments_.upper_bound(at);
  if (it == segments_.begin()) return;
  --it;
  if (it->first == at || it->second.end <= at) return;
  Segment rest = it->second;
  it->second.end = at;
  segments_.emplace(at, std::move(rest));
}

void AccessMap::read(Range range, const User& user, const Clock& clock, Report report) {
  if (range.begin >= range.end) return;
  split(range.begin);
  split(range.end);
  std::vector<Range> untouched;
  std::uintptr_t from = range.begin;
  for (auto it = segments_.lower_bound(range.begin);
       it != segments_.end() && it->first < range.end; ++it) {
    if (from < it->first) untouched.push_back({from, it->first});
    Segment& segment = it->second;
    from = segment.end;
    if (segment.writer && !ordered(*segment.writer, user, clock)) {
      report(*segment.writer, true, {it->first, segment.end});
    }
    // Whoever comes after this reader comes after those before it, too.
    std::erase_if(segment.readers,
                  [&](const User& reader) { return ordered(reader, user, clock); });
    segment.readers.push_back(user);
  }
  if (from < range.end) untouched.push_back({from, range.end});
  for (const Range& gap : untouched) {
    segments_.emplace(gap.begin, Segment{gap.end, std::nullopt, {user}});
  }
}

void AccessMap::write(Range range, const User& user, const Clock& clock, Report report) {
  if (range.begin >= range.end) return;
  split(range.begin);
  split(range.end);
  const auto first = segments_.lower_bound(range.begin);
  auto it = first;
  for (; it != segments_.end() && it->first < range.end; ++it) {
    const Segment& segment = it->second;
    const Range where{it->first, segment.end};
    if (segment.writer && !ordered(*segment.writer, user, clock)) {
      report(*segment.writer, true, where);
    }
    for (const User& reader : segment.readers) {
      if (!ordered(reader, user, clock)) report(reader, false, where);
    }
  }
  segments_.erase(first, it);
  segments_.emplace(range.begin, Segment{range.end, user, {}});
}

}  // namespace ebb::device
