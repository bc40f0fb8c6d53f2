#include "bindings/cli/train/run.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "kernels/cpu/cpu_kernels.h"
#include "runtime/autograd/autograd.h"

namespace ebb::cli {
namespace {

offload::Policy engine_policy(config::OffloadPolicy policy) {
  switch (policy) {
    case config::OffloadPolicy::kInputs:
      return offload::Policy::kInputs;
    case config::OffloadPolicy::kSaved:
      return offload::Policy::kSaved;
    case config::OffloadPolicy::kNone:
      break;
  }
  return offload::Policy::kKeep;
}

std::unique_ptr<device::Device> make_device(const config::RunConfig& config,
                                            const RunSetup& setup) {
  device::SimOptions options;
  options.profile = config.profile;
  // What the device has was compared with the limit before; here the limit alone counts.
  options.profile.capacity_bytes = std::nullopt;
  options.order = config.order;
  options.dry = setup.dry;
  options.limit_bytes = setup.device_limit_bytes;
  return device::make_sim_device(options, cpu_kernels());
}

// The checker, which counts: the run ends, and its report says how many.
std::unique_ptr<device::Device> checked(std::unique_ptr<device::Device> device, bool check,
                                        device::CheckDevice*& checker) {
  if (!check) return device;
  auto checking =
      device::make_check_device(std::move(device), {.throw_on_violation = false});
  checker = checking.get();
  return checking;
}

std::unique_ptr<device::Device> make_reference_device(
    std::optional<std::size_t> limit_bytes) {
  device::SimOptions options;
  options.profile = device::load_profile("free");
  options.order.kind = device::Order::Kind::kEager;
  options.limit_bytes = limit_bytes;
  return device::make_sim_device(options, cpu_kernels());
}

train::TrainOptions train_options(const config::RunConfig& config) {
  return {.batch = config.batch,
          .seq = config.seq,
          .accumulate = config.accumulate,
          .seed = config.seed,
          .schedule = train::Schedule::over(config.steps, config.learning_rate),
          .optimizer = {},
          .segments = config.segments()};
}

}  // namespace

Run::Run(const config::RunConfig& config, const RunSetup& setup,
         const train::TextData* data)
    : budget_bytes_(config.device_budget_bytes),
      device_(checked(make_device(config, setup), config.check, check_)),
      link_(*device_),
      pool_(device_->host_memory(),
            config.host_budget_bytes.value_or(std::numeric_limits<std::size_t>::max())),
      store_(link_, pool_),
      engine_(*device_, store_,
              {.policy = engine_policy(config.offload),
               .min_offload_bytes = config.min_offload_bytes,
               .device_budget_bytes = setup.device_budget_bytes}),
      model_(*device_, config.model, config.seed),
      reference_device_(config.verify_gradients && !setup.dry
                            ? make_reference_device(setup.reference_limit_bytes)
                            : nullptr),
      verifier_(reference_device_ == nullptr ? nullptr
                                             : std::make_unique<train::GradientVerifier>(
                                                   *reference_device_, config.model)),
      trainer_((pool_.reserve(setup.host_reserve_bytes), *device_), pool_, model_, data,
               train_options(config), &engine_, verifier_.get()) {
  autograd::set_verify_recompute(setup.dry ? 0 : config.verify_recompute);
  if (setup.record) {
    recorder_ = std::make_unique<offload::RunRecorder>(device_->capability());
    device_->set_observer(recorder_.get());
  }
}

Run::~Run() { autograd::set_verify_recompute(0); }

std::size_t Run::activation_bytes() {
  const device::MemoryFigures figures = device_->memory().figures();
  if (!budget_bytes_) return figures.peak_activation_bytes;
  const std::size_t state = figures.live.total() - figures.live.activations();
  return *budget_bytes_ - std::min(*budget_bytes_, state);
}

train::StepResult Run::step() {
  const std::size_t before = pool_.stats().pin_calls;
  if (recorder_ != nullptr) recorder_->begin_step();
  train::StepResult result = trainer_.step();
  pin_calls_in_steps_ += pool_.stats().pin_calls - before;
  last_sent_ = engine_.take_sent_blocks();
  if (recorder_ != nullptr) recorder_->end_step(last_sent_, activation_bytes());
  engine_.end_step();
  return result;
}

}  // namespace ebb::cli
