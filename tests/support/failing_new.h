// An operator new that fails when a test says so. For one file of a test program.

#pragma once

#include <cstddef>
#include <cstdlib>
#include <limits>
#include <new>

namespace ebb::test {

inline constexpr std::size_t kNever = std::numeric_limits<std::size_t>::max();

// Calls of operator new on this thread until one throws std::bad_alloc, once.
inline thread_local std::size_t news_left = kNever;

// Whether `call` was told of a failure when its `calls`-th (from 0) allocation failed;
// false if it made fewer.
template <typename Call>
bool fails_without_memory(std::size_t calls, Call call) {
  news_left = calls;
  bool failed = false;
  try {
    call();
  } catch (const std::bad_alloc&) {
    failed = true;
  }
  news_left = kNever;
  return failed;
}

}  // namespace ebb::test

// Not inlined: the compiler would see a pair of new and free().
[[gnu::noinline]] void* operator new(std::size_t bytes) {
  using namespace ebb::test;
  if (news_left != kNever && news_left-- == 0) {
    news_left = kNever;
    throw std::bad_alloc();
  }
  if (void* memory = std::malloc(bytes == 0 ? 1 : bytes)) return memory;
  throw std::bad_alloc();
}
// What it gives is freed by the same operator delete, so that a sanitizer's must not stand
// here.
[[gnu::noinline]] void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  return std::malloc(bytes == 0 ? 1 : bytes);
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}
