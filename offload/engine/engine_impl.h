// What stands behind Engine; kept alive by it and by every tensor that it packed.

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "offload/engine/block_map.h"
#include "offload/engine/engine.h"
#include "offload/engine/fetcher.h"
#include "offload/engine/held_room.h"
#include "offload/engine/lesson.h"
#include "offload/engine/link_watch.h"
#include "offload/engine/sent_log.h"
#include "offload/engine/walk.h"
#include "offload/engine/window.h"

namespace ebb::offload {

// The hooks of what it packed: a graph may outlive the engine, and have its backward then.
class Engine::Impl final : public autograd::SavedTensorHooks,
                           public device::Reclaimer,
                           public std::enable_shared_from_this<Engine::Impl> {
 public:
  class Packed;
  class HeldPacked;

  Impl(device::Device& device, Store& store, const EngineOptions& options);
  ~Impl() override;

  autograd::PackResult pack(const Tensor& tensor, const autograd::SaveSite& site) override;
  void left_to_recompute(const Tensor& tensor, const autograd::SaveSite&) override {
    figures_.recomputed_bytes += tensor.access(device::Access::Mode::kRead).bytes;
  }
  void begin_backward(std::span<autograd::PackedTensor* const> order_of_use) override;
  void end_backward() noexcept override;
  void end_step();
  EngineFigures figures() const;
  EngineBooks books() const {
    return {.blocks = blocks_.size(),
            .waiting_bytes = window_.bytes(),
            .held_bytes = held_room_.bytes(),
            .backwards = walks_.size() + finished_.size(),
            .learned = learned_.size()};
  }
  std::vector<SentBlock> take_sent_blocks() { return sent_.take(); }

  // Brings the block to the device, if it is not there, and compute behind that.
  void use(Block& block);
  // The saved tensors over it that backward still wants have become none.
  void let_go(Block& block) noexcept;
  // The last saved tensor over it is gone.
  void destroy(Block& block) noexcept;

  bool reclaim(std::size_t bytes) override;
  std::string holds() const override;

 private:
  using Parts = BlockMap::Matches;

  // Nothing: it is to go.
  std::optional<Kept> why_keep(const Tensor& tensor, const autograd::SaveSite& site) const;
  autograd::PackResult keep(std::size_t bytes, Kept why);
  // The answer to a save that the store has no room for, if there is one.
  std::optional<autograd::PackResult> do_without(const Tensor& tensor, std::size_t bytes,
                                                 const autograd::SaveSite& site);
  [[noreturn]] void throw_no_room(std::size_t bytes, const autograd::SaveSite& site) const;
  // Whether blocks that overlap what is saved of `storage` can become one: none is listed
  // by a backward, or lives on other device memory.
  bool can_join(const Parts& parts, const tensor::StorageRef& storage) noexcept;
  // Queues a copy to the store of what the parts lack of `span`, and makes all one block;
  // null if there is no room. No saved tensor owns a new one yet.
  Block* send(const tensor::StorageRef& storage, const Span& span, const Parts& parts,
              const Fence& made);
  // Notes the pieces that have been sent just now.
  void note_sent(Block& block, const Fence& made, std::int32_t stage);
  // Whether the host could wait for it. Counted as time that host memory was full.
  bool host_waits(const Fence& fence, const char* site) noexcept;
  std::unique_ptr<StoredBlock> put(std::uintptr_t device, std::size_t bytes,
                                   const Fence& after);
  std::size_t most_waiting_bytes(const device::LinkRate& link) const noexcept;
  void shrink_window();
  void let_oldest_go(bool ended);  // Of the window; whether its copy has ended.
  // Its bytes on the device are of no use: the next use takes them from elsewhere.
  void give_up_device(Block& block) noexcept;
  // The block is about to lose its device memory.
  void lose(Block& block) noexcept;
  Walk* walk_of(const Block& block) noexcept;
  // The block's bytes are in `storage` from `begin` on.
  void put_on_device(Block& block, tensor::StorageRef storage, std::size_t begin) noexcept;
  // Takes the block to be where others still hold its bytes, if they do.
  bool revive(Block& block);
  void count_revived(Block& block) noexcept;
  // Queues the fetches that are due at `point`.
  void prefetch(Walk& walk, const Event& point);
  bool due(const Walk& walk, const Block& block) const noexcept;
  void learn_lookahead(Walk& walk) const;
  // The block has been fetched.
  void came_back(Block& block);

  device::Device& device_;
  Store& store_;
  const Policy policy_;
  const std::size_t min_offload_bytes_;
  Fetcher fetcher_;
  Window window_;
  BlockMap blocks_;
  std::vector<std::unique_ptr<Walk>> walks_;  // The innermost last.
  std::vector<WalkRecord> finished_;          // In this step.
  // Itself during a backward: the last tensor that it packed may go before that ends.
  std::shared_ptr<Impl> busy_;
  Learned learned_;
  LinkWatch d2h_watch_;
  LinkWatch h2d_watch_;
  SentLog sent_;
  HeldRoom held_room_;
  std::uint64_t walk_count_ = 0;
  std::size_t largest_bytes_ = 0;
  std::size_t missing_bytes_ = 0;  // In this step: what the store had no room for.
  EngineFigures figures_;
};

}  // namespace ebb::offload
