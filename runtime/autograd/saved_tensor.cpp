#include "runtime/autograd/saved_tensor.h"

#include <algorithm>

#include "allocator/error.h"
#include "runtime/autograd/modes.h"

namespace ebb::autograd {

void UseOrder::add(SavedTensorHooks* hooks, PackedTensor* packed) {
  auto it = std::find_if(by_hooks.begin(), by_hooks.end(),
                         [&](const auto& entry) { return entry.first == hooks; });
  if (it == by_hooks.end()) it = by_hooks.insert(it, {hooks, {}});
  it->second.push_back(packed);
}

SavedTensor::SavedTensor(const Tensor& tensor, const SaveSite& site) : op_(site.op) {
  if (!tensor.defined()) return;
  Tensor alias = tensor.alias();
  SavedTensorHooks* hooks = modes().hooks;
  if (hooks != nullptr && tensor.storage()->purpose() == Purpose::kActivations) {
    PackResult result = hooks->pack(alias, site);
    EBB_CHECK(!result.recompute, kFailedPrecondition, "hooks left a tensor that ", site.op,
              " saves to a recompute, but no segment makes it again");
    packed_ = std::move(result.packed);
    hooks_ = result.by != nullptr ? result.by : hooks;
    remade_ = dynamic_cast<RemadeTensor*>(packed_.get());
    // What is made again is checked against the version that it is made with.
    if (remade_ != nullptr) return;
  }
  if (!packed_) kept_ = std::move(alias);
  version_ = tensor::SavedVersion(tensor);
}

Tensor SavedTensor::use(bool keep) {
  version_.check(op_);
  Tensor tensor = packed_ ? packed_->unpack() : kept_;
  if (!keep) release();
  return tensor;
}

void SavedTensor::used() noexcept {
  if (packed_) packed_->used();
}

void SavedTensor::release() noexcept {
  kept_ = {};
  remade_ = nullptr;
  packed_.reset();
  version_ = {};
}

void SavedTensor::add_to(UseOrder& order) const {
  if (!packed_) return;
  if (remade_ != nullptr) {
    remade_->add_to(order);
  } else {
    order.add(hooks_, packed_.get());
  }
}

}  // namespace ebb::autograd
