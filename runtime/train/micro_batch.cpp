#include "runtime/train/micro_batch.h"

#include "runtime/autograd/autograd.h"
#include "runtime/tensor/launch.h"

namespace ebb::train {

Tensor on_device(device::Device& device, std::span<const std::int32_t> values,
                 std::int64_t batch, std::int64_t seq) {
  const Tensor tensor = Tensor::empty(device, {batch, seq}, DType::kI32);
  tensor::copy_from_host(tensor, values.data());
  return tensor;
}

Tensor run_micro_batch(const nn::Gpt2& model, const MicroBatch& micro,
                       const std::vector<nn::CheckpointSegment>& segments,
                       autograd::SavedTensorHooks* hooks) {
  const autograd::HooksScope hooked(hooks);
  const autograd::TrainingScope training(true);
  autograd::set_random(micro.key);
  const Tensor loss = [&] {
    const autograd::PhaseScope forward(device::Phase::kForward);
    return model.loss(micro.batch.tokens, micro.batch.targets, segments);
  }();
  autograd::backward(loss, {.gradient = micro.scale});
  return autograd::detach(loss);
}

Tensor accumulation_scale(device::Device& device, std::int64_t accumulate) {
  if (accumulate == 1) return {};
  const Tensor scale = Tensor::empty(device, {1}, DType::kF32);
  device::OpInfo op;
  op.name = "trainer.scale";
  op.work.bytes = static_cast<double>(scale.bytes());
  const float value = 1.0F / static_cast<float>(accumulate);
  tensor::launch(op, {}, {scale},
                 [fill = device.kernels().fill, value, data = scale.data()](void* native) {
                   fill(DType::kF32, 1, value, data, native);
                 });
  return scale;
}

void make_gradients(const nn::Parameters& parameters) {
  for (const nn::Parameter& parameter : parameters) {
    const Tensor& tensor = parameter.tensor;
    autograd::set_gradient(tensor, Tensor::empty(tensor.device(), tensor.shape(),
                                                 tensor.dtype(), Purpose::kGradients));
  }
}

void begin_gradients(const nn::Parameters& parameters) {
  for (const nn::Parameter& parameter : parameters) {
    autograd::overwrite_gradient(parameter.tensor);
  }
}

}  // namespace ebb::train
