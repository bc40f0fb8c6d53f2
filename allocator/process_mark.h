// Tells the process that made something from a child that fork() copied it into.

#pragma once

#include <cstddef>
#include <memory>

namespace ebb {

// Thread-safe.
class ProcessMark {
 public:
  // Throws Error{kResourceExhausted} if there is no page for it.
  ProcessMark();

  // Whether this process is a child of the one that made the mark: one load, where asking
  // the kernel for a process's number takes longer than lending a block.
  bool in_child() const noexcept { return *page_ == std::byte{0}; }

 private:
  struct Unmap {
    void operator()(std::byte* page) const noexcept;
  };

  std::unique_ptr<std::byte, Unmap> page_;  // The kernel wipes it in children.
};

}  // namespace ebb
