#include "offload/engine/engine_figures.h"

#include <algorithm>

namespace ebb::offload {

EngineFigures& EngineFigures::operator+=(const EngineFigures& other) {
  // Every member by name: one that comes does not compile until it is added here.
  const auto& [o_kept_bytes, o_offloaded, o_shared, o_recomputed, o_kept, o_largest_small,
               o_no_room, o_no_room_recomputed, o_room_waits, o_d2h, o_h2d, o_revived,
               o_dropped, o_refetched, o_blocks, o_hits, o_late, o_missed, o_d2h_plan,
               o_h2d_plan] = other;
  kept_bytes += o_kept_bytes;
  offloaded_bytes += o_offloaded;
  shared_bytes += o_shared;
  recomputed_bytes += o_recomputed;
  for (std::size_t why = 0; why < kept.size(); ++why) {
    kept[why].tensors += o_kept[why].tensors;
    kept[why].bytes += o_kept[why].bytes;
  }
  largest_small_bytes = std::max(largest_small_bytes, o_largest_small);
  no_room_bytes += o_no_room;
  no_room_recomputed_bytes += o_no_room_recomputed;
  room_waits += o_room_waits;
  d2h_bytes += o_d2h;
  h2d_bytes += o_h2d;
  revived_bytes += o_revived;
  dropped_bytes += o_dropped;
  refetched_bytes += o_refetched;
  blocks += o_blocks;
  hits += o_hits;
  late += o_late;
  missed += o_missed;
  (void)o_d2h_plan;
  (void)o_h2d_plan;
  return *this;
}

}  // namespace ebb::offload
