// One run, real or dry, put together: device, pool, engine, model and trainer.

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "allocator/pinned_pool.h"
#include "bindings/config/run_config.h"
#include "offload/engine/engine.h"
#include "offload/report/run_recorder.h"
#include "offload/store/host/host_store.h"
#include "runtime/device/check/check_device.h"
#include "runtime/nn/gpt2.h"
#include "runtime/train/gradient_verifier.h"
#include "runtime/train/text_data.h"
#include "runtime/train/trainer.h"
#include "runtime/transfer/transfer_queue.h"

namespace ebb::cli {

// How a request is carried out.
struct RunSetup {
  bool dry = false;
  // What the device may reserve; none: no limit, whatever the profile's capacity.
  std::optional<std::size_t> device_limit_bytes;
  // What the engine may count on where the host is full. None: that limit, which in a
  // run is the rehearsal's peak; both decide alike only if both are told the same.
  std::optional<std::size_t> device_budget_bytes = std::nullopt;
  // Of the device that gradients are compared with; none: all that the machine has.
  std::optional<std::size_t> reference_limit_bytes = std::nullopt;
  std::size_t host_reserve_bytes = 0;  // Pinned before the first step.
  bool record = false;                 // Work out where time goes, and the bound.
};

// One thread at a time. `config` and `data` outlive it. `data` is null for a dry run.
class Run {
 public:
  Run(const config::RunConfig& config, const RunSetup& setup, const train::TextData* data);
  ~Run();

  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  // Runs the next step and what belongs to its border. Throws what went wrong.
  train::StepResult step();

  device::Device& device() noexcept { return *device_; }
  // Null unless accesses are checked.
  const device::CheckDevice* check() const noexcept { return check_; }
  const PinnedPool& pool() const noexcept { return pool_; }
  // Calls that pinned memory inside of steps.
  std::size_t pin_calls_in_steps() const noexcept { return pin_calls_in_steps_; }
  offload::Engine& engine() noexcept { return engine_; }
  const nn::Gpt2& model() const noexcept { return model_; }
  // Null unless it records.
  const offload::RunRecorder* recorder() const noexcept { return recorder_.get(); }
  // The blocks that the last step sent away.
  const std::vector<offload::SentBlock>& last_sent() const noexcept { return last_sent_; }
  // Null unless gradients are verified.
  const train::GradientVerifier* verifier() const noexcept { return verifier_.get(); }

 private:
  // Of the device: the activation budget if there is a budget, else what was used at most.
  std::size_t activation_bytes();

  std::optional<std::size_t> budget_bytes_;
  std::unique_ptr<offload::RunRecorder>
      recorder_;                          // Outlives device_, whose observer it is.
  device::CheckDevice* check_ = nullptr;  // device_, if it is one: set while that is made.
  std::unique_ptr<device::Device> device_;
  transfer::Link link_;
  PinnedPool pool_;
  offload::HostStore store_;
  offload::Engine engine_;
  nn::Gpt2 model_;
  std::unique_ptr<device::Device> reference_device_;
  std::unique_ptr<train::GradientVerifier> verifier_;
  train::Trainer trainer_;
  std::vector<offload::SentBlock> last_sent_;
  std::size_t pin_calls_in_steps_ = 0;
};

}  // namespace ebb::cli
