#include "allocator/event.h"

namespace ebb {

void Fence::add(const Event& event) {
  if (event.source() == nullptr) return;
  for (std::size_t i = 0; i < count_; ++i) {
    Event& mine = i < kInline ? inline_[i] : spilled_[i - kInline];
    if (mine.source() == event.source()) {
      if (mine.ticket() < event.ticket()) mine = event;
      return;
    }
  }
  if (count_ < kInline) {
    inline_[count_] = event;
  } else {
    spilled_.push_back(event);
  }
  ++count_;
}

void Fence::add(const Fence& other) {
  if (this == &other) return;
  if (count_ == 0) {
    *this = other;
    return;
  }
  other.for_each([this](const Event& event) { add(event); });
}

void Fence::wait() const noexcept {
  for_each([](const Event& event) { event.wait(); });
}

}  // namespace ebb
