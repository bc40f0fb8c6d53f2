#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include <hwloc.h>

#include "allocator/error.h"
#include "allocator/host_limits.h"
#include "allocator/host_memory.h"

namespace ebb {
namespace {

struct DestroyTopology {
  void operator()(hwloc_topology_t topology) const noexcept {
    hwloc_topology_destroy(topology);
  }
};
using Topology = std::unique_ptr<hwloc_topology, DestroyTopology>;

Topology load_topology() {
  hwloc_topology_t handle = nullptr;
  EBB_CHECK(hwloc_topology_init(&handle) == 0, kInternal, "hwloc_topology_init failed");
  Topology topology(handle);
  EBB_CHECK(hwloc_topology_load(handle) == 0, kInternal, "hwloc_topology_load failed");
  return topology;
}

std::string reason(int error) { return std::system_category().message(error); }

// Gives pages their memory. A kernel before 5.14 cannot be asked: it is made to by a write.
// Returns an errno, 0 for success.
int prefault(std::byte* data, std::size_t bytes) noexcept {
  if (madvise(data, bytes, MADV_POPULATE_WRITE) == 0) return 0;
  if (errno != EINVAL) return errno;
  for (std::size_t at = 0; at < bytes; at += kPageBytes) {
    *static_cast<volatile std::byte*>(data + at) = std::byte{0};
  }
  return 0;
}

// The kernel clears a page in about the time of one memory access a line, so that one
// thread does not keep up with the memory.
int prefault_in_parallel(std::byte* data, std::size_t bytes) {
  constexpr std::size_t kShareBytes = std::size_t{32} << 20;  // A multiple of huge pages.
  const std::size_t shares = (bytes + kShareBytes - 1) / kShareBytes;
  const std::size_t threads =
      std::clamp<std::size_t>(std::thread::hardware_concurrency(), 1, shares);
  std::vector<int> errors(threads, 0);
  const auto work = [&](std::size_t thread) noexcept {
    for (std::size_t share = thread; share < shares; share += threads) {
      const std::size_t at = share * kShareBytes;
      const int error = prefault(data + at, std::min(kShareBytes, bytes - at));
      if (error != 0) errors[thread] = error;
    }
  };
  {
    std::vector<std::jthread> others;
    others.reserve(threads - 1);
    for (std::size_t thread = 1; thread < threads; ++thread) {
      others.emplace_back(work, thread);
    }
    work(0);
  }
  const auto failed =
      std::find_if(errors.begin(), errors.end(), [](int error) { return error != 0; });
  return failed == errors.end() ? 0 : *failed;
}

class PageableMemory final : public HostMemory {
 public:
  PageableMemory(unsigned node, std::filesystem::path root)
      : topology_(load_topology()),
        node_(hwloc_get_numanode_obj_by_os_index(topology_.get(), node)),
        bind_(hwloc_get_nbobjs_by_type(topology_.get(), HWLOC_OBJ_NUMANODE) > 1),
        root_(std::move(root)) {
    EBB_CHECK(node_ != nullptr, kUnavailable, "this machine has no NUMA node ", node);
  }

  std::byte* pin(std::size_t bytes) override {
    EBB_CHECK(bytes > 0, kInvalidArgument, "cannot pin 0 bytes");
    check_room(bytes);
    void* map =
        mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EBB_CHECK(map != MAP_FAILED, kResourceExhausted, "no room for ", bytes,
              " bytes of host memory: ", reason(errno));
    auto* data = static_cast<std::byte*>(map);
    try {
      settle(data, bytes);
    } catch (...) {
      unpin(data, bytes);
      throw;
    }
    return data;
  }

  void check_room(std::size_t bytes) const override {
    read_host_limits(root_).check_room(bytes);
  }

  void unpin(std::byte* data, std::size_t bytes) noexcept override {
    if (munmap(data, bytes) != 0) log_error("munmap failed");
  }

 private:
  void settle(std::byte* data, std::size_t bytes) {
    // A child of fork() neither needs these bytes nor may move them by writing to them.
    EBB_CHECK(madvise(data, bytes, MADV_DONTFORK) == 0, kInternal,
              "madvise(MADV_DONTFORK) failed: ", reason(errno));
    (void)madvise(data, bytes, MADV_HUGEPAGE);  // A kernel without them does as well.
    if (bind_) bind(data, bytes);
    const int error = prefault_in_parallel(data, bytes);
    EBB_CHECK(error == 0, kResourceExhausted, "no room for ", bytes,
              " bytes of host memory on NUMA node ", node_->os_index, ": ", reason(error));
  }

  // A container may not be allowed to bind. The memory is slower then, but right.
  void bind(std::byte* data, std::size_t bytes) const {
    if (hwloc_set_area_membind(topology_.get(), data, bytes, node_->nodeset,
                               HWLOC_MEMBIND_BIND, HWLOC_MEMBIND_BYNODESET) == 0) {
      return;
    }
    const int error = errno;
    const std::string message = absl::StrCat("cannot bind host memory to NUMA node ",
                                             node_->os_index, ": ", reason(error));
    EBB_CHECK(error == EPERM || error == ENOSYS, kInternal, message);
    log_error(absl::StrCat(message, "; a container needs CAP_SYS_NICE for it"));
  }

  const Topology topology_;  // Read only once loaded, so any thread may use it.
  const hwloc_obj_t node_;   // Lives in topology_.
  const bool bind_;          // There is a choice of nodes.
  const std::filesystem::path root_;
};

}  // namespace

std::unique_ptr<HostMemory> make_pageable_memory(unsigned numa_node,
                                                 const std::filesystem::path& root) {
  return std::make_unique<PageableMemory>(numa_node, root);
}

}  // namespace ebb
