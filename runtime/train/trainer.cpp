#include "runtime/train/trainer.h"

#include <chrono>
#include <numeric>

#include "allocator/error.h"
#include "runtime/train/gradient_probe.h"
#include "runtime/train/micro_batch.h"

namespace ebb::train {
namespace {

using Clock = std::chrono::steady_clock;

// Hooks may want to leave to a recompute what they have no room for.
TrainOptions with_segments(TrainOptions options, const nn::Gpt2& model,
                           const autograd::SavedTensorHooks* hooks) {
  if (hooks != nullptr) {
    options.segments = nn::with_others_as_needed(options.segments, model.config().layers);
  }
  return options;
}

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

}  // namespace

Trainer::Trainer(device::Device& device, PinnedPool& pool, const nn::Gpt2& model,
                 const TextData* data, const TrainOptions& options,
                 autograd::SavedTensorHooks* hooks, GradientVerifier* verifier)
    : device_(device),
      model_(model),
      data_(data),
      options_(with_segments(options, model, hooks)),
      hooks_(hooks),
      verifier_(verifier),
      feeder_(device, pool, options.batch, options.seq, options.accumulate),
      scale_(accumulation_scale(device, options.accumulate)),
      optimizer_(model.parameters(), options.optimizer) {
  EBB_CHECK(data != nullptr || device.capability().dry, kInvalidArgument,
            "there is nothing to train on");
  make_gradients(model.parameters());
  send(0);
}

RandomKey Trainer::key(std::int64_t number) const {
  const std::int64_t micro = number % options_.accumulate;
  return {.seed = options_.seed,
          .step = static_cast<std::uint32_t>(number / options_.accumulate),
          .op = 0,
          .first_sample = static_cast<std::uint64_t>(micro * options_.batch)};
}

void Trainer::send(std::int64_t number) {
  if (!device_.capability().dry) {
    const RandomKey sample = key(number);
    data_->training_batch(sample.seed, sample.step, sample.first_sample,
                          feeder_.host(number));
  }
  feeder_.send(number);
}

void Trainer::submit(std::int64_t first) {
  begin_gradients(model_.parameters());
  for (std::int64_t micro = 0; micro < options_.accumulate; ++micro) {
    const std::int64_t number = first + micro;
    const Tensor loss = run_micro_batch(
        model_, {.batch = feeder_.receive(number), .key = key(number), .scale = scale_},
        options_.segments, hooks_);
    feeder_.send_loss(number, loss);
    send(number + 1);
  }
}

StepResult Trainer::step() {
  const Clock::time_point begin = Clock::now();
  const std::int64_t first = steps_ * options_.accumulate;
  submit(first);
  StepResult result;
  result.step = steps_;
  const GradientProbe probe(model_.parameters(), verifier_ != nullptr);
  optimizer_.step(options_.schedule.rate(steps_));
  result.border = device_.current_stream().record();
  device_.synchronize();
  result.wall_seconds = seconds_since(begin) - probe.wall_seconds();
  ++steps_;
  if (device_.capability().dry) return result;

  const std::span<const float> losses = feeder_.losses(first);
  result.loss = std::accumulate(losses.begin(), losses.end(), 0.0) /
                static_cast<double>(losses.size());
  result.checksum = probe.checksum();
  if (verifier_ != nullptr) verify(first, probe);
  return result;
}

void Trainer::verify(std::int64_t first, const GradientProbe& probe) {
  std::vector<VerifyBatch> batches;
  for (std::int64_t number = first; number < first + options_.accumulate; ++number) {
    batches.push_back({.host = feeder_.host(number), .key = key(number)});
  }
  verifier_->verify(first / options_.accumulate, probe, batches, options_.batch,
                    options_.seq);
}

}  // namespace ebb::train
