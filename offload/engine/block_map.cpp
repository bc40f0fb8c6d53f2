#include "offload/engine/block_map.h"

#include <algorithm>
#include <iterator>

namespace ebb::offload {
namespace {

// `block` takes over all that `other` has and is.
void absorb(Block& block, Block& other) {
  std::move(other.pieces.begin(), other.pieces.end(), std::back_inserter(block.pieces));
  other.pieces.clear();
  std::move(other.copies.begin(), other.copies.end(), std::back_inserter(block.copies));
  other.copies.clear();
  while (!other.views.empty()) {
    BlockView& view = *other.views.back();
    other.detach(view);
    block.attach(view);
  }
  block.wanted += other.wanted;
}

}  // namespace

std::vector<BlockMap::Match> BlockMap::find(std::uint64_t storage, std::uint64_t version,
                                            const Span& span) const {
  std::vector<Match> matches;
  const auto found = entries_.find({storage, version});
  if (found == entries_.end()) return matches;
  const std::vector<Match>& entries = found->second;
  auto entry = std::partition_point(
      entries.begin(), entries.end(),
      [&](const Match& before) { return before.span.end() <= span.begin; });
  for (; entry != entries.end() && entry->span.begin < span.end(); ++entry) {
    matches.push_back(*entry);
  }
  return matches;
}

Block& BlockMap::join(const tensor::StorageRef& storage, const Span& span,
                      std::vector<Piece> pieces, const std::vector<Match>& parts) {
  const std::uint64_t version = storage->version()->value;
  Block* block = nullptr;
  Span whole = span;
  if (parts.empty()) {
    block = blocks_.insert(std::make_unique<Block>()).first->get();
  } else {
    block = parts.front().block;
    const std::size_t end = std::max(span.end(), parts.back().span.end());
    whole.begin = std::min(span.begin, parts.front().span.begin);
    whole.bytes = end - whole.begin;
  }
  for (const Match& part : parts) {
    remove(part.block->original);
    if (part.block == block) continue;
    for (const Place& copy : part.block->copies) {
      remove(copy);
      insert(copy, *block, false);
    }
    absorb(*block, *part.block);
    blocks_.erase(blocks_.find(part.block));
  }
  std::move(pieces.begin(), pieces.end(), std::back_inserter(block->pieces));
  std::sort(block->pieces.begin(), block->pieces.end(),
            [](const Piece& a, const Piece& b) { return a.span.begin < b.span.begin; });
  block->span = whole;
  block->original = {{}, storage->version(), storage->id(), version, whole.begin, whole};
  // A job may write its own memory without telling us.
  if (!storage->adopted()) block->original.storage = storage;
  insert(block->original, *block, true);
  return *block;
}

void BlockMap::add_copy(Block& block) {
  const auto gone = [this](const Place& place) {
    if (place.unwritten() != nullptr) return false;
    remove(place);
    return true;
  };
  std::erase_if(block.copies, gone);
  const tensor::StorageRef& storage = block.device;
  block.copies.push_back({storage, storage->version(), storage->id(), block.device_version,
                          block.device_begin, block.span});
  insert(block.copies.back(), block, false);
}

void BlockMap::erase(Block& block) noexcept {
  remove(block.original);
  for (const Place& copy : block.copies) remove(copy);
  blocks_.erase(blocks_.find(&block));
}

void BlockMap::insert(const Place& place, Block& block, bool original) {
  std::vector<Match>& entries = entries_[{place.id, place.at_version}];
  const auto before = std::partition_point(
      entries.begin(), entries.end(),
      [&](const Match& entry) { return entry.span.begin < place.begin; });
  entries.insert(before,
                 {&block, {place.begin, place.span.bytes}, place.span.begin, original});
}

void BlockMap::remove(const Place& place) noexcept {
  const auto found = entries_.find({place.id, place.at_version});
  if (found == entries_.end()) return;  // There was no memory to enter it.
  std::vector<Match>& entries = found->second;
  std::erase_if(entries,
                [&](const Match& entry) { return entry.span.begin == place.begin; });
  if (entries.empty()) entries_.erase(found);
}

}  // namespace ebb::offload
