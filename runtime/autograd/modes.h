// What the scopes of autograd.h set, for the calling thread.

#pragma once

#include <cstdint>
#include <optional>

#include "kernels/dtype.h"
#include "kernels/philox.h"
#include "runtime/autograd/saved_tensor_hooks.h"
#include "runtime/device/stream.h"

namespace ebb::autograd {

class RecomputeCheck;

struct Modes {
  bool grad_enabled = true;
  bool training = true;
  std::optional<DType> autocast;
  // The hooks are a checkpointed segment's, and stay so while it runs.
  bool in_segment = false;
  bool recomputing = false;  // The segment runs again.
  SavedTensorHooks* hooks = nullptr;
  std::int32_t stage = -1;
  std::optional<device::Phase> phase;
  RandomKey random;
  RecomputeCheck* check = nullptr;  // Is told what ops make.
  int verify_recompute = 0;         // Every n-th output; 0: none.
  std::uint64_t verify_count = 0;
};

// Of the calling thread.
Modes& modes() noexcept;

// Puts all modes back.
class ModesScope {
 public:
  ModesScope() : before_(modes()) {}
  ~ModesScope() { modes() = before_; }
  ModesScope(const ModesScope&) = delete;
  ModesScope& operator=(const ModesScope&) = delete;

 private:
  Modes before_;
};

}  // namespace ebb::autograd
