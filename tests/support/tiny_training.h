// A model, a text and a trainer small enough for tests, on a simulated device under the
// order checker.

#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "allocator/pinned_pool.h"
#include "runtime/nn/gpt2.h"
#include "runtime/train/gradient_verifier.h"
#include "runtime/train/text_data.h"
#include "runtime/train/trainer.h"
#include "tests/support/sim_devices.h"

namespace ebb::test {

inline nn::Gpt2Config tiny_model() {
  return {.layers = 2,
          .heads = 2,
          .hidden = 16,
          .vocabulary = 128,
          .positions = 32,
          .dropout = 0.1F,
          .dtype = DType::kF32};
}

// Every sample of it differs from every other.
inline std::string tiny_text() {
  std::string text;
  for (int i = 0; i < 200; ++i) text += "verse " + std::to_string(i * i) + "\n";
  return text;
}

inline train::TrainOptions tiny_options() {
  train::TrainOptions options;
  options.batch = 2;
  options.seq = 8;
  options.seed = 3;
  options.schedule = {.peak = 1e-2, .steps = 10, .warm_up = 0, .floor_ratio = 0.1};
  return options;
}

// What a trainer needs around it.
struct TinyTraining {
  explicit TinyTraining(std::unique_ptr<device::CheckDevice> on,
                        const nn::Gpt2Config& config = tiny_model())
      : device(std::move(on)),
        pool(device->host_memory(), std::size_t{1} << 20),
        model(*device, config, 1) {
    set_cpu_threads(1);  // More would only wait for each other.
  }

  std::unique_ptr<train::Trainer> trainer(const train::TrainOptions& options,
                                          autograd::SavedTensorHooks* hooks = nullptr,
                                          train::GradientVerifier* verifier = nullptr) {
    const bool dry = device->capability().dry;
    return std::make_unique<train::Trainer>(*device, pool, model, dry ? nullptr : &data,
                                            options, hooks, verifier);
  }

  std::unique_ptr<device::CheckDevice> device;
  PinnedPool pool;
  nn::Gpt2 model;
  train::TextData data{"the text", tiny_text(), 8, 128};
};

}  // namespace ebb::test
