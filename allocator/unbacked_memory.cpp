#include <sys/mman.h>

#include <cerrno>
#include <system_error>

#include "allocator/error.h"
#include "allocator/host_memory.h"

namespace ebb {
namespace {

class UnbackedMemory final : public HostMemory {
 public:
  std::byte* pin(std::size_t bytes) override {
    EBB_CHECK(bytes > 0, kInvalidArgument, "cannot pin 0 bytes");
    // Pages without access are not charged to anybody, so that a laptop can simulate a
    // node.
    void* data =
        mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    EBB_CHECK(data != MAP_FAILED, kResourceExhausted, "no ", bytes,
              " bytes of address space: ", std::system_category().message(errno));
    return static_cast<std::byte*>(data);
  }

  void unpin(std::byte* data, std::size_t bytes) noexcept override {
    if (munmap(data, bytes) != 0) log_error("munmap failed");
  }
};

}  // namespace

std::unique_ptr<HostMemory> make_unbacked_memory() {
  return std::make_unique<UnbackedMemory>();
}

}  // namespace ebb
