// A small model on the real tape, with or without the real engine under it: what a test
// does with one it does with the other, which checkpoints nothing either, and finds the
// same bits.

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "allocator/pinned_pool.h"
#include "offload/engine/engine.h"
#include "offload/store/host/host_store.h"
#include "runtime/autograd/autograd.h"
#include "runtime/autograd/ops/ops.h"
#include "tests/support/sim_devices.h"
#include "tests/support/tensors.h"

namespace ebb::test {

// Thrown by a job's own op.
struct Thrown {};

// y = x + 0.1 x^2, as a job would write it. Throws at the `pass`-th call of `where`.
class Tripwire {
 public:
  enum class Where : std::uint8_t { kNowhere, kForward, kRecompute, kBackward };

  void set(Where where, int pass) {
    where_ = where;
    passes_ = pass;
  }
  void pass(Where where) {
    if (where != where_ || passes_-- > 0) return;
    where_ = Where::kNowhere;
    throw Thrown();
  }

 private:
  Where where_ = Where::kNowhere;
  int passes_ = 0;
};

class TrippingOp final : public autograd::Function {
 public:
  // `in_backward` is called in each backward.
  explicit TrippingOp(Tripwire& wire, std::function<void()> in_backward = {})
      : wire_(wire), in_backward_(std::move(in_backward)) {}

  const char* name() const noexcept override { return "tripwire"; }
  std::vector<Tensor> forward(autograd::Saved& saved,
                              std::span<const Tensor> inputs) override {
    wire_.pass(autograd::recomputing() ? Tripwire::Where::kRecompute
                                       : Tripwire::Where::kForward);
    const Tensor& x = inputs[0];
    const Tensor y = autograd::add(x, autograd::scale(autograd::multiply(x, x), 0.1F));
    saved.save(std::vector<Tensor>{x, y});  // Its own output, too.
    return {y};
  }
  std::vector<Tensor> backward(autograd::Saved& saved,
                               std::span<const Tensor> gradients) override {
    if (in_backward_) in_backward_();
    wire_.pass(Tripwire::Where::kBackward);
    const std::vector<Tensor> tensors = saved.saved();
    const Tensor slope =
        autograd::scale(autograd::multiply(tensors[0], gradients[0]), 0.2F);
    return {autograd::add(gradients[0], slope)};
  }

 private:
  Tripwire& wire_;
  const std::function<void()> in_backward_;
};

// What a forward pass does.
struct Pass {
  std::uint32_t number = 1;  // Of its input and its dropout.
  std::int64_t rows = 48;
  std::vector<int> layers = {0, 1, 2};
  bool checkpointed = false;  // Each layer.
  autograd::Recompute recompute = autograd::Recompute::kAlways;
  std::function<void()> in_backward = {};
};

class LifetimesRig {
 public:
  static constexpr int kLayers = 4;
  static constexpr std::int64_t kWidth = 32;
  static constexpr std::size_t kPoolBytes = std::size_t{4} << 20;

  // Without an engine or checkpoints, on a device without a cap.
  LifetimesRig() : LifetimesRig(sim_options()) {}
  // With one.
  LifetimesRig(const device::Order& order, std::size_t limit_bytes = std::size_t{8} << 20)
      : LifetimesRig(fast_links(order, limit_bytes)) {
    pool_ = std::make_unique<PinnedPool>(device_->host_memory(), kPoolBytes);
    pool_->reserve(kPoolBytes);
    link_ = std::make_unique<transfer::Link>(*device_);
    store_ = std::make_unique<offload::HostStore>(*link_, *pool_);
    renew_engine();
  }
  ~LifetimesRig() {
    if (!in_child_) expect_empty();
  }

  // Of fork(): there, the device does no more.
  void in_child() { in_child_ = true; }

  bool offloads() const noexcept { return pool_ != nullptr; }
  device::CheckDevice& device() noexcept { return *device_; }
  PinnedPool& pool() noexcept { return *pool_; }
  offload::Engine* engine() noexcept { return engine_.get(); }
  Tripwire& wire() noexcept { return wire_; }
  const Tensor& weight(int layer) const { return in_.at(static_cast<std::size_t>(layer)); }

  // Another one; graphs of the old one may be alive.
  void renew_engine() {
    engine_.reset();
    if (offloads()) {
      engine_ = std::make_unique<offload::Engine>(
          *device_, *store_,
          offload::EngineOptions{.policy = offload::Policy::kSaved,
                                 .min_offload_bytes = std::size_t{256}});
    }
  }

  Tensor output(const Pass& pass) {
    const autograd::HooksScope hooks(engine_.get());
    autograd::set_random({.seed = 11, .step = pass.number});
    const std::int64_t begin = pass.number % 64;
    Tensor h = bank_.slice(0, begin, begin + pass.rows);
    for (std::size_t i = 0; i < pass.layers.size(); ++i) {
      const int number = pass.layers[i];
      const auto layer = [this, number,
                          in_backward = pass.in_backward](std::span<const Tensor> in) {
        return std::vector<Tensor>{run_layer(number, in[0], in_backward)};
      };
      const Tensor inputs[] = {std::exchange(h, {})};
      h = (pass.checkpointed && offloads()
               ? autograd::checkpoint(layer, inputs, pass.recompute)
               : layer(inputs))
              .front();
    }
    return h;
  }
  Tensor loss(const Pass& pass) {
    const Tensor h = output(pass);
    const autograd::HooksScope hooks(engine_.get());
    return autograd::scale(autograd::sum(autograd::multiply(h, h)), 1e-3F);
  }

  // Writes down what is in a tensor; in the gradients, which are then none.
  void record(const Tensor& tensor) { results_.push_back(values_of(tensor)); }
  void record_gradients() {
    for (const Tensor& parameter : parameters()) {
      const Tensor gradient = autograd::gradient(parameter);
      results_.push_back(gradient.defined() ? values_of(gradient) : std::vector<float>());
    }
    clear_gradients();
  }
  void clear_gradients() {
    for (const Tensor& parameter : parameters()) autograd::set_gradient(parameter, {});
  }
  void backward(const Tensor& loss) {
    autograd::backward(loss);
    record_gradients();
  }
  const std::vector<std::vector<float>>& results() const noexcept { return results_; }

  // The end of a step; graphs may be alive.
  void end_step() {
    device_->synchronize();
    if (engine_) engine_->end_step();
  }
  // With no graph alive, everything is back.
  void expect_empty() {
    end_step();
    EXPECT_EQ(device_->memory().figures().lent.total(), lent_);
    EXPECT_EQ(device_->order().violations, 0U);
    if (!offloads()) return;
    pool_->collect();
    EXPECT_EQ(pool_->stats().lent_bytes, 0U);
    EXPECT_EQ(pool_->stats().retired_bytes, 0U);
    const offload::EngineBooks books = engine_->books();
    EXPECT_EQ(books.blocks, 0U);
    EXPECT_EQ(books.waiting_bytes, 0U);
    EXPECT_EQ(books.backwards, 0U);
  }

 private:
  explicit LifetimesRig(const device::SimOptions& options) : device_(checked(options)) {
    set_cpu_threads(1);
    for (std::uint64_t i = 0; i < kLayers; ++i) {
      in_.push_back(random_parameter(*device_, {4 * kWidth, kWidth}, 2 * i));
      out_.push_back(random_parameter(*device_, {kWidth, 4 * kWidth}, 2 * i + 1));
    }
    bank_ = random_tensor(*device_, {192, kWidth}, 99, Purpose::kParameters);
    lent_ = device_->memory().figures().lent.total();
  }
  // Copies take no time to start, so that most blocks leave the device.
  static device::SimOptions fast_links(const device::Order& order,
                                       std::size_t limit_bytes) {
    device::SimOptions options = sim_options(order);
    options.profile.d2h.latency_seconds = options.profile.h2d.latency_seconds = 0;
    options.limit_bytes = limit_bytes;
    return options;
  }
  std::vector<Tensor> parameters() const {
    std::vector<Tensor> all = in_;
    all.insert(all.end(), out_.begin(), out_.end());
    return all;
  }
  Tensor run_layer(int number, const Tensor& x, const std::function<void()>& in_backward) {
    const autograd::StageScope stage(number);
    const auto i = static_cast<std::size_t>(number);
    Tensor h = autograd::linear_gelu(x, in_[i], {});
    h = autograd::scale(autograd::linear(h, out_[i], {}), 0.05F);
    h = autograd::dropout_add(h, x, 0.2F);
    const Tensor mine[] = {std::exchange(h, {})};
    return autograd::apply(std::make_shared<TrippingOp>(wire_, in_backward), mine).front();
  }

  std::unique_ptr<device::CheckDevice> device_;
  std::unique_ptr<PinnedPool> pool_;
  std::unique_ptr<transfer::Link> link_;
  std::unique_ptr<offload::HostStore> store_;
  std::unique_ptr<offload::Engine> engine_;
  std::vector<Tensor> in_;
  std::vector<Tensor> out_;
  Tensor bank_;
  std::size_t lent_ = 0;
  bool in_child_ = false;
  Tripwire wire_;
  std::vector<std::vector<float>> results_;
};

}  // namespace ebb::test
