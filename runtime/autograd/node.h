// The nodes of a graph, and what tensors know of theirs.

#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "runtime/autograd/saved_tensor.h"
#include "runtime/tensor/tensor.h"

namespace ebb::autograd {

class BackwardCall;
class Node;

// Where a gradient goes: to an output of a node, to a leaf, or nowhere.
struct Edge {
  std::shared_ptr<Node> node;
  std::uint32_t output = 0;
  Tensor leaf;

  bool defined() const noexcept { return node != nullptr || leaf.defined(); }
};

// Autograd's part of a tensor: of a leaf its gradient, of an op's result its node.
struct Meta final : tensor::AutogradMeta {
  bool requires_grad = false;  // A leaf's.
  Tensor gradient;             // A leaf's.
  bool overwrite = false;      // The next gradient replaces the one that is there.

  std::shared_ptr<Node> node;
  std::uint32_t output = 0;
  // Others see its writes: it is a view, or has one, in a graph.
  bool shares_storage = false;
};
Meta* meta_of(const Tensor& tensor) noexcept;  // Null if there is none.
Meta& make_meta(const Tensor& tensor);

// One op of a graph. Made before the op is queued, so that what only needs the inputs can
// be saved, and a recompute stopped, ahead of it.
class Node : public std::enable_shared_from_this<Node> {
 public:
  explicit Node(const char* name, std::uint32_t outputs = 1);
  // Without recursion, however deep the graph below is.
  virtual ~Node();

  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;

  // Asks `call` for the gradients of the outputs and gives it those of the inputs.
  virtual void backward(BackwardCall& call) = 0;
  // Whether backward() is made of differentiable ops.
  virtual bool twice_differentiable() const noexcept { return false; }
  // Which saved tensor backward() uses as its n-th.
  virtual std::size_t use_order(std::size_t n) const noexcept { return n; }
  // Lets go of what else only a backward needs.
  virtual void give_up() noexcept {}

  void connect(std::span<const Tensor> inputs);
  bool needs(std::size_t input) const { return edges_[input].defined(); }
  // Saves a tensor that is input number `input`, or none of them.
  void save(const Tensor& tensor, std::ptrdiff_t input = -1);
  // Gives up what is saved: the node has had its backward.
  void release() noexcept;
  bool released() const noexcept { return released_; }

  // Saved tensor number `index`. With `attach`, an input comes back as part of its graph.
  Tensor use(std::size_t index, bool keep, bool attach);
  void used() noexcept;
  void add_to(UseOrder& order) const;

  const char* name() const noexcept { return name_; }
  std::uint64_t sequence() const noexcept { return sequence_; }
  std::int32_t stage() const noexcept { return stage_; }
  std::uint32_t outputs() const noexcept { return outputs_; }
  std::span<const Edge> edges() const noexcept { return edges_; }
  std::size_t saved() const noexcept { return saved_.size(); }

 private:
  struct Saved {
    SavedTensor tensor;
    std::ptrdiff_t input;
  };

  const char* const name_;
  const std::uint64_t sequence_;
  const std::int32_t stage_;
  const std::uint32_t outputs_;
  bool released_ = false;
  std::vector<Edge> edges_;
  std::vector<Saved> saved_;
};

// Whether an op over `inputs` is recorded: gradients are on and one of them needs one.
bool recorded(std::span<const Tensor> inputs) noexcept;

// The node of an op, if it is recorded.
template <typename N, typename... Args>
std::shared_ptr<N> record(std::initializer_list<Tensor> inputs, Args&&... args) {
  const std::span<const Tensor> span(inputs.begin(), inputs.size());
  if (!recorded(span)) return nullptr;
  auto node = std::make_shared<N>(std::forward<Args>(args)...);
  node->connect(span);
  return node;
}

// Makes `tensor` output number `output` of the node, if there is one.
Tensor attach(std::shared_ptr<Node> node, Tensor tensor, std::uint32_t output = 0);

}  // namespace ebb::autograd
