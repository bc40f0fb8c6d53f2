// What an engine says of what it does: the figures of reports.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "allocator/event.h"

namespace ebb::offload {

// Why a tensor was kept on the device.
enum class Kept : std::uint8_t {
  kPolicy,     // The policy does not mean such tensors.
  kElsewhere,  // It is no activation, or on another device.
  kSmall,      // All of its storage is below the minimum.
  kInUse,      // It would extend a block that backward is using.
  kNoRoom,     // The store was full.
};
inline constexpr std::size_t kKeptReasons = 5;

struct Tally {
  std::size_t tensors = 0;
  std::size_t bytes = 0;
};

// A block that was sent away, as the bound needs it.
struct SentBlock {
  std::size_t bytes = 0;
  std::int32_t stage = -1;
  bool used = false;
  Event made;        // The end of the op that made it.
  Event before_use;  // The end of the last op before its first use.
};

// What one direction of the link is planned with. Bytes per second; steps count from 1.
struct LinkPlan {
  double planned = 0;         // By what the device says of itself.
  double measured = 0;        // What plans are made with now; `planned` until replanned.
  std::uint64_t replans = 0;  // How often that changed,
  std::uint64_t step = 0;     // and after which step last.
};

// Bytes and counts since the engine was made. What was saved is the sum of the first four;
// once every graph is over, d2h = h2d + revived + dropped.
struct EngineFigures {
  std::size_t kept_bytes = 0;        // Left to the tape: not eligible, or no room.
  std::size_t offloaded_bytes = 0;   // Blocks sent away, each once.
  std::size_t shared_bytes = 0;      // Saved again while the block was there already.
  std::size_t recomputed_bytes = 0;  // Not saved: checkpointed segments make it again.
  std::array<Tally, kKeptReasons> kept{};    // kept_bytes by reason (see Kept).
  std::size_t largest_small_bytes = 0;       // Of the storages below the minimum.
  std::size_t no_room_bytes = 0;             // Of kept_bytes: the store was full,
  std::size_t no_room_recomputed_bytes = 0;  // and of recomputed_bytes.
  std::uint64_t room_waits = 0;              // How often the host waited for room.

  std::size_t d2h_bytes = 0;
  std::size_t h2d_bytes = 0;        // First fetches.
  std::size_t revived_bytes = 0;    // Needed again while still on the device.
  std::size_t dropped_bytes = 0;    // Never needed again.
  std::size_t refetched_bytes = 0;  // Fetches after the first.
  std::size_t blocks = 0;           // That were sent.

  std::uint64_t hits = 0;    // There at their use.
  std::uint64_t late = 0;    // In flight at their use.
  std::uint64_t missed = 0;  // Not submitted before their use.

  LinkPlan d2h_plan;  // Does the link do what the device says? (See link_watch.h.)
  LinkPlan h2d_plan;

  // Adds what another engine did. `largest_small_bytes` becomes the larger one; the plans
  // are no sums, and stay.
  EngineFigures& operator+=(const EngineFigures& other);
};

// What the engine keeps books of now. Once every graph is gone and end_step() is called,
// all but `learned` is 0.
struct EngineBooks {
  std::size_t blocks = 0;
  std::size_t waiting_bytes =
      0;                       // Of blocks that hold device memory until their copy ends.
  std::size_t held_bytes = 0;  // On the device, because the store was full.
  std::size_t backwards = 0;   // Under way, or over and not learned from.
  std::size_t learned = 0;     // Orders of use that it remembers: a bounded number.
};

}  // namespace ebb::offload
