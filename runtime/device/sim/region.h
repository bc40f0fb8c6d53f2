// The addresses of a simulated device's memory.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"

#include "runtime/device/stream.h"

namespace ebb::device {

// Pages that come into being when they are touched; or, unbacked, addresses only. Its size
// may be far beyond the machine's memory.
class Region {
 public:
  // Throws Error{kResourceExhausted} if the machine does not give so many addresses.
  Region(std::size_t bytes, bool backed);
  ~Region();

  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;

  std::uintptr_t base() const noexcept { return base_; }
  std::size_t bytes() const noexcept { return bytes_; }

  // Runs `body` while the pages of the first `used_bytes` bytes that none of `accesses`
  // overlaps are PROT_NONE. If it touches one, the page is opened and the result names
  // `op` and the address; what the body does is not undone. One body at a time in a
  // process.
  absl::Status guarded(const char* op, std::span<const Access> accesses,
                       std::size_t used_bytes, absl::FunctionRef<void()> body);

 private:
  void protect(std::uintptr_t begin, std::uintptr_t end, int protection) const;

  std::uintptr_t base_ = 0;
  std::size_t bytes_ = 0;
  bool backed_ = false;
};

}  // namespace ebb::device
