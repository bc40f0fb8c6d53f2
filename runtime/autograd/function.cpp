// A job's own ops.

#include <algorithm>
#include <utility>

#include "allocator/error.h"
#include "runtime/autograd/autograd.h"
#include "runtime/autograd/backward_call.h"
#include "runtime/autograd/node.h"

namespace ebb::autograd {
namespace {

// Collects what forward saves.
class ForwardSaved final : public Saved {
 public:
  explicit ForwardSaved(std::span<const Tensor> inputs) : inputs_(inputs) {}

  void save(std::span<const Tensor> tensors) override {
    EBB_CHECK(!called_, kFailedPrecondition, "save() is for once in a forward");
    called_ = true;
    tensors_.assign(tensors.begin(), tensors.end());
  }
  std::vector<Tensor> saved() const override { return tensors_; }
  bool needs_gradient(std::size_t input) const override {
    return input < inputs_.size() && requires_grad(inputs_[input]);
  }

 private:
  const std::span<const Tensor> inputs_;
  bool called_ = false;
  std::vector<Tensor> tensors_;
};

// Hands out what was saved, as often as backward asks.
class BackwardSaved final : public Saved {
 public:
  BackwardSaved(std::vector<Tensor> tensors, const BackwardCall& call, std::size_t inputs)
      : tensors_(std::move(tensors)), call_(call), inputs_(inputs) {}

  void save(std::span<const Tensor>) override {
    throw Error(absl::StatusCode::kFailedPrecondition, "save() is for forward");
  }
  std::vector<Tensor> saved() const override { return tensors_; }
  bool needs_gradient(std::size_t input) const override {
    return input < inputs_ && call_.needs(input);
  }

 private:
  const std::vector<Tensor> tensors_;
  const BackwardCall& call_;
  const std::size_t inputs_;
};

class FunctionNode final : public Node {
 public:
  FunctionNode(std::shared_ptr<Function> function, std::uint32_t outputs,
               std::span<const Tensor> inputs)
      : Node(function->name(), outputs), function_(std::move(function)) {
    for (const Tensor& input : inputs) {
      shapes_.push_back(input.defined() ? input.shape() : tensor::Shape());
    }
  }

  void backward(BackwardCall& call) override {
    std::vector<Tensor> tensors;
    for (std::size_t i = 0; i < saved(); ++i) tensors.push_back(call.use(i));
    BackwardSaved saved(std::move(tensors), call, edges().size());
    std::vector<Tensor> gradients;
    for (std::size_t i = 0; i < outputs(); ++i) gradients.push_back(call.gradient(i));
    // A backward of the same graph inside of this one may give the node up.
    const std::shared_ptr<Function> function = function_;
    std::vector<Tensor> results = function->backward(saved, gradients);
    EBB_CHECK(results.size() == edges().size(), kInvalidArgument, name(),
              ": backward returned ", results.size(), " gradients for ", edges().size(),
              " inputs");
    for (std::size_t i = 0; i < results.size(); ++i) {
      if (!results[i].defined() || !call.needs(i)) continue;
      EBB_CHECK(results[i].shape() == shapes_[i], kInvalidArgument, name(),
                ": the gradient of input ", i, " does not have its shape");
      call.give(i, std::move(results[i]));
    }
  }

  // A function that holds an output of its own holds this node: the end of that.
  void give_up() noexcept override { function_.reset(); }

 private:
  std::shared_ptr<Function> function_;
  std::vector<tensor::Shape> shapes_;
};

std::ptrdiff_t place_among(std::span<const Tensor> inputs, const Tensor& tensor) {
  const auto it = std::find_if(inputs.begin(), inputs.end(),
                               [&](const Tensor& input) { return input.is(tensor); });
  return it == inputs.end() || !tensor.defined() ? -1 : it - inputs.begin();
}

}  // namespace

std::vector<Tensor> apply(std::shared_ptr<Function> function,
                          std::span<const Tensor> inputs) {
  EBB_CHECK(function != nullptr, kInvalidArgument, "apply: no function");
  ForwardSaved saved(inputs);
  std::vector<Tensor> outputs;
  {
    const NoGrad no_grad;
    outputs = function->forward(saved, inputs);
  }
  if (!recorded(inputs)) return outputs;
  auto node = std::make_shared<FunctionNode>(
      std::move(function), static_cast<std::uint32_t>(outputs.size()), inputs);
  node->connect(inputs);
  for (const Tensor& tensor : saved.saved()) {
    node->save(tensor, place_among(inputs, tensor));
  }
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (!outputs[i].defined() || !is_floating(outputs[i].dtype())) continue;
    // An input that comes back, and an output that comes twice, are tensors of their own.
    outputs[i] = attach(node, outputs[i].alias(), static_cast<std::uint32_t>(i));
  }
  return outputs;
}

}  // namespace ebb::autograd
