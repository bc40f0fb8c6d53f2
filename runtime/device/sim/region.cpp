#include "runtime/device/sim/region.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "allocator/error.h"
#include "allocator/host_limits.h"

namespace ebb::device {
namespace {

// No machine has memory here, so that these addresses are never taken for host memory.
constexpr std::uintptr_t kUnbackedBase = std::uintptr_t{1} << 60;

// What the signal handler needs. A handler is given no context, so this cannot be a member.
struct Watch {
  std::atomic<bool> active{false};
  std::atomic<std::uintptr_t> begin{0};
  std::atomic<std::uintptr_t> end{0};
  std::atomic<std::uintptr_t> page_bytes{0};
  std::atomic<std::uintptr_t> touched{0};  // The first undeclared address, or 0.
  struct sigaction before = {};
};
Watch watch;  // NOLINT(cppcoreguidelines-avoid-non-const-global-variables)

// Notes the address and opens its page, so that the op can go on, on whatever thread it is:
// only the op's caller can throw.
void on_fault(int /*signal*/, siginfo_t* info, void* /*context*/) {
  const auto address = reinterpret_cast<std::uintptr_t>(info->si_addr);
  if (watch.active && address >= watch.begin && address < watch.end) {
    std::uintptr_t none = 0;
    watch.touched.compare_exchange_strong(none, address);
    const std::uintptr_t page = address / watch.page_bytes * watch.page_bytes;
    if (mprotect(reinterpret_cast<void*>(page), watch.page_bytes, PROT_READ | PROT_WRITE) ==
        0) {
      return;
    }
  }
  // Not ours: the instruction is run again, under the handler that was there before.
  sigaction(SIGSEGV, &watch.before, nullptr);
}

}  // namespace

Region::Region(std::size_t bytes, bool backed) : bytes_(bytes), backed_(backed) {
  if (!backed) {
    base_ = kUnbackedBase;
    return;
  }
  void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (data == MAP_FAILED) {
    const int error = errno;
    const std::string limit = read_host_limits().why_not_mapped(bytes);
    throw Error(absl::StatusCode::kResourceExhausted,
                absl::StrCat("cannot map ", bytes, " bytes for the simulated device: ",
                             limit.empty() ? std::system_category().message(error) : limit,
                             "; or give the device a smaller budget"));
  }
  base_ = reinterpret_cast<std::uintptr_t>(data);
}

Region::~Region() {
  if (backed_ && munmap(reinterpret_cast<void*>(base_), bytes_) != 0) {
    log_error("munmap of a simulated device's memory failed");
  }
}

void Region::protect(std::uintptr_t begin, std::uintptr_t end, int protection) const {
  if (begin >= end) return;
  EBB_CHECK(mprotect(reinterpret_cast<void*>(begin), end - begin, protection) == 0,
            kInternal, "mprotect failed: ", std::system_category().message(errno));
}

absl::Status Region::guarded(const char* op, std::span<const Access> accesses,
                             std::size_t used_bytes, absl::FunctionRef<void()> body) {
  const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  const std::uintptr_t end = base_ + (used_bytes + page - 1) / page * page;

  std::vector<std::pair<std::uintptr_t, std::uintptr_t>> open;  // Pages, by address.
  for (const Access& access : accesses) {
    if (access.bytes == 0) continue;
    const std::uintptr_t first = std::max(base_, access.address / page * page);
    const std::uintptr_t last =
        std::min(end, (access.address + access.bytes + page - 1) / page * page);
    if (first < last) open.emplace_back(first, last);
  }
  std::sort(open.begin(), open.end());

  watch.begin = base_;
  watch.end = end;
  watch.page_bytes = page;
  watch.touched = 0;
  struct sigaction action = {};
  action.sa_sigaction = on_fault;
  action.sa_flags = SA_SIGINFO | SA_NODEFER;
  sigemptyset(&action.sa_mask);
  EBB_CHECK(sigaction(SIGSEGV, &action, &watch.before) == 0, kInternal,
            "sigaction failed: ", std::system_category().message(errno));
  watch.active = true;
  const auto restore = absl::MakeCleanup([&] {
    watch.active = false;
    sigaction(SIGSEGV, &watch.before, nullptr);
    if (mprotect(reinterpret_cast<void*>(base_), end - base_, PROT_READ | PROT_WRITE) !=
        0) {
      log_error("mprotect failed: a simulated device's memory stays closed");
    }
  });
  std::uintptr_t from = base_;
  for (const auto& [first, last] : open) {
    protect(from, first, PROT_NONE);
    from = std::max(from, last);
  }
  protect(from, end, PROT_NONE);
  body();
  const std::uintptr_t touched = watch.touched;
  if (touched == 0) return {};
  return absl::InternalError(absl::StrFormat(
      "op '%s' touched address %#x (byte %d of device memory), which it did "
      "not declare",
      op, touched, touched - base_));
}

}  // namespace ebb::device
