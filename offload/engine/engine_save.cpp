// Engine: what happens on save.

#include <algorithm>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/container/inlined_vector.h"

#include "offload/engine/engine_impl.h"
#include "offload/engine/packed.h"

namespace ebb::offload {

using autograd::PackResult;
using autograd::SaveSite;
using tensor::StorageRef;

namespace {

using Gaps = absl::InlinedVector<Span, 1>;

// The bytes of `span` that no part has.
Gaps gaps(const Span& span, const BlockMap::Matches& parts) {
  Gaps gaps;
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
  // Whatever may throw here: a new block has no owner yet who would give it up.
  auto orphan = absl::MakeCleanup([&] {
    if (block != nullptr && block->views.empty()) destroy(*block);
  });
  std::size_t begin = span.begin;  // In the block's own storage.
  if (parts.size() == 1 && parts.front().span.contains(span)) {
    block = parts.front().block;
    begin += parts.front().block_begin - parts.front().span.begin;
    figures_.shared_bytes += span.bytes;
  } else {
    if (!can_join(parts, storage)) return keep(span.bytes, Kept::kInUse);
    Fence made = storage->last_write();
    // A job may write its own memory without telling us: then it does so on its stream.
    if (storage->adopted()) made.add(device_.current_stream().record());
    block = send(storage, span, parts, made);
    if (block == nullptr) {
      if (auto answer = do_without(tensor, span.bytes, site)) return std::move(*answer);
      if (store_.grow(span.bytes)) block = send(storage, span, parts, made);
      if (block == nullptr) throw_no_room(span.bytes, site);
    }
    note_sent(*block, made, site.stage);
  }
  auto packed =
      std::make_unique<Packed>(shared_from_this(), *block, tensor, begin, site.op);
  std::move(orphan).Cancel();
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
                          const Fence& made) {
  Pieces pieces;
  std::size_t sent_bytes = 0;
  for (const Span& gap : gaps(span, parts)) {
    auto stored = put(storage->address() + gap.begin, gap.bytes, made);
    if (stored == nullptr) return nullptr;
    storage->used_until(stored->stored());
    pieces.push_back({.span = gap, .stored = std::move(stored)});
    sent_bytes += gap.bytes;
  }
  const std::size_t sent_pieces = pieces.size();
  bool waits = sent_pieces > 0;
  bool there = waits;
  for (const BlockMap::Match& part : parts) {
    waits = waits || part.block->in_window;
    there = there || part.block->device != nullptr;
  }
  for (const BlockMap::Match& part : parts) give_up_device(*part.block);
  Block& block = blocks_.join(storage, span, std::move(pieces), parts);
  // From here on nothing fails.
  if (there) put_on_device(block, storage, block.span.begin);
  if (waits) window_.push(block);
  device_.memory().mark_sent(storage->address());
  largest_bytes_ = std::max(largest_bytes_, block.bytes());
  figures_.shared_bytes += span.bytes - sent_bytes;
  figures_.blocks += sent_pieces;
  figures_.offloaded_bytes += sent_bytes;
  figures_.d2h_bytes += sent_bytes;
  return &block;
}

void Engine::Impl::note_sent(Block& block, const Fence& made, std::int32_t stage) {
  for (Piece& piece : block.pieces) {
    if (!piece.sent.empty()) continue;
    piece.copy =
        d2h_watch_.queued(piece.span.bytes, made, device_.now(), piece.stored->stored());
    piece.sent = sent_.add(piece.span.bytes, stage, made);
  }
}

void Engine::Impl::shrink_window() {
  while (window_.oldest() != nullptr && window_.oldest()->stored().done()) {
    let_oldest_go(/*ended=*/true);
  }
  const std::size_t limit = most_waiting_bytes(d2h_watch_.rate());
  while (window_.bytes() > limit) let_oldest_go(/*ended=*/false);
}

}  // namespace ebb::offload
