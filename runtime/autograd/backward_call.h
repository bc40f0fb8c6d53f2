// What a node's backward is given: its gradients, what it saved, and where its results go.

#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "kernels/kernels.h"
#include "runtime/autograd/node.h"
#include "runtime/tensor/tensor.h"

namespace ebb::autograd {

// Where a kernel puts a gradient: straight into a leaf's buffer where it can.
struct Destination {
  Tensor tensor;  // Undefined if nobody needs the gradient.
  Into into = Into::kOverwrite;
  bool direct = false;  // `tensor` is a leaf's buffer.

  void* data() const { return tensor.defined() ? tensor.data() : nullptr; }
};

// Says where gradients go. The run of a backward.
class GradientSink {
 public:
  virtual ~GradientSink() = default;
  virtual bool wants(const Edge& edge) const = 0;
  virtual void add(const Edge& edge, Tensor gradient) = 0;
  // The buffer of a leaf whose gradient may be written in place; else not direct.
  virtual Destination open(const Edge& edge) = 0;
  virtual void close(const Edge& edge, const Destination& destination) = 0;
};

class BackwardCall {
 public:
  // `gradients` are those of the node's outputs; undefined where nobody used one.
  BackwardCall(GradientSink& sink, Node& node, std::vector<Tensor> gradients, bool keep,
               bool create_graph)
      : sink_(sink),
        node_(node),
        gradients_(std::move(gradients)),
        keep_(keep),
        create_graph_(create_graph) {}

  // The gradient of an output, contiguous, handed over: ask once.
  Tensor gradient(std::size_t output = 0);
  bool needs(std::size_t input) const { return sink_.wants(node_.edges()[input]); }
  // A saved tensor. Unless the graph is retained it is handed over: ask once, and in the
  // order of Node::use_order.
  Tensor use(std::size_t index) { return node_.use(index, keep_, create_graph_); }
  void give(std::size_t input, Tensor gradient);

  // For kernels that write or add in place. Undefined where no gradient is needed. What is
  // written counts once it is closed.
  Destination open(std::size_t input, device::Device& device, const tensor::Shape& shape,
                   DType dtype);
  void close(std::size_t input, const Destination& destination);

 private:
  GradientSink& sink_;
  Node& node_;
  std::vector<Tensor> gradients_;
  std::vector<Tensor> open_;  // Leaf buffers between open() and close().
  const bool keep_;
  const bool create_graph_;
};

// Sets what would be overwritten to zero, so that a kernel that can only add may add.
void make_additive(Destination& destination);
// Makes two destinations of one kernel either both overwritten or both added to.
void make_alike(Destination& a, Destination& b);

}  // namespace ebb::autograd
