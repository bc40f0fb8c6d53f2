#include "allocator/tlsf.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <limits>

namespace ebb {
namespace {

// Of the `at_most` first chunks from `chunk` on, the smallest that fits.
Tlsf::Chunk* smallest(Tlsf::Chunk* chunk, std::size_t bytes, std::size_t at_most) noexcept {
  Tlsf::Chunk* best = nullptr;
  for (; chunk != nullptr && at_most > 0; chunk = chunk->next, --at_most) {
    if (chunk->bytes == bytes) return chunk;
    if (chunk->bytes > bytes && (best == nullptr || chunk->bytes < best->bytes)) {
      best = chunk;
    }
  }
  return best;
}

}  // namespace

Tlsf::Chunk* Tlsf::add(std::byte* data, std::size_t bytes) {
  // Room for blocks of a mebibyte on average, so that few steps make more.
  constexpr std::size_t kFewest = 1024;
  constexpr std::size_t kUsualBytes = std::size_t{1} << 20;
  make_spare(kFewest + bytes / kUsualBytes);
  Chunk* chunk = make();
  chunk->data = data;
  chunk->bytes = bytes;
  insert(chunk);
  return chunk;
}

void Tlsf::remove(Chunk* first) noexcept {
  erase(first);
  drop(first);
}

Tlsf::Chunk* Tlsf::take(std::size_t bytes) {
  Chunk* chunk = find(bytes);
  if (chunk == nullptr) return nullptr;
  if (spare_ == nullptr) make_spare(made_);
  erase(chunk);
  if (chunk->bytes > bytes) {
    Chunk* rest = make();
    rest->data = chunk->data + bytes;
    rest->bytes = chunk->bytes - bytes;
    rest->before = chunk;
    rest->after = chunk->after;
    if (rest->after != nullptr) rest->after->before = rest;
    chunk->after = rest;
    chunk->bytes = bytes;
    insert(rest);
  }
  return chunk;
}

void Tlsf::put(Chunk* chunk) noexcept {
  const auto absorb_next = [this](Chunk* left) {
    Chunk* right = left->after;
    left->bytes += right->bytes;
    left->after = right->after;
    if (left->after != nullptr) left->after->before = left;
    drop(right);
  };
  if (chunk->after != nullptr && chunk->after->free) {
    erase(chunk->after);
    absorb_next(chunk);
  }
  if (chunk->before != nullptr && chunk->before->free) {
    chunk = chunk->before;
    erase(chunk);
    absorb_next(chunk);
  }
  insert(chunk);
}

Tlsf::Class Tlsf::class_of(std::size_t bytes) noexcept {
  const std::size_t granules = bytes / kGranularityBytes;
  assert(granules > 0);
  const auto log = static_cast<unsigned>(std::bit_width(granules)) - 1;
  if (log < kSecondBits) return {0, static_cast<unsigned>(granules)};
  return {log - kSecondBits + 1,
          static_cast<unsigned>(granules >> (log - kSecondBits)) - kSeconds};
}

Tlsf::Chunk* Tlsf::find(std::size_t bytes) const noexcept {
  constexpr std::size_t kLook = 8;
  const Class size = class_of(bytes);
  Chunk* own = classes_[size.first][size.second];
  if (Chunk* chunk = smallest(own, bytes, kLook)) return chunk;
  if (Chunk* larger = first_above(size)) return smallest(larger, bytes, kLook);
  return smallest(own, bytes, std::numeric_limits<std::size_t>::max());
}

// The first chunk of the lowest class above `size` that has one.
Tlsf::Chunk* Tlsf::first_above(Class size) const noexcept {
  std::uint32_t seconds = seconds_[size.first] & ~((std::uint32_t{2} << size.second) - 1);
  unsigned first = size.first;
  if (seconds == 0) {
    const std::uint64_t firsts = firsts_ & ~((std::uint64_t{2} << first) - 1);
    if (firsts == 0) return nullptr;
    first = static_cast<unsigned>(std::countr_zero(firsts));
    seconds = seconds_[first];
  }
  return classes_[first][static_cast<unsigned>(std::countr_zero(seconds))];
}

void Tlsf::insert(Chunk* chunk) noexcept {
  const Class size = class_of(chunk->bytes);
  Chunk*& head = classes_[size.first][size.second];
  chunk->free = true;
  chunk->previous = nullptr;
  chunk->next = head;
  if (head != nullptr) head->previous = chunk;
  head = chunk;
  seconds_[size.first] |= std::uint32_t{1} << size.second;
  firsts_ |= std::uint64_t{1} << size.first;
}

void Tlsf::erase(Chunk* chunk) noexcept {
  const Class size = class_of(chunk->bytes);
  chunk->free = false;
  if (chunk->next != nullptr) chunk->next->previous = chunk->previous;
  if (chunk->previous != nullptr) {
    chunk->previous->next = chunk->next;
    return;
  }
  classes_[size.first][size.second] = chunk->next;
  if (chunk->next != nullptr) return;
  seconds_[size.first] &= ~(std::uint32_t{1} << size.second);
  if (seconds_[size.first] == 0) firsts_ &= ~(std::uint64_t{1} << size.first);
}

void Tlsf::make_spare(std::size_t chunks) {
  chunks_.emplace_back(chunks);
  made_ += chunks;
  for (std::size_t i = chunks; i-- > 0;) drop(&chunks_.back()[i]);
}

Tlsf::Chunk* Tlsf::make() noexcept {
  Chunk* chunk = spare_;
  spare_ = chunk->next;
  chunk->before = nullptr;
  chunk->after = nullptr;
  return chunk;
}

void Tlsf::drop(Chunk* chunk) noexcept {
  chunk->next = spare_;
  spare_ = chunk;
}

}  // namespace ebb
