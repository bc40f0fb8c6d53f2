#include <atomic>
#include <cstdint>

#include "allocator/error.h"
#include "allocator/host_memory.h"

namespace ebb {
namespace {

// No processor that we know maps addresses here, nor do the simulated device's unbacked
// ones reach this far.
constexpr std::uintptr_t kBase = std::uintptr_t{1} << 61;
constexpr std::size_t kMost = std::size_t{1} << 60;

// Hands out numbers, so that a laptop can simulate a node, and a process whose address
// space is limited (RLIMIT_AS) as well.
class UnbackedMemory final : public HostMemory {
 public:
  std::byte* pin(std::size_t bytes) override {
    EBB_CHECK(bytes > 0, kInvalidArgument, "cannot pin 0 bytes");
    EBB_CHECK(bytes <= kMost, kResourceExhausted, "no ", bytes,
              " bytes of addresses for host memory");
    const std::size_t pages = (bytes + kPageBytes - 1) / kPageBytes;
    // A page between any two: nothing runs from one into the next.
    const std::uintptr_t address = next_.fetch_add((pages + 1) * kPageBytes);
    EBB_CHECK(address < kBase + kMost, kResourceExhausted,
              "a dry run has used up its addresses for host memory");
    return reinterpret_cast<std::byte*>(address);  // NOLINT(performance-no-int-to-ptr)
  }

  void unpin(std::byte* /*data*/, std::size_t /*bytes*/) noexcept override {}

 private:
  std::atomic<std::uintptr_t> next_{kBase};
};

}  // namespace

std::unique_ptr<HostMemory> make_unbacked_memory() {
  return std::make_unique<UnbackedMemory>();
}

}  // namespace ebb
