// Walks a graph from an output down.
//
// The nodes that can be reached are known before the first one runs, and their sequence
// numbers rise from inputs to outputs: sorted by falling numbers, each node comes after all
// that use its outputs. So gradients always meet in the same order.

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"

#include "allocator/error.h"
#include "runtime/autograd/autograd.h"
#include "runtime/autograd/backward_call.h"
#include "runtime/autograd/modes.h"
#include "runtime/autograd/node.h"
#include "runtime/autograd/ops/ops.h"
#include "runtime/autograd/primitive.h"
#include "runtime/tensor/launch.h"

namespace ebb::autograd {
namespace {

// The hooks' begin_backward() and end_backward().
class HooksRun {
 public:
  HooksRun() = default;
  ~HooksRun() {
    for (auto it = begun_.rbegin(); it != begun_.rend(); ++it) (*it)->end_backward();
  }
  HooksRun(const HooksRun&) = delete;
  HooksRun& operator=(const HooksRun&) = delete;

  void begin(const UseOrder& order) {
    begun_.reserve(order.by_hooks.size());
    for (const auto& [hooks, packed] : order.by_hooks) {
      hooks->begin_backward(packed);
      begun_.push_back(hooks);
    }
  }

 private:
  std::vector<SavedTensorHooks*> begun_;
};

class Run final : public GradientSink {
 public:
  // Without `captures`, leaves get their gradients; else only the captures do.
  Run(const Edge& root, std::span<const Edge> captures, const BackwardOptions& options)
      : captures_(captures),
        captured_(captures.size()),
        create_graph_(options.create_graph),
        keep_(options.retain_graph || options.create_graph) {
    collect(root);
    find_wanted();
  }

  void run(const Edge& root, Tensor gradient) {
    check();
    UseOrder order;
    for (const Visit& visit : visits_) {
      if (visit.wanted) visit.node->add_to(order);
    }
    HooksRun hooks;
    hooks.begin(order);
    add(root, std::move(gradient));
    for (Visit& visit : visits_) step(visit);
  }

  std::vector<Tensor> take_captured() {
    // A leaf that was asked for twice.
    for (std::size_t i = 0; i < captures_.size(); ++i) {
      if (!captured_[i].defined()) captured_[i] = captured_[capture_of(captures_[i])];
    }
    return std::move(captured_);
  }

  bool wants(const Edge& edge) const override {
    if (!edge.defined()) return false;
    if (captures_.empty()) return true;
    if (capture_of(edge) != captures_.size()) return true;
    return edge.node && visits_[index_.at(edge.node.get())].wanted;
  }

  void add(const Edge& edge, Tensor gradient) override {
    if (edge.leaf.defined()) {
      add_to_leaf(edge, std::move(gradient));
    } else {
      Visit& visit = visits_[index_.at(edge.node.get())];
      accumulate(visit.gradients[edge.output], std::move(gradient));
    }
  }

  Destination open(const Edge& edge) override {
    if (!edge.leaf.defined() || create_graph_ || !captures_.empty()) return {};
    const Meta& meta = *meta_of(edge.leaf);
    Destination destination{meta.gradient, Into::kAdd, true};
    if (!meta.gradient.defined() || meta.overwrite) destination.into = Into::kOverwrite;
    // A gradient that is itself part of a graph must not be written over.
    const bool shared = requires_grad(meta.gradient);
    if (!meta.gradient.defined() || shared) destination.tensor = new_buffer(edge.leaf);
    if (shared && destination.into == Into::kAdd) copy(meta.gradient, destination.tensor);
    return destination;
  }

  void close(const Edge& edge, const Destination& destination) override {
    Meta& meta = *meta_of(edge.leaf);
    meta.gradient = destination.tensor;
    meta.overwrite = false;
  }

 private:
  struct Visit {
    std::shared_ptr<Node> node;
    std::vector<Tensor> gradients;  // Of its outputs, as far as they have arrived.
    bool wanted = true;             // Something that gets a gradient is below.
  };

  // All nodes below `root`, by falling sequence numbers.
  void collect(const Edge& root) {
    if (!root.node) return;
    std::vector<std::shared_ptr<Node>> open = {root.node};
    index_.emplace(root.node.get(), 0);
    while (!open.empty()) {
      std::shared_ptr<Node> node = std::move(open.back());
      open.pop_back();
      for (const Edge& edge : node->edges()) {
        if (edge.node && index_.emplace(edge.node.get(), 0).second) {
          open.push_back(edge.node);
        }
      }
      const std::uint32_t outputs = node->outputs();
      visits_.push_back({std::move(node), std::vector<Tensor>(outputs), true});
    }
    std::sort(visits_.begin(), visits_.end(), [](const Visit& a, const Visit& b) {
      return a.node->sequence() > b.node->sequence();
    });
    for (std::size_t i = 0; i < visits_.size(); ++i) index_[visits_[i].node.get()] = i;
  }

  void find_wanted() {
    if (captures_.empty()) return;
    for (auto visit = visits_.rbegin(); visit != visits_.rend(); ++visit) {
      const auto edges = visit->node->edges();
      visit->wanted = std::any_of(edges.begin(), edges.end(),
                                  [this](const Edge& edge) { return wants(edge); });
    }
  }

  void check() const {
    for (const Visit& visit : visits_) {
      if (!visit.wanted) continue;
      EBB_CHECK(!visit.node->released(), kFailedPrecondition,
                "backward a second time through ", visit.node->name(),
                ": its saved tensors are given up; use retain_graph the first time");
      EBB_CHECK(!create_graph_ || visit.node->twice_differentiable(), kInvalidArgument,
                visit.node->name(),
                " has no second derivative: create_graph cannot be "
                "used on a graph with it");
    }
  }

  void step(Visit& visit) {
    const bool arrived = std::any_of(visit.gradients.begin(), visit.gradients.end(),
                                     [](const Tensor& g) { return g.defined(); });
    for (std::size_t i = 0; i < captures_.size(); ++i) {
      if (captures_[i].node == visit.node) {
        captured_[i] = visit.gradients[captures_[i].output];
      }
    }
    if (visit.wanted) {
      Node& node = *visit.node;
      if (arrived) {
        // A backward of the same graph may have run inside of this one.
        EBB_CHECK(!node.released(), kFailedPrecondition, "backward through ", node.name(),
                  ", whose saved tensors were given up in the meantime");
        const StageScope stage(node.stage());
        BackwardCall call(*this, node, std::move(visit.gradients), keep_, create_graph_);
        try {
          node.backward(call);
        } catch (...) {
          node.used();  // What came back for it: the graph may live on, and be tried again.
          throw;
        }
      }
      if (keep_) {
        node.used();
      } else {
        node.release();
      }
    }
    visit.gradients.clear();
  }

  // The first gradient is taken over; the next is added in place where nobody would see it.
  void accumulate(Tensor& sum, Tensor gradient) {
    if (!sum.defined()) {
      sum = std::move(gradient);
    } else if (create_graph_) {
      sum = autograd::add(sum, gradient);
    } else {
      Tensor a = contiguous(std::exchange(sum, {}));
      Tensor b = contiguous(gradient);
      gradient = {};
      if (a.unique()) {
        add_to(a, b, a);
        sum = std::move(a);
      } else if (b.unique()) {
        add_to(a, b, b);
        sum = std::move(b);
      } else {
        sum = Tensor::empty(a.device(), a.shape(), a.dtype());
        add_to(a, b, sum);
      }
    }
  }

  void add_to_leaf(const Edge& edge, Tensor gradient) {
    if (!captures_.empty()) {
      const std::size_t capture = capture_of(edge);
      if (capture != captures_.size()) accumulate(captured_[capture], std::move(gradient));
      return;
    }
    Meta& meta = *meta_of(edge.leaf);
    if (create_graph_) {
      const bool first = !meta.gradient.defined() || meta.overwrite;
      meta.gradient = first ? std::move(gradient) : autograd::add(meta.gradient, gradient);
      meta.overwrite = false;
      return;
    }
    const Destination destination = open(edge);
    if (destination.into == Into::kOverwrite) {
      copy(gradient, destination.tensor);
    } else {
      add_to(destination.tensor, contiguous(gradient), destination.tensor);
    }
    tensor::written_in_place(destination.tensor);
    close(edge, destination);
  }

  static Tensor new_buffer(const Tensor& leaf) {
    return Tensor::empty(leaf.device(), leaf.shape(), leaf.dtype(), Purpose::kGradients);
  }

  // Which capture an edge leads to; captures_.size(): none.
  std::size_t capture_of(const Edge& edge) const {
    const auto it =
        std::find_if(captures_.begin(), captures_.end(), [&](const Edge& capture) {
          if (edge.node) return capture.node == edge.node && capture.output == edge.output;
          return capture.leaf.defined() &&
                 capture.leaf.autograd_meta() == edge.leaf.autograd_meta();
        });
    return static_cast<std::size_t>(it - captures_.begin());
  }

  const std::span<const Edge> captures_;
  std::vector<Tensor> captured_;
  const bool create_graph_;
  const bool keep_;
  std::vector<Visit> visits_;
  absl::flat_hash_map<const Node*, std::size_t> index_;  // Into visits_.
};

Edge edge_to(const Tensor& tensor, const char* what) {
  EBB_CHECK(requires_grad(tensor), kInvalidArgument, what,
            " needs no gradient: no tensor that needs one was used with gradients on");
  const Meta& meta = *meta_of(tensor);
  if (meta.node) return {meta.node, meta.output, {}};
  return {nullptr, 0, tensor};
}

Tensor first_gradient(const Tensor& output, const BackwardOptions& options) {
  if (options.gradient.defined()) {
    EBB_CHECK(options.gradient.shape() == output.shape() &&
                  options.gradient.dtype() == output.dtype(),
              kInvalidArgument, "the gradient and its output differ in shape or dtype");
    return options.gradient;
  }
  EBB_CHECK(output.elements() == 1, kInvalidArgument, "an output of ", output.elements(),
            " elements needs a gradient to start from");
  Tensor one = Tensor::empty(output.device(), output.shape(), output.dtype());
  fill(one, 1);
  return one;
}

std::vector<Tensor> walk(const Tensor& output, std::span<const Edge> captures,
                         const BackwardOptions& options) {
  const Edge root = edge_to(output, "the output of backward");
  Run run(root, captures, options);
  const ModesScope restore;
  modes().grad_enabled = options.create_graph;
  modes().phase = device::Phase::kBackward;
  run.run(root, first_gradient(output, options));
  return run.take_captured();
}

}  // namespace

void backward(const Tensor& output, const BackwardOptions& options) {
  walk(output, {}, options);
}

std::vector<Tensor> gradients(const Tensor& output, std::span<const Tensor> inputs,
                              const BackwardOptions& options) {
  if (inputs.empty()) return {};
  std::vector<Edge> captures;
  captures.reserve(inputs.size());
  for (const Tensor& input : inputs) captures.push_back(edge_to(input, "an input"));
  return walk(output, captures, options);
}

}  // namespace ebb::autograd
