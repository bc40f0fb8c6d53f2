// A block: bytes of one storage that saved tensors lie over, at one version.
//
// Saved tensors whose bytes overlap share a block: it spans their union. It is sent in
// pieces, each of which was not there yet when a tensor was saved, so that no byte goes to
// the store twice; and it is fetched as one, so that the tensors share device memory again.

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/container/inlined_vector.h"

#include "allocator/event.h"
#include "offload/engine/link_watch.h"
#include "offload/engine/sent_log.h"
#include "offload/store/store.h"
#include "runtime/tensor/storage.h"

namespace ebb::offload {

// Bytes of a storage.
struct Span {
  std::size_t begin = 0;
  std::size_t bytes = 0;

  std::size_t end() const noexcept { return begin + bytes; }
  bool contains(const Span& other) const noexcept {
    return begin <= other.begin && other.end() <= end();
  }
};

// A part of a block that was sent on its own.
struct Piece {
  enum class Fate : std::uint8_t { kSent, kFetched, kRevived };

  Span span;
  std::unique_ptr<StoredBlock> stored;
  Fate fate = Fate::kSent;
  SentLog::Mark sent{};    // Its place among what was sent,
  LinkWatch::Mark copy{};  // and among the link's copies.
};

using Pieces = absl::InlinedVector<Piece, 1>;

// Device memory in which a block's bytes may still be as they were saved: the storage that
// they were saved from, or one that they were fetched to. Others keep it, or nobody.
struct Place {
  std::weak_ptr<tensor::Storage> storage;
  // Whoever holds it is known to watch: the memory is not taken for unseen (see
  // Tensor::unique()).
  std::shared_ptr<tensor::Version> version;
  std::uint64_t id = 0;          // Of the storage,
  std::uint64_t at_version = 0;  // with these bytes in it,
  std::size_t begin = 0;         // there, for
  Span span;                     // these of the block's own storage.

  // The storage, if it is there and was not written since.
  tensor::StorageRef unwritten() const {
    tensor::StorageRef found = storage.lock();
    if (found != nullptr && version->value != at_version) found.reset();
    return found;
  }
};

struct Block;

// A saved tensor, as its block sees it.
struct BlockView {
  Block* block = nullptr;
  std::size_t index = 0;  // In the block's list.
};

// Where it is: always in the store; besides, in the window (its first device memory, whose
// copy compute is not ordered after yet), or in device memory that it was fetched to or
// found in again, or neither.
struct Block {
  Span span;  // Of the storage that it was saved from (see `original`).
  // Nearly always one piece, which one tensor was saved over, and which comes back once.
  Pieces pieces;  // Side by side; they cover the whole block.
  Place original;
  absl::InlinedVector<Place, 1> copies;

  tensor::StorageRef device;         // Null: in the store only.
  std::size_t device_begin = 0;      // Of the block within it, in bytes.
  std::uint64_t device_version = 0;  // Of its bytes.
  Event fetched;                     // The end of the copy to `device`, if it was fetched.
  bool fetch_unused = false;         // It was fetched ahead, and no use has come.
  bool in_window = false;
  Block* window_older = nullptr;
  Block* window_newer = nullptr;

  absl::InlinedVector<BlockView*, 1> views;
  std::size_t wanted = 0;  // Those that backward is not done with.

  std::uint64_t walk = 0;    // The backward that lists it,
  std::size_t position = 0;  // where,
  bool asked = false;        // whether its use has come,
  bool ahead = false;        // and whether it is among the bytes there before their use.

  std::size_t bytes() const noexcept { return span.bytes; }
  // The end of its copies into the store.
  Fence stored() const {
    Fence fence;
    for (const Piece& piece : pieces) fence.add(piece.stored->stored());
    return fence;
  }
  // Its bytes on the device were changed in place.
  bool overwritten() const noexcept {
    return device != nullptr && device->version()->value != device_version;
  }

  void attach(BlockView& view) {
    view.index = views.size();
    views.push_back(&view);
    view.block = this;
  }
  void detach(BlockView& view) noexcept {
    views.back()->index = view.index;
    views[view.index] = views.back();
    views.pop_back();
    view.block = nullptr;
  }
};

}  // namespace ebb::offload
