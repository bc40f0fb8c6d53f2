#include "allocator/process_mark.h"

#include <sys/mman.h>

#include <cerrno>
#include <system_error>

#include "allocator/error.h"
#include "allocator/host_memory.h"

namespace ebb {

ProcessMark::ProcessMark() {
  void* page =
      mmap(nullptr, kPageBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  EBB_CHECK(page != MAP_FAILED, kResourceExhausted,
            "no room for a page: ", std::system_category().message(errno));
  page_.reset(static_cast<std::byte*>(page));
  // Linux 4.14. Before that a child is not told apart.
  (void)madvise(page, kPageBytes, MADV_WIPEONFORK);
  *page_ = std::byte{1};
}

void ProcessMark::Unmap::operator()(std::byte* page) const noexcept {
  if (munmap(page, kPageBytes) != 0) log_error("munmap failed");
}

}  // namespace ebb
