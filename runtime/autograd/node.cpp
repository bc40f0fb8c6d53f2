#include "runtime/autograd/node.h"

#include <algorithm>
#include <atomic>

#include "runtime/autograd/autograd.h"
#include "runtime/autograd/checkpoint/recompute_check.h"
#include "runtime/autograd/modes.h"

namespace ebb::autograd {
namespace {

// Of the process: graphs may join what several threads recorded.
std::uint64_t next_sequence() noexcept {
  static std::atomic<std::uint64_t> next{1};
  return next.fetch_add(1, std::memory_order_relaxed);
}

void move_nodes(std::vector<Edge>& edges, std::vector<std::shared_ptr<Node>>& to) {
  for (Edge& edge : edges) {
    if (edge.node) to.push_back(std::move(edge.node));
  }
}

}  // namespace

Meta* meta_of(const Tensor& tensor) noexcept {
  if (!tensor.defined()) return nullptr;
  return static_cast<Meta*>(tensor.autograd_meta().get());
}

Meta& make_meta(const Tensor& tensor) {
  auto& meta = tensor.autograd_meta();
  if (!meta) meta = std::make_shared<Meta>();
  return static_cast<Meta&>(*meta);
}

Node::Node(const char* name, std::uint32_t outputs)
    : name_(name), sequence_(next_sequence()), stage_(modes().stage), outputs_(outputs) {}

Node::~Node() {
  // The nodes that only this one holds are taken apart here, one by one: if each destroyed
  // the next, a deep graph would overflow the stack.
  std::vector<std::shared_ptr<Node>> nodes;
  move_nodes(edges_, nodes);
  while (!nodes.empty()) {
    const std::shared_ptr<Node> node = std::move(nodes.back());
    nodes.pop_back();
    if (node.use_count() == 1) move_nodes(node->edges_, nodes);
  }
}

void Node::connect(std::span<const Tensor> inputs) {
  edges_.resize(inputs.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const Meta* meta = meta_of(inputs[i]);
    if (meta == nullptr) continue;
    if (meta->node) {
      edges_[i] = {meta->node, meta->output, {}};
    } else if (meta->requires_grad) {
      edges_[i] = {nullptr, 0, inputs[i]};
    }
  }
}

void Node::save(const Tensor& tensor, std::ptrdiff_t input) {
  RecomputeCheck* check = modes().check;
  if (check != nullptr && input < 0 && tensor.defined()) {
    check->made(name_, stage_, RecomputeCheck::kSaved, tensor);
  }
  const SaveSite site{SaveSite::Kind::kSavedTensor, name_, stage_};
  saved_.push_back({SavedTensor(tensor, site), input});
}

void Node::release() noexcept {
  released_ = true;
  saved_.clear();
  give_up();
}

Tensor Node::use(std::size_t index, bool keep, bool attach) {
  Saved& saved = saved_[index];
  Tensor tensor = saved.tensor.use(keep);
  if (!attach || saved.input < 0 || !tensor.defined()) return tensor;
  const Edge& edge = edges_[static_cast<std::size_t>(saved.input)];
  if (!edge.defined()) return tensor;
  tensor = tensor.alias();
  if (edge.leaf.defined()) {
    tensor.autograd_meta() = edge.leaf.autograd_meta();
  } else {
    Meta& meta = make_meta(tensor);
    meta.node = edge.node;
    meta.output = edge.output;
  }
  return tensor;
}

void Node::used() noexcept {
  for (Saved& saved : saved_) saved.tensor.used();
}

void Node::add_to(UseOrder& order) const {
  for (std::size_t n = 0; n < saved_.size(); ++n) {
    saved_[use_order(n)].tensor.add_to(order);
  }
}

bool recorded(std::span<const Tensor> inputs) noexcept {
  return modes().grad_enabled &&
         std::any_of(inputs.begin(), inputs.end(),
                     [](const Tensor& tensor) { return requires_grad(tensor); });
}

Tensor attach(std::shared_ptr<Node> node, Tensor tensor, std::uint32_t output) {
  if (node) {
    if (RecomputeCheck* check = modes().check; check != nullptr) {
      check->made(node->name(), node->stage(), static_cast<std::int32_t>(output), tensor);
    }
    Meta& meta = make_meta(tensor);
    meta.node = std::move(node);
    meta.output = output;
  }
  return tensor;
}

}  // namespace ebb::autograd
