#include "allocator/tlsf.h"

#include <bit>
#include <cassert>

#include "allocator/error.h"

namespace ebb {

Tlsf::Index Tlsf::add(std::byte* data, std::size_t bytes) {
  const std::size_t granules = bytes / kGranularityBytes;
  EBB_CHECK(granules <= std::numeric_limits<std::uint32_t>::max(), kInvalidArgument,
            "a slab of ", bytes, " bytes is too large");
  // What is spare of slabs that were removed is used again.
  const std::size_t all = planned_ + planned(bytes);
  if (made() < all) {
    make_spare(all - made());
  } else if (spare_ == kNone) {
    make_spare(planned(bytes));
  }
  planned_ = all;
  const Index chunk = make();
  chunks_[chunk].data = data;
  chunks_[chunk].granules = static_cast<std::uint32_t>(granules);
  insert(chunk);
  return chunk;
}

void Tlsf::remove(Index first) noexcept {
  planned_ -= planned(chunks_[first].bytes());
  erase(first);
  drop(first);
}

Tlsf::Index Tlsf::take(std::size_t bytes) {
  const std::size_t wanted = bytes / kGranularityBytes;
  if (wanted > std::numeric_limits<std::uint32_t>::max()) return kNone;
  const auto granules = static_cast<std::uint32_t>(wanted);
  const Index index = find(granules);
  if (index == kNone) return kNone;
  if (spare_ == kNone) make_spare(made());
  erase(index);
  Chunk& chunk = chunks_[index];
  if (chunk.granules > granules) {
    const Index added = make();
    Chunk& rest = chunks_[added];
    rest.data = chunk.data + bytes;
    rest.granules = chunk.granules - granules;
    rest.before = index;
    rest.after = chunk.after;
    if (rest.after != kNone) chunks_[rest.after].before = added;
    chunk.after = added;
    chunk.granules = granules;
    insert(added);
  }
  return index;
}

bool Tlsf::has(std::size_t bytes) const noexcept {
  const std::size_t granules = bytes / kGranularityBytes;
  return granules <= std::numeric_limits<std::uint32_t>::max() &&
         find(static_cast<std::uint32_t>(granules)) != kNone;
}

void Tlsf::put(Index chunk) noexcept {
  const Index after = chunks_[chunk].after;
  const Index before = chunks_[chunk].before;
  if (after != kNone && chunks_[after].is_free()) {
    erase(after);
    absorb_next(chunk);
  }
  if (before != kNone && chunks_[before].is_free()) {
    erase(before);
    absorb_next(before);
    chunk = before;
  }
  insert(chunk);
}

void Tlsf::absorb_next(Index chunk) noexcept {
  Chunk& left = chunks_[chunk];
  const Index right = left.after;
  left.granules += chunks_[right].granules;
  left.after = chunks_[right].after;
  if (left.after != kNone) chunks_[left.after].before = chunk;
  drop(right);
}

Tlsf::Class Tlsf::class_of(std::uint32_t granules) noexcept {
  assert(granules > 0);
  const auto log = static_cast<unsigned>(std::bit_width(granules)) - 1;
  if (log < kSecondBits) return {0, granules};
  return {log - kSecondBits + 1, (granules >> (log - kSecondBits)) - kSeconds};
}

Tlsf::Index Tlsf::find(std::uint32_t granules) const noexcept {
  constexpr std::size_t kLook = 8;
  const Class size = class_of(granules);
  const bool has_own = (seconds_[size.first] >> size.second & 1) != 0;
  const Index own = has_own ? classes_[size.first][size.second] : kNone;
  if (const Index found = smallest(own, granules, kLook); found != kNone) return found;
  if (const Index larger = first_above(size); larger != kNone) {
    return smallest(larger, granules, kLook);
  }
  return smallest(own, granules, std::numeric_limits<std::size_t>::max());
}

// Of the `at_most` first chunks from `chunk` on, the smallest that fits.
Tlsf::Index Tlsf::smallest(Index chunk, std::uint32_t granules,
                           std::size_t at_most) const noexcept {
  Index best = kNone;
  std::uint32_t least = std::numeric_limits<std::uint32_t>::max();
  for (; chunk != kNone && at_most > 0; chunk = chunks_[chunk].next, --at_most) {
    const std::uint32_t size = chunks_[chunk].granules;
    if (size == granules) return chunk;
    if (size > granules && (best == kNone || size < least)) {
      best = chunk;
      least = size;
    }
  }
  return best;
}

// The first chunk of the lowest class above `size` that has one.
Tlsf::Index Tlsf::first_above(Class size) const noexcept {
  std::uint64_t seconds = seconds_[size.first] & ~((std::uint64_t{2} << size.second) - 1);
  unsigned first = size.first;
  if (seconds == 0) {
    const std::uint64_t firsts = firsts_ & ~((std::uint64_t{2} << first) - 1);
    if (firsts == 0) return kNone;
    first = static_cast<unsigned>(std::countr_zero(firsts));
    seconds = seconds_[first];
  }
  return classes_[first][static_cast<unsigned>(std::countr_zero(seconds))];
}

void Tlsf::insert(Index index) noexcept {
  Chunk& chunk = chunks_[index];
  const Class size = class_of(chunk.granules);
  const std::uint64_t bit = std::uint64_t{1} << size.second;
  Index& head = classes_[size.first][size.second];
  chunk.state = Chunk::State::kFree;
  chunk.previous = kNone;
  chunk.next = (seconds_[size.first] & bit) != 0 ? head : kNone;
  if (chunk.next != kNone) chunks_[chunk.next].previous = index;
  head = index;
  seconds_[size.first] |= bit;
  firsts_ |= std::uint64_t{1} << size.first;
}

void Tlsf::erase(Index index) noexcept {
  Chunk& chunk = chunks_[index];
  chunk.state = Chunk::State::kTaken;
  if (chunk.next != kNone) chunks_[chunk.next].previous = chunk.previous;
  if (chunk.previous != kNone) {
    chunks_[chunk.previous].next = chunk.next;
    return;
  }
  const Class size = class_of(chunk.granules);
  classes_[size.first][size.second] = chunk.next;
  if (chunk.next != kNone) return;
  seconds_[size.first] &= ~(std::uint64_t{1} << size.second);
  if (seconds_[size.first] == 0) firsts_ &= ~(std::uint64_t{1} << size.first);
}

std::size_t Tlsf::planned(std::size_t slab_bytes) noexcept {
  // Blocks of a mebibyte on average, so that few steps make more.
  constexpr std::size_t kFewest = 1024;
  constexpr std::size_t kUsualBytes = std::size_t{1} << 20;
  return kFewest + slab_bytes / kUsualBytes;
}

void Tlsf::make_spare(std::size_t chunks) {
  const std::size_t old = made();
  uses_.resize(old + chunks);
  chunks_.resize(old + chunks);
  for (std::size_t i = old + chunks; i-- > old;) drop(static_cast<Index>(i));
}

Tlsf::Index Tlsf::make() noexcept {
  const Index made = spare_;
  Chunk& chunk = chunks_[made];
  spare_ = chunk.next;
  chunk.before = kNone;
  chunk.after = kNone;
  return made;
}

void Tlsf::drop(Index chunk) noexcept {
  chunks_[chunk].next = spare_;
  spare_ = chunk;
}

}  // namespace ebb
