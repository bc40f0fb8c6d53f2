// Values for ranges of addresses that do not overlap.

#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <utility>

#include "absl/container/btree_map.h"

namespace ebb::device {

// Not thread-safe.
template <typename T>
class RangeMap {
 public:
  // The range has `value` from now on, and nothing else.
  void set(std::uintptr_t begin, std::uintptr_t end, T value) {
    take(begin, end, [](std::uintptr_t, std::uintptr_t, const T&) {});
    ranges_.emplace(begin, Entry{end, std::move(value)});
  }

  bool empty() const noexcept { return ranges_.empty(); }

  // Clears the range; calls visit(from, to, value) for each part of it that had a value.
  template <typename Visit>
  void take(std::uintptr_t begin, std::uintptr_t end, Visit visit) {
    auto it = ranges_.upper_bound(begin);
    if (it != ranges_.begin() && std::prev(it)->second.end > begin) --it;
    while (it != ranges_.end() && it->first < end) {
      const std::uintptr_t from = it->first;
      const Entry entry = std::move(it->second);
      ranges_.erase(it);
      visit(std::max(from, begin), std::min(entry.end, end), entry.value);
      if (from < begin) ranges_.emplace(from, Entry{begin, entry.value});
      if (end < entry.end) ranges_.emplace(end, Entry{entry.end, entry.value});
      it = ranges_.lower_bound(begin);
    }
  }

 private:
  struct Entry {
    std::uintptr_t end = 0;
    T value;
  };

  absl::btree_map<std::uintptr_t, Entry> ranges_;  // By begin.
};

}  // namespace ebb::device
