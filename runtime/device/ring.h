// A queue whose memory is used again: first in, first out, any place readable.

#pragma once

#include <cassert>
#include <cstddef>
#include <utility>
#include <vector>

namespace ebb::device {

// Not thread-safe. References live until the next push_back().
template <typename T>
class Ring {
 public:
  bool empty() const noexcept { return size_ == 0; }
  std::size_t size() const noexcept { return size_; }

  T& operator[](std::size_t i) noexcept {
    return slots_[(head_ + i) & (slots_.size() - 1)];
  }
  const T& operator[](std::size_t i) const noexcept {
    return slots_[(head_ + i) & (slots_.size() - 1)];
  }
  T& front() noexcept { return slots_[head_]; }
  const T& front() const noexcept { return slots_[head_]; }
  const T& back() const noexcept { return (*this)[size_ - 1]; }

  T& push_back(T value) {
    if (size_ == slots_.size()) grow();
    T& slot = (*this)[size_];
    slot = std::move(value);
    ++size_;
    return slot;
  }

  void pop_front() noexcept {
    assert(size_ > 0);
    slots_[head_] = T{};  // Closures let go of what they hold.
    head_ = (head_ + 1) & (slots_.size() - 1);
    --size_;
  }

 private:
  void grow() {
    std::vector<T> larger(slots_.empty() ? 16 : 2 * slots_.size());
    for (std::size_t i = 0; i < size_; ++i) larger[i] = std::move((*this)[i]);
    slots_ = std::move(larger);
    head_ = 0;
  }

  std::vector<T> slots_;  // A power of two, so that places wrap with a mask.
  std::size_t head_ = 0;
  std::size_t size_ = 0;
};

}  // namespace ebb::device
