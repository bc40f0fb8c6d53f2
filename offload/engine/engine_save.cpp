// Engine: what happens on save.

#include <algorithm>
#include <utility>

#include "offload/engine/engine_impl.h"
#include "offload/engine/packed.h"

namespace ebb::offload {

using autograd::PackResult;
using autograd::SaveSite;
using tensor::StorageRef;

namespace {

// The bytes of `span` that no part has.
std::vector<Span> gaps(const Span& span, const std::vector<BlockMap::Match>& parts) {
  std::vector<Span> gaps;
  std::size_t begin = span.begin;
  for (const BlockMap::Match& part : parts) {
    if (part.span.begin > begin) gaps.push_back({begin, part.span.begin - begin});
    begin = part.span.end();
  }
  if (begin < span.end()) gaps.push_back({begin, span.end() - begin});
  return gaps;
}

}  // namespace

std::optional<Kept> Engine::Impl::why_keep(const Tensor& tensor,
                                           const SaveSite& site) const {
  const tensor::Storage& storage = *tensor.storage();
  if (&storage.device() != &device_ || storage.purpose() != Purpose::kActivations) {
    return Kept::kElsewhere;
  }
  const bool meant =
      policy_ == Policy::kSaved ||
      (policy_ == Policy::kInputs && site.kind == SaveSite::Kind::kCheckpointInput);
  if (!meant) return Kept::kPolicy;
  // The storage's size counts: a small view that is kept keeps all of it.
  if (storage.bytes() < min_offload_bytes_) return Kept::kSmall;
  return std::nullopt;
}

PackResult Engine::Impl::keep(std::size_t bytes, Kept why) {
  Tally& tally = figures_.kept[static_cast<std::size_t>(why)];
  ++tally.tensors;
  tally.bytes += bytes;
  figures_.kept_bytes += bytes;
  return nullptr;
}

PackResult Engine::Impl::pack(const Tensor& tensor, const SaveSite& site) {
  const device::Access access = tensor.access(device::Access::Mode::kRead);
  if (const auto why = why_keep(tensor, site)) {
    if (*why == Kept::kSmall) {
      figures_.largest_small_bytes =
          std::max(figures_.largest_small_bytes, tensor.storage()->bytes());
    }
    return keep(access.bytes, *why);
  }
  if (access.bytes == 0) return std::make_unique<EmptyPacked>(tensor);
  const StorageRef& storage = tensor.storage();
  const Span span{access.address - storage->address(), access.bytes};
  const Parts parts = blocks_.find(storage->id(), storage->version()->value, span);

  Block* block = nullptr;
  std::size_t begin = span.begin;  // In the block's own storage.
  if (parts.size() == 1 && parts.front().span.contains(span)) {
    block = parts.front().block;
    begin += parts.front().block_begin - parts.front().span.begin;
    figures_.shared_bytes += span.bytes;
  } else {
    if (!can_join(parts, storage)) return keep(span.bytes, Kept::kInUse);
    block = send(storage, span, parts, site);
    if (block == nullptr) {
      if (auto answer = do_without(tensor, span.bytes, site)) return std::move(*answer);
      if (store_.grow(span.bytes)) block = send(storage, span, parts, site);
      if (block == nullptr) throw_no_room(span.bytes, site);
    }
  }
  auto packed =
      std::make_unique<Packed>(shared_from_this(), *block, tensor, begin, site.op);
  shrink_window();  // May throw: now the block has an owner, who then gives it up.
  return packed;
}

bool Engine::Impl::can_join(const Parts& parts, const StorageRef& storage) noexcept {
  return std::all_of(parts.begin(), parts.end(), [&](const BlockMap::Match& part) {
    const Block& block = *part.block;
    const bool here = block.device == nullptr || block.device == storage;
    return part.original && here && walk_of(block) == nullptr;
  });
}

Block* Engine::Impl::send(const StorageRef& storage, const Span& span, const Parts& parts,
                          const SaveSite& site) {
  Fence made = storage->last_write();
  // A job may write its own memory without telling us: then it does so on its stream.
  if (storage->adopted()) made.add(device_.current_stream().record());
  std::vector<Piece> pieces;
  for (const Span& gap : gaps(span, parts)) {
    auto stored = put(storage->address() + gap.begin, gap.bytes, made);
    if (stored == nullptr) return nullptr;
    storage->used_until(stored->stored());
    pieces.push_back({.span = gap, .stored = std::move(stored)});
  }

  figures_.shared_bytes += span.bytes;
  for (Piece& piece : pieces) {
    figures_.shared_bytes -= piece.span.bytes;
    count_sent(piece, made, site.stage);
  }
  bool waits = !pieces.empty();
  bool there = waits;
  for (const BlockMap::Match& part : parts) {
    waits = waits || part.block->in_window;
    there = there || part.block->device != nullptr;
    if (part.block->in_window) window_.remove(*part.block);
  }
  device_.memory().mark_sent(storage->address());
  Block& block = blocks_.join(storage, span, std::move(pieces), parts);
  if (there) put_on_device(block, storage, block.span.begin);
  largest_bytes_ = std::max(largest_bytes_, block.bytes());
  if (waits) window_.push(block);
  return &block;
}

void Engine::Impl::count_sent(Piece& piece, const Fence& made, std::int32_t stage) {
  piece.sent_generation = sent_generation_;
  piece.sent_index = sent_.size();
  d2h_watch_.queued(piece.span.bytes, made, device_.now(), piece.stored->stored());
  sent_.push_back({piece.span.bytes, stage, false, {}, {}});
  made.for_each([&](const Event& event) { sent_.back().made = event; });
  ++figures_.blocks;
  figures_.offloaded_bytes += piece.span.bytes;
  figures_.d2h_bytes += piece.span.bytes;
}

void Engine::Impl::shrink_window() {
  while (window_.oldest() != nullptr && window_.oldest()->stored().done()) {
    let_oldest_go(/*ended=*/true);
  }
  const std::size_t limit = most_waiting_bytes(d2h_watch_.rate());
  while (window_.bytes() > limit) let_oldest_go(/*ended=*/false);
}

}  // namespace ebb::offload
