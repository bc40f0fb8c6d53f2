// Engine: what happens in backward.

#include <algorithm>
#include <optional>
#include <utility>

#include "offload/engine/engine_impl.h"
#include "offload/engine/packed.h"

namespace ebb::offload {

void Engine::Impl::begin_backward(std::span<autograd::PackedTensor* const> order_of_use) {
  std::vector<Block*> order;
  order.reserve(order_of_use.size());
  for (autograd::PackedTensor* tensor : order_of_use) {
    auto* packed = dynamic_cast<Packed*>(tensor);  // Hooks may be nested.
    if (packed == nullptr) continue;
    // A backward inside of another one takes over what both will use.
    packed->want();
    if (Walk* outer = walk_of(packed->block())) outer->forget(packed->block());
    order.push_back(&packed->block());
  }
  finished_.reserve(finished_.size() + walks_.size() + 1);  // end_backward() cannot fail.
  const Event began = device_.current_stream().record();
  walks_.push_back(std::make_unique<Walk>(++walk_count_, order, began));
  busy_ = shared_from_this();
  Walk& walk = *walks_.back();
  try {
    learn_lookahead(walk);
    prefetch(walk, began);
  } catch (...) {
    end_backward();  // Nobody else will: to whoever called, it has not begun.
    throw;
  }
}

void Engine::Impl::end_backward() noexcept {
  if (walks_.empty()) return;  // None began.
  std::shared_ptr<Impl> last;  // Goes at the end, and all of this with it.
  if (walks_.size() == 1) last = std::move(busy_);
  std::unique_ptr<Walk> walk = std::move(walks_.back());
  walks_.pop_back();
  walk->for_each_left([](Block& block) {
    if (!block.in_window) block.device.reset();
  });
  finished_.push_back(walk->take_record());
}

void Engine::Impl::use(Block& block) {
  device::Stream& compute = device_.current_stream();
  Walk* walk = walk_of(block);
  const bool first = walk == nullptr || !block.asked;
  Use use{compute.record(), {}, false};

  if (block.overwritten()) give_up_device(block);
  if (block.in_window) {
    window_.remove(block);
    count_revived(block);
  } else if (block.device == nullptr && !revive(block)) {
    if (walk != nullptr) walk->ask(block);
    fetcher_.fetch_now(block, use.reached);
    came_back(block);
    ++figures_.missed;
    use.fetched = block.fetched;
  } else if (block.fetch_unused) {
    use.fetched = block.fetched;
    use.ahead = true;
  }
  block.fetch_unused = false;
  // The copy that brought it; or, where it never left, the op that made it: on whatever
  // stream that was.
  const bool came = block.fetched.source() != nullptr;
  compute.wait(
      block.device->last_write(),
      {came ? device::StallCause::kH2DLate : device::StallCause::kHost, "engine.use"});
  for (const Piece& piece : block.pieces) sent_.used(piece.sent, use.reached);
  if (walk == nullptr || !first) return;
  walk->ask(block);
  walk->note(use);
  prefetch(*walk, use.reached);
}

void Engine::Impl::prefetch(Walk& walk, const Event& point) {
  while (Block* block = walk.next()) {
    if (!due(walk, *block)) return;
    if (!revive(*block)) {
      if (!fetcher_.prefetch(*block, point)) return;
      block->fetch_unused = true;
      Fence after(fetcher_.prefetch_opened());
      for (const Piece& piece : block->pieces) after.add(piece.stored->stored());
      h2d_watch_.queued(block->bytes(), after, device_.now(), block->fetched);
      came_back(*block);
    }
    walk.fetched(*block);
  }
}

bool Engine::Impl::due(const Walk& walk, const Block& block) const noexcept {
  if (!walk.has_room(block)) return false;
  // What is needed next takes its memory in any case.
  if (block.position == static_cast<std::size_t>(walk.now() + 1)) return true;
  const std::size_t limit = most_waiting_bytes(h2d_watch_.rate());
  if (walk.ahead_bytes() > 0 && walk.ahead_bytes() + block.bytes() > limit) return false;
  return walk.wants(block);
}

void Engine::Impl::learn_lookahead(Walk& walk) const {
  const std::size_t uses = walk.record().sizes.size();
  std::optional<Lesson> lesson = learned_.find(walk.record().sizes);
  if (!lesson) return;
  walk.plan(std::move(lesson->not_before));
  if (lesson->gaps.empty()) return;
  const device::LinkRate link = h2d_watch_.rate();
  const double start = link.latency_seconds + device_.capability().host_submit_seconds;
  std::vector<double> copies(uses);
  walk.for_each_left([&](const Block& block) {
    if (block.device != nullptr) return;
    copies[block.position] =
        start + static_cast<double>(block.bytes()) / link.bytes_per_second;
  });
  walk.plan(Lookahead(lesson->gaps, copies));
}

void Engine::Impl::came_back(Block& block) {
  for (Piece& piece : block.pieces) {
    if (piece.fate == Piece::Fate::kSent) {
      piece.fate = Piece::Fate::kFetched;
      figures_.h2d_bytes += piece.span.bytes;
    } else {
      figures_.refetched_bytes += piece.span.bytes;
    }
  }
  blocks_.add_copy(block);
}

bool Engine::Impl::revive(Block& block) {
  const auto take = [&](const Place& place) {
    if (!place.span.contains(block.span)) return false;
    tensor::StorageRef storage = place.unwritten();
    if (storage == nullptr) return false;
    const std::size_t begin = place.begin + (block.span.begin - place.span.begin);
    put_on_device(block, std::move(storage), begin);
    count_revived(block);
    return true;
  };
  return take(block.original) ||
         std::any_of(block.copies.begin(), block.copies.end(), take);
}

void Engine::Impl::count_revived(Block& block) noexcept {
  for (Piece& piece : block.pieces) {
    if (piece.fate != Piece::Fate::kSent) continue;
    piece.fate = Piece::Fate::kRevived;
    figures_.revived_bytes += piece.span.bytes;
  }
}

}  // namespace ebb::offload
