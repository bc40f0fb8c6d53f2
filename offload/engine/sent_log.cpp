#include "offload/engine/sent_log.h"

#include <utility>

namespace ebb::offload {

SentLog::Mark SentLog::add(std::size_t bytes, std::int32_t stage, const Fence& made) {
  SentBlock block{bytes, stage, /*used=*/false, {}, {}};
  made.for_each([&](const Event& event) { block.made = event; });
  now_.push_back(block);
  return {generation_, now_.size() - 1};
}

void SentLog::used(const Mark& mark, const Event& before) noexcept {
  if (mark.generation != generation_) return;
  SentBlock& block = now_[mark.index];
  if (!block.used) block.before_use = before;
  block.used = true;
}

void SentLog::end_step() noexcept {
  last_.clear();
  std::swap(last_, now_);  // Whose memory the next step uses again.
  ++generation_;
}

std::vector<SentBlock> SentLog::take() {
  std::vector<SentBlock> blocks = last_;
  blocks.insert(blocks.end(), now_.begin(), now_.end());
  last_.clear();
  now_.clear();
  ++generation_;
  return blocks;
}

}  // namespace ebb::offload
