// The memory of a simulated device: addresses from an arena, bytes counted by its clock.

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>

#include "absl/container/btree_map.h"
#include "absl/container/flat_hash_map.h"

#include "runtime/device/device.h"
#include "runtime/device/ring.h"
#include "runtime/device/sim/memory_ledger.h"
#include "runtime/device/sim/region.h"

namespace ebb::device {

class SimMemory final : public DeviceMemory {
 public:
  using Block = MemoryLedger::Block;

  // `mutex` is the device's; `catch_up` brings its clock up to the caller's.
  SimMemory(const StreamOrder& order, std::optional<std::size_t> limit_bytes, bool backed,
            std::recursive_mutex& mutex, std::function<void()> catch_up);

  std::optional<std::uintptr_t> try_allocate(std::size_t bytes, Purpose purpose,
                                             Stream& stream) override;
  void free(std::uintptr_t address, const Fence& last_use) noexcept override;
  Hold hold(std::uintptr_t address) override;
  void release(Hold hold) noexcept override;
  void mark_sent(std::uintptr_t address) noexcept override;
  MemoryFigures figures() const override;
  void reset_peaks() noexcept override;

  // An op that touches that range is submitted: appends its blocks to `blocks`, and returns
  // how many.
  std::uint32_t submit(std::uintptr_t address, std::size_t bytes, Ring<Block>& blocks);
  // A copy that was announced by `hold` is submitted: the same.
  std::uint32_t submit(Hold hold, Ring<Block>& blocks);

  MemoryLedger& ledger() noexcept { return ledger_; }
  Region& region() noexcept { return region_; }
  std::size_t used_bytes() const noexcept { return arena_.stats().reserved_bytes; }

 private:
  struct Lent {
    std::size_t bytes = 0;
    Block block = 0;
  };

  std::recursive_mutex& mutex_;
  const std::function<void()> catch_up_;
  const std::optional<std::size_t> limit_bytes_;
  Region region_;
  DeviceArena arena_;
  MemoryLedger ledger_;
  absl::btree_map<std::uintptr_t, Lent> lent_;
  absl::flat_hash_map<Hold, Block> held_;
  Hold holds_ = 0;  // So far.
};

}  // namespace ebb::device
