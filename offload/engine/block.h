// A block: the bytes of one storage that saved tensors lie over, at one version.

#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <utility>

#include "allocator/event.h"
#include "offload/store/store.h"
#include "runtime/tensor/storage.h"

namespace ebb::offload {

struct BlockKey {
  std::uint64_t storage = 0;
  std::uint64_t version = 0;
  std::size_t begin = 0;  // Bytes from the beginning of the storage.
  std::size_t bytes = 0;

  friend bool operator==(const BlockKey&, const BlockKey&) = default;
  template <typename H>
  friend H AbslHashValue(H state, const BlockKey& key) {
    return H::combine(std::move(state), key.storage, key.version, key.begin, key.bytes);
  }
};

// Where it is: always in the store; besides, in the window (its first device memory, whose
// copy compute is not ordered after yet), or in device memory that it was fetched to or
// found in again, or neither.
struct Block {
  BlockKey key;
  const char* op = "";
  std::shared_ptr<tensor::Version> version;
  std::unique_ptr<StoredBlock> stored;

  tensor::StorageRef device;     // Null: in the store only.
  std::size_t device_begin = 0;  // Of the block within it, in bytes.
  Event fetched;                 // The end of the copy to `device`, if it was fetched.
  bool fetch_unused = false;     // It was fetched ahead, and no use has come.
  bool in_window = false;
  std::list<Block*>::iterator window_place;

  enum class Fate : std::uint8_t { kSent, kFetched, kRevived };
  Fate fate = Fate::kSent;
  std::size_t holders = 0;  // Saved tensors over it,
  std::size_t wanted = 0;   // and those that backward is not done with.

  std::uint64_t sent_generation = 0;  // Of the list of sent blocks,
  std::size_t sent_index = 0;         // and its place there.

  std::uint64_t walk = 0;    // The backward that lists it,
  std::size_t position = 0;  // where,
  bool asked = false;        // whether its use has come,
  bool ahead = false;        // and whether it is among the bytes there before their use.

  std::size_t bytes() const noexcept { return key.bytes; }
};

}  // namespace ebb::offload
