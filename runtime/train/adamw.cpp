#include "runtime/train/adamw.h"

#include <cstddef>

#include "allocator/error.h"
#include "runtime/autograd/autograd.h"
#include "runtime/tensor/launch.h"

namespace ebb::train {
namespace {

using device::OpInfo;
using device::Phase;

OpInfo optimizer_op(const char* name, double flops, double bytes) {
  OpInfo op;
  op.name = name;
  op.work = {flops, bytes, DType::kF32};
  op.phase = Phase::kOptimizer;
  return op;
}

Tensor zeros(device::Device& device, tensor::Shape shape, Purpose purpose) {
  Tensor tensor = Tensor::empty(device, std::move(shape), DType::kF32, purpose);
  const auto fill = device.kernels().fill;
  tensor::launch(optimizer_op("optimizer.zero", 0, static_cast<double>(tensor.bytes())), {},
                 {tensor},
                 [fill, n = tensor.elements(), data = tensor.data()](void* native) {
                   fill(DType::kF32, n, 0.0F, data, native);
                 });
  return tensor;
}

}  // namespace

AdamW::AdamW(const nn::Parameters& parameters, const AdamWOptions& options)
    : parameters_(parameters), options_(options) {
  EBB_CHECK(!parameters.empty(), kInvalidArgument, "there are no parameters to optimise");
  device::Device& device = parameters.front().tensor.device();
  for (const nn::Parameter& parameter : parameters) {
    const Tensor& tensor = parameter.tensor;
    State state;
    state.m = zeros(device, tensor.shape(), Purpose::kOptimizer);
    state.v = zeros(device, tensor.shape(), Purpose::kOptimizer);
    EBB_CHECK(tensor.dtype() == DType::kF32, kInvalidArgument,
              "no optimizer for parameters of type ", name(tensor.dtype()));
    states_.push_back(std::move(state));
  }
  squares_ = Tensor::empty(device, {static_cast<std::int64_t>(parameters.size())},
                           DType::kF32, Purpose::kOptimizer);
  norm_ = Tensor::empty(device, {1}, DType::kF32, Purpose::kOptimizer);
  factor_ = Tensor::empty(device, {1}, DType::kF32, Purpose::kOptimizer);
}

void AdamW::step(double learning_rate) {
  ++steps_;
  const Kernels& kernels = parameters_.front().tensor.device().kernels();
  std::vector<Tensor> gradients;
  gradients.reserve(parameters_.size());
  for (const nn::Parameter& parameter : parameters_) {
    gradients.push_back(autograd::gradient(parameter.tensor));
    EBB_CHECK(gradients.back().defined(), kFailedPrecondition, "the parameter ",
              parameter.name, " has no gradient");
  }

  for (std::size_t i = 0; i < gradients.size(); ++i) {
    const Tensor& gradient = gradients[i];
    const auto n = static_cast<double>(gradient.elements());
    const auto at = static_cast<std::int64_t>(i);
    const Tensor square = squares_.slice(0, at, at + 1);
    tensor::launch(optimizer_op("optimizer.sum_of_squares", 2 * n,
                                static_cast<double>(gradient.bytes())),
                   {gradient}, {square},
                   [sum = kernels.sum_of_squares, dtype = gradient.dtype(),
                    count = gradient.elements(), x = gradient.data(),
                    out = square.data_as<float>()](void* native) {
                     sum(dtype, count, x, out, native);
                   });
  }
  const auto count = static_cast<std::int64_t>(gradients.size());
  tensor::launch(optimizer_op("optimizer.clip_factor", static_cast<double>(count),
                              static_cast<double>(squares_.bytes())),
                 {squares_}, {norm_, factor_},
                 [clip = kernels.clip_factor, count, squares = squares_.data_as<float>(),
                  most = options_.max_norm, norm = norm_.data_as<float>(),
                  factor = factor_.data_as<float>()](void* native) {
                   clip(count, squares, most, norm, factor, native);
                 });

  for (std::size_t i = 0; i < gradients.size(); ++i) {
    const nn::Parameter& parameter = parameters_[i];
    const State& state = states_[i];
    const ebb::AdamW rule{.learning_rate = static_cast<float>(learning_rate),
                          .beta1 = options_.beta1,
                          .beta2 = options_.beta2,
                          .epsilon = options_.epsilon,
                          .weight_decay = parameter.decay ? options_.weight_decay : 0.0F,
                          .step = steps_};
    const auto n = static_cast<double>(parameter.tensor.elements());
    // Reads all four of gradient, parameter, m and v, and writes three of them.
    const OpInfo op = optimizer_op("optimizer.adamw", 12 * n, 7 * n * sizeof(float));
    tensor::launch(
        op, {gradients[i], factor_, parameter.tensor, state.m, state.v},
        {parameter.tensor, state.m, state.v},
        [adamw = kernels.adamw, dtype = parameter.tensor.dtype(),
         elements = parameter.tensor.elements(), rule, weights = parameter.tensor.data(),
         gradient = gradients[i].data(), factor = factor_.data_as<float>(),
         m = state.m.data_as<float>(), v = state.v.data_as<float>()](void* native) {
          adamw(dtype, elements, rule, weights, gradient, factor, m, v, nullptr, native);
        });
    tensor::written_in_place(parameter.tensor);
  }
}

}  // namespace ebb::train
