#include "offload/engine/block_map.h"

#include <algorithm>
#include <iterator>

namespace ebb::offload {
namespace {

// Room in the first of `parts` for all that they have, and for `pieces` more.
void reserve(Block& block, const BlockMap::Matches& parts, std::size_t pieces) {
  std::size_t copies = 0;
  std::size_t views = 0;
  for (const BlockMap::Match& part : parts) {
    pieces += part.block->pieces.size();
    copies += part.block->copies.size();
    views += part.block->views.size();
  }
  block.pieces.reserve(pieces);
  block.copies.reserve(copies);
  block.views.reserve(views);
}

// `block` takes over all that `other` has and is. It has room for it.
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

BlockMap::Matches BlockMap::find(std::uint64_t storage, std::uint64_t version,
                                 const Span& span) const {
  Matches matches;
  const auto found = entries_.find({storage, version});
  if (found == entries_.end()) return matches;
  const Matches& entries = found->second;
  auto entry = std::partition_point(
      entries.begin(), entries.end(),
      [&](const Match& before) { return before.span.end() <= span.begin; });
  for (; entry != entries.end() && entry->span.begin < span.end(); ++entry) {
    matches.push_back(*entry);
  }
  return matches;
}

Block& BlockMap::join(const tensor::StorageRef& storage, const Span& span, Pieces pieces,
                      const Matches& parts) {
  const std::uint64_t version = storage->version()->value;
  Span whole = span;
  if (!parts.empty()) {
    const std::size_t end = std::max(span.end(), parts.back().span.end());
    whole.begin = std::min(span.begin, parts.front().span.begin);
    whole.bytes = end - whole.begin;
  }

  // First all that takes memory.
  std::unique_ptr<Block> made = parts.empty() ? std::make_unique<Block>() : nullptr;
  Block& block = parts.empty() ? *made : *parts.front().block;
  if (!parts.empty()) reserve(block, parts, pieces.size());
  if (made != nullptr) blocks_.insert(std::move(made));
  Matches* entries = nullptr;
  try {
    entries = &entries_[{storage->id(), version}];
    entries->reserve(entries->size() + 1);
  } catch (...) {
    if (parts.empty()) blocks_.erase(blocks_.find(&block));
    throw;
  }

  for (const Match& part : parts) {
    entries->erase(position(*entries, part.span.begin));
    if (part.block == &block) continue;
    for (const Place& copy : part.block->copies) hand_over(copy, block);
    absorb(block, *part.block);
    blocks_.erase(blocks_.find(part.block));
  }
  std::move(pieces.begin(), pieces.end(), std::back_inserter(block.pieces));
  std::sort(block.pieces.begin(), block.pieces.end(),
            [](const Piece& a, const Piece& b) { return a.span.begin < b.span.begin; });
  block.span = whole;
  block.original = {{}, storage->version(), storage->id(), version, whole.begin, whole};
  // A job may write its own memory without telling us.
  if (!storage->adopted()) block.original.storage = storage;
  entries->insert(position(*entries, whole.begin), {&block, whole, whole.begin, true});
  return block;
}

void BlockMap::add_copy(Block& block) {
  const auto gone = [this](const Place& place) {
    if (place.unwritten() != nullptr) return false;
    remove(place);
    return true;
  };
  block.copies.erase(std::remove_if(block.copies.begin(), block.copies.end(), gone),
                     block.copies.end());
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

BlockMap::Matches::iterator BlockMap::position(Matches& entries,
                                               std::size_t begin) noexcept {
  return std::partition_point(entries.begin(), entries.end(),
                              [&](const Match& entry) { return entry.span.begin < begin; });
}

void BlockMap::insert(const Place& place, Block& block, bool original) {
  Matches& entries = entries_[{place.id, place.at_version}];
  entries.insert(position(entries, place.begin),
                 {&block, {place.begin, place.span.bytes}, place.span.begin, original});
}

void BlockMap::remove(const Place& place) noexcept {
  const auto found = entries_.find({place.id, place.at_version});
  if (found == entries_.end()) return;  // There was no memory to enter it.
  Matches& entries = found->second;
  const auto entry = position(entries, place.begin);
  if (entry != entries.end() && entry->span.begin == place.begin) entries.erase(entry);
  if (entries.empty()) entries_.erase(found);
}

void BlockMap::hand_over(const Place& place, Block& block) noexcept {
  const auto found = entries_.find({place.id, place.at_version});
  if (found == entries_.end()) return;
  const auto entry = position(found->second, place.begin);
  if (entry != found->second.end() && entry->span.begin == place.begin) {
    entry->block = &block;
  }
}

}  // namespace ebb::offload
