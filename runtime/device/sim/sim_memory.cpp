#include "runtime/device/sim/sim_memory.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "allocator/error.h"

namespace ebb::device {
namespace {

// Where there is no limit: more than the machine can back, or than any model needs.
std::size_t unlimited_bytes(bool backed) {
  if (!backed) return std::size_t{1} << 50;
  const auto pages = static_cast<std::size_t>(sysconf(_SC_PHYS_PAGES));
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  return pages * page;
}

std::size_t rounded(std::size_t bytes) {
  constexpr std::size_t kGranule = DeviceArena::kGranularityBytes;
  return bytes / kGranule * kGranule;
}

}  // namespace

SimMemory::SimMemory(const StreamOrder& order, std::optional<std::size_t> limit_bytes,
                     bool backed, std::recursive_mutex& mutex,
                     std::function<void()> catch_up)
    : mutex_(mutex),
      catch_up_(std::move(catch_up)),
      limit_bytes_(limit_bytes),
      region_(std::max(rounded(limit_bytes.value_or(unlimited_bytes(backed))),
                       DeviceArena::kGranularityBytes),
              backed),
      arena_(order, region_.base(),
             rounded(limit_bytes.value_or(unlimited_bytes(backed)))) {}

std::optional<std::uintptr_t> SimMemory::try_allocate(std::size_t bytes, Purpose purpose,
                                                      Stream& stream) {
  const std::scoped_lock lock(mutex_);
  const auto grant = arena_.allocate(bytes, stream.id());
  if (!grant) return std::nullopt;
  const std::size_t size = std::max<std::size_t>(bytes, 1);
  const std::size_t whole = rounded(size + DeviceArena::kGranularityBytes - 1);
  lent_.emplace(grant->address, Lent{size, ledger_.add(whole, purpose)});
  try {
    stream.wait(grant->wait_for, {StallCause::kD2HBacklog, "memory.allocate"});
  } catch (...) {
    SimMemory::free(grant->address, grant->wait_for);
    throw;
  }
  return grant->address;
}

void SimMemory::free(std::uintptr_t address, const Fence& last_use) noexcept {
  const std::scoped_lock lock(mutex_);
  const auto it = lent_.find(address);
  if (it == lent_.end()) {
    log_error("device memory is given back that is not lent");
    return;
  }
  catch_up_();
  ledger_.free(it->second.block);
  lent_.erase(it);
  arena_.free(address, last_use);
}

Hold SimMemory::hold(std::uintptr_t address) {
  const std::scoped_lock lock(mutex_);
  auto it = lent_.upper_bound(address);
  if (it == lent_.begin()) return 0;
  --it;
  if (it->first + it->second.bytes <= address) return 0;
  catch_up_();
  ledger_.submit(it->second.block);
  held_.emplace(++holds_, it->second.block);
  return holds_;
}

void SimMemory::release(Hold hold) noexcept {
  const std::scoped_lock lock(mutex_);
  const auto it = held_.find(hold);
  if (it == held_.end()) return;
  ledger_.withdraw(it->second);
  held_.erase(it);
}

void SimMemory::mark_sent(std::uintptr_t address) noexcept {
  const std::scoped_lock lock(mutex_);
  const auto it = lent_.find(address);
  if (it != lent_.end()) ledger_.mark_sent(it->second.block);
}

MemoryFigures SimMemory::figures() const {
  const std::scoped_lock lock(mutex_);
  catch_up_();
  const MemoryLedger::Peak peak = ledger_.peak();
  MemoryFigures result;
  result.limit_bytes = limit_bytes_;
  result.lent = ledger_.lent();
  result.live = ledger_.live();
  result.at_peak = peak.at_peak;
  result.peak_bytes = peak.bytes;
  result.peak_activation_bytes = peak.activation_bytes;
  result.reserved_bytes = arena_.stats().reserved_bytes;
  result.peak_reserved_bytes = result.reserved_bytes;
  return result;
}

void SimMemory::reset_peaks() noexcept {
  const std::scoped_lock lock(mutex_);
  catch_up_();
  ledger_.reset_peak();
}

std::uint32_t SimMemory::submit(std::uintptr_t address, std::size_t bytes,
                                Ring<Block>& blocks) {
  std::uint32_t count = 0;
  auto it = lent_.upper_bound(address);
  if (it != lent_.begin()) --it;
  for (; it != lent_.end() && it->first < address + bytes; ++it) {
    if (it->first + it->second.bytes <= address) continue;
    ledger_.submit(it->second.block);
    blocks.push_back(it->second.block);
    ++count;
  }
  return count;
}

std::uint32_t SimMemory::submit(Hold hold, Ring<Block>& blocks) {
  const auto it = held_.find(hold);
  if (it == held_.end()) return 0;
  ledger_.submit(it->second);
  blocks.push_back(it->second);
  return 1;
}

}  // namespace ebb::device
