#include "runtime/train/gradient_probe.h"

#include <chrono>
#include <utility>

#include "allocator/error.h"
#include "runtime/autograd/autograd.h"
#include "runtime/tensor/hash_bytes.h"
#include "runtime/tensor/launch.h"

namespace ebb::train {
namespace {

struct Range {
  const std::byte* data;
  std::size_t bytes;
};

std::vector<std::byte> copied(const Range& range) {
  return {range.data, range.data + range.bytes};
}

}  // namespace

struct GradientProbe::Found {
  bool looked = false;
  std::uint64_t checksum = 0;
  double wall_seconds = 0;
  std::vector<std::vector<std::byte>> weights;
  std::vector<std::vector<std::byte>> gradients;
};

GradientProbe::GradientProbe(const nn::Parameters& parameters, bool keep)
    : found_(std::make_shared<Found>()) {
  std::vector<Tensor> reads;
  std::vector<Range> weights;
  std::vector<Range> gradients;
  const auto range = [&reads](const Tensor& tensor) {
    reads.push_back(tensor);
    return Range{tensor.data_as<const std::byte>(), tensor.bytes()};
  };
  for (const nn::Parameter& parameter : parameters) {
    const Tensor gradient = autograd::gradient(parameter.tensor);
    EBB_CHECK(gradient.defined(), kFailedPrecondition, "the parameter ", parameter.name,
              " has no gradient");
    gradients.push_back(range(gradient));
    if (keep) weights.push_back(range(parameter.tensor));
  }
  device::OpInfo op;
  op.name = "probe.gradients";
  op.probe = true;
  tensor::launch(op, reads, {},
                 [found = found_, keep, weights = std::move(weights),
                  gradients = std::move(gradients)](void* /*native*/) {
                   const auto begin = std::chrono::steady_clock::now();
                   for (const Range& gradient : gradients) {
                     found->checksum =
                         tensor::hash_bytes(gradient.data, gradient.bytes, found->checksum);
                     if (keep) found->gradients.push_back(copied(gradient));
                   }
                   for (const Range& weight : weights) {
                     found->weights.push_back(copied(weight));
                   }
                   const std::chrono::duration<double> took =
                       std::chrono::steady_clock::now() - begin;
                   found->wall_seconds = took.count();
                   found->looked = true;
                 });
}

std::optional<std::uint64_t> GradientProbe::checksum() const {
  if (!found_->looked) return std::nullopt;
  return found_->checksum;
}

const std::vector<std::vector<std::byte>>& GradientProbe::weights() const {
  return found_->weights;
}

const std::vector<std::vector<std::byte>>& GradientProbe::gradients() const {
  return found_->gradients;
}

double GradientProbe::wall_seconds() const { return found_->wall_seconds; }

}  // namespace ebb::train
