// Trains a deep network with an activation function that Ebbtide does not have, on a
// simulated A100: once with everything kept on the device, once with each block's input
// sent to host memory. The op is written here, and the engine offloads what it saves like
// any other's.

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <exception>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "allocator/pinned_pool.h"
#include "kernels/cpu/cpu_kernels.h"
#include "offload/engine/engine.h"
#include "offload/store/host/host_store.h"
#include "runtime/autograd/autograd.h"
#include "runtime/autograd/ops/ops.h"
#include "runtime/device/sim/profile.h"
#include "runtime/device/sim/sim_device.h"
#include "runtime/tensor/launch.h"
#include "runtime/train/adamw.h"

namespace {

using ebb::DType;
using ebb::Tensor;
namespace autograd = ebb::autograd;
namespace device = ebb::device;
namespace offload = ebb::offload;

constexpr std::int64_t kBlocks = 16;
constexpr std::int64_t kRows = 256;
constexpr std::int64_t kWidth = 64;
constexpr int kSteps = 20;

// y = max(x, 0)^2 (So et al., "Primer", arXiv 2109.08668).
class SquaredRelu final : public autograd::Function {
 public:
  const char* name() const noexcept override { return "squared_relu"; }

  std::vector<Tensor> forward(autograd::Saved& saved,
                              std::span<const Tensor> inputs) override {
    const Tensor& x = inputs[0];
    const Tensor y = Tensor::empty(x.device(), x.shape(), DType::kF32);
    const float* from = x.data_as<float>();
    float* to = y.data_as<float>();
    launch("squared_relu.forward", {x}, {y}, x, [from, to](std::int64_t i) {
      const float positive = std::max(from[i], 0.0F);
      to[i] = positive * positive;
    });
    saved.save({{x}});
    return {y};
  }

  std::vector<Tensor> backward(autograd::Saved& saved,
                               std::span<const Tensor> gradients) override {
    const Tensor x = saved.saved()[0];
    const Tensor& dy = gradients[0];
    const Tensor dx = Tensor::empty(x.device(), x.shape(), DType::kF32);
    const float* from = x.data_as<float>();
    const float* gradient = dy.data_as<float>();
    float* to = dx.data_as<float>();
    launch("squared_relu.backward", {x, dy}, {dx}, x,
           [=](std::int64_t i) { to[i] = gradient[i] * 2.0F * std::max(from[i], 0.0F); });
    return {dx};
  }

 private:
  // An op says what it reads, what it writes and how much it does; its body holds raw
  // pointers and runs when its turn comes.
  template <typename Element>
  static void launch(const char* name, std::initializer_list<Tensor> reads,
                     std::initializer_list<Tensor> writes, const Tensor& like,
                     Element element) {
    const std::int64_t count = like.elements();
    device::OpInfo info;
    info.name = name;
    info.phase = autograd::phase();
    info.work.flops = 2.0 * static_cast<double>(count);
    info.work.bytes = static_cast<double>((reads.size() + writes.size()) * like.bytes());
    ebb::tensor::launch(info, reads, writes, [count, element](void*) {
      for (std::int64_t i = 0; i < count; ++i) element(i);
    });
  }
};

Tensor squared_relu(const Tensor& x) {
  return autograd::apply(std::make_shared<SquaredRelu>(), {{x}})[0];
}

// A residual block each: x + down(squared_relu(up(norm(x)))).
class Network {
 public:
  explicit Network(device::Device& device) {
    std::mt19937 random(1);
    for (std::int64_t i = 0; i < kBlocks; ++i) {
      add(device, {kWidth}, random, 1.0F, 0.0F);
      add(device, {kWidth}, random, 0.0F, 0.0F);
      add(device, {4 * kWidth, kWidth}, random, 0.0F, 0.1F);
      add(device, {kWidth, 4 * kWidth}, random, 0.0F, 0.02F);
    }
  }

  const ebb::nn::Parameters& parameters() const { return parameters_; }

  // The mean of (f(x) - target)^2. Each block is recomputed in backward, from its input.
  Tensor loss(const Tensor& x, const Tensor& target) const {
    Tensor hidden = x;
    for (std::size_t i = 0; i < parameters_.size(); i += 4) {
      const auto block = [this, i](std::span<const Tensor> inputs) {
        const Tensor normal = autograd::layer_norm(inputs[0], at(i), at(i + 1));
        const Tensor wide = squared_relu(autograd::linear(normal, at(i + 2), {}));
        return std::vector{autograd::add(inputs[0], autograd::linear(wide, at(i + 3), {}))};
      };
      hidden = autograd::checkpoint(block, {{hidden}})[0];
    }
    const Tensor apart = autograd::add(hidden, autograd::scale(target, -1.0F));
    const auto mean = 1.0F / static_cast<float>(kRows * kWidth);
    return autograd::scale(autograd::sum(autograd::multiply(apart, apart)), mean);
  }

 private:
  const Tensor& at(std::size_t i) const { return parameters_[i].tensor; }

  void add(device::Device& device, ebb::tensor::Shape shape, std::mt19937& random,
           float mean, float deviation) {
    const bool matrix = shape.size() > 1;
    const Tensor tensor =
        Tensor::empty(device, std::move(shape), DType::kF32, ebb::Purpose::kParameters);
    std::normal_distribution<float> normal;
    std::vector<float> values(static_cast<std::size_t>(tensor.elements()));
    for (float& value : values) value = mean + deviation * normal(random);
    ebb::tensor::copy_from_host(tensor, values.data());
    autograd::set_requires_grad(tensor, true);
    parameters_.push_back({std::to_string(parameters_.size()), tensor, matrix});
  }

  ebb::nn::Parameters parameters_;
};

struct Result {
  std::vector<float> losses;
  std::size_t peak_activation_bytes = 0;
  offload::EngineFigures moved;
};

Result train(offload::Policy policy) {
  device::SimOptions options;
  options.profile = device::load_profile("a100-pcie4");
  const auto device = device::make_sim_device(options, ebb::cpu_kernels());
  ebb::PinnedPool pool(device->host_memory(), std::size_t{1} << 30);
  pool.reserve(kBlocks * kRows * kWidth * sizeof(float));
  ebb::transfer::Link link(*device);
  offload::HostStore store(link, pool);
  offload::Engine engine(*device, store, {.policy = policy, .min_offload_bytes = 4096});
  const Network network(*device);
  ebb::train::AdamW optimizer(network.parameters(), {});

  const Tensor x = Tensor::empty(*device, {kRows, kWidth}, DType::kF32);
  const Tensor target = Tensor::empty(*device, {kRows, kWidth}, DType::kF32);
  std::vector<float> inputs(kRows * kWidth);
  std::vector<float> targets(kRows * kWidth);
  std::mt19937 random(2);
  std::normal_distribution<float> normal;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    inputs[i] = normal(random);
    targets[i] = std::sin(3.0F * inputs[i]);
  }
  ebb::tensor::copy_from_host(x, inputs.data());
  ebb::tensor::copy_from_host(target, targets.data());

  Result result;
  for (int step = 0; step < kSteps; ++step) {
    for (const auto& parameter : network.parameters()) {
      autograd::overwrite_gradient(parameter.tensor);
    }
    Tensor loss;
    {
      const autograd::HooksScope hooks(&engine);
      loss = network.loss(x, target);
    }
    autograd::backward(loss);
    optimizer.step(1e-2);
    device->synchronize();
    engine.end_step();
    float value = 0;
    ebb::tensor::copy_to_host(loss, &value);
    result.losses.push_back(value);
  }
  result.peak_activation_bytes = device->memory().figures().peak_activation_bytes;
  result.moved = engine.figures();
  return result;
}

int run() {
  const Result kept = train(offload::Policy::kKeep);
  const Result sent = train(offload::Policy::kInputs);
  std::printf("loss: %.4f at first, %.4f after %d steps\n", kept.losses.front(),
              kept.losses.back(), kSteps);
  std::printf("peak activation bytes: %zu kept, %zu with offload\n",
              kept.peak_activation_bytes, sent.peak_activation_bytes);
  std::printf("bytes to the host: %zu, back: %zu\n", sent.moved.d2h_bytes,
              sent.moved.h2d_bytes);
  const bool equal = kept.losses == sent.losses;
  std::printf("losses are equal bit for bit: %s\n", equal ? "yes" : "no");
  const bool learned = kept.losses.back() < 0.9F * kept.losses.front();
  const bool smaller = sent.peak_activation_bytes < kept.peak_activation_bytes;
  return equal && learned && smaller && sent.moved.h2d_bytes > 0 ? 0 : 1;
}

}  // namespace

int main() {
  try {
    return run();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "own_op: %s\n", error.what());
    return 1;
  }
}
