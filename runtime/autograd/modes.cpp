#include "runtime/autograd/modes.h"

#include "runtime/autograd/autograd.h"

namespace ebb::autograd {

Modes& modes() noexcept {
  // Modes follow the code that a thread runs, as scopes do, and belong to no object.
  thread_local Modes modes;
  return modes;
}

NoGrad::NoGrad() : before_(modes().grad_enabled) { modes().grad_enabled = false; }
NoGrad::~NoGrad() { modes().grad_enabled = before_; }
bool grad_enabled() noexcept { return modes().grad_enabled; }

HooksScope::HooksScope(SavedTensorHooks* hooks) : before_(modes().hooks) {
  if (!modes().in_segment) modes().hooks = hooks;
}
HooksScope::~HooksScope() { modes().hooks = before_; }

TrainingScope::TrainingScope(bool on) : before_(modes().training) { modes().training = on; }
TrainingScope::~TrainingScope() { modes().training = before_; }
bool training() noexcept { return modes().training; }

AutocastScope::AutocastScope(std::optional<DType> dtype) : before_(modes().autocast) {
  modes().autocast = dtype;
}
AutocastScope::~AutocastScope() { modes().autocast = before_; }
std::optional<DType> autocast() noexcept { return modes().autocast; }

StageScope::StageScope(std::int32_t stage) : before_(modes().stage) {
  modes().stage = stage;
}
StageScope::~StageScope() { modes().stage = before_; }
std::int32_t stage() noexcept { return modes().stage; }

PhaseScope::PhaseScope(device::Phase phase) : before_(modes().phase) {
  modes().phase = phase;
}
PhaseScope::~PhaseScope() { modes().phase = before_; }
device::Phase phase() noexcept {
  if (modes().phase) return *modes().phase;
  return modes().grad_enabled ? device::Phase::kForward : device::Phase::kOther;
}

void set_random(const RandomKey& key) noexcept { modes().random = key; }
RandomKey next_random() noexcept {
  const RandomKey key = modes().random;
  ++modes().random.op;
  return key;
}

bool recomputing() noexcept { return modes().recomputing; }

void set_verify_recompute(int every) noexcept {
  modes().verify_recompute = every;
  modes().verify_count = 0;
}

}  // namespace ebb::autograd
