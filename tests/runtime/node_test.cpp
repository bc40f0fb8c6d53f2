#include "runtime/autograd/node.h"

#include <gtest/gtest.h>

#include "runtime/autograd/autograd.h"
#include "runtime/autograd/backward_call.h"
#include "tests/support/sim_devices.h"
#include "tests/support/tensors.h"

namespace ebb::autograd {
namespace {

class Plain final : public Node {
 public:
  explicit Plain(int* alive = nullptr) : Node("plain"), alive_(alive) {
    if (alive_ != nullptr) ++*alive_;
  }
  ~Plain() override {
    if (alive_ != nullptr) --*alive_;
  }
  void backward(BackwardCall& call) override { call.give(0, call.gradient()); }

 private:
  int* const alive_;
};

TEST(Node, AreNumberedInTheOrderOfTheirMaking) {
  const auto first = std::make_shared<Plain>();
  const auto second = std::make_shared<Plain>();
  EXPECT_LT(first->sequence(), second->sequence());
}

TEST(Node, IsRecordedOnlyWhereAnInputNeedsAGradient) {
  const auto device = test::checked_sim();
  const Tensor plain = test::random_tensor(*device, {2}, 1);
  const Tensor leaf = test::random_leaf(*device, {2}, 2);
  EXPECT_EQ(record<Plain>({plain, Tensor()}), nullptr);
  const auto node = record<Plain>({plain, leaf, Tensor()});
  ASSERT_NE(node, nullptr);
  EXPECT_FALSE(node->needs(0));
  EXPECT_TRUE(node->needs(1));
  EXPECT_FALSE(node->needs(2));
  const NoGrad no_grad;
  EXPECT_EQ(record<Plain>({leaf}), nullptr);
}

TEST(Node, RemembersItsStage) {
  const StageScope stage(4);
  EXPECT_EQ(Plain().stage(), 4);
}

TEST(Node, IsDestroyedWithoutRecursionHoweverDeepTheGraph) {
  int alive = 0;
  const auto device = test::dry_sim();
  {
    Tensor h = Tensor::empty(*device, {1}, DType::kF32);
    set_requires_grad(h, true);
    for (int i = 0; i < 300'000; ++i) {
      Tensor next = h.alias();
      h = attach(record<Plain>({h}, &alive), next);
    }
    EXPECT_EQ(alive, 300'000);
  }
  EXPECT_EQ(alive, 0);
}

TEST(Node, LivesOnWhereOthersHoldIt) {
  int alive = 0;
  const auto device = test::dry_sim();
  const Tensor leaf = Tensor::empty(*device, {1}, DType::kF32);
  set_requires_grad(leaf, true);
  Tensor shared = attach(record<Plain>({leaf}, &alive), leaf.alias());
  Tensor left = attach(record<Plain>({shared}, &alive), leaf.alias());
  Tensor right = attach(record<Plain>({shared}, &alive), leaf.alias());
  shared = {};
  left = {};
  EXPECT_EQ(alive, 2);
  right = {};
  EXPECT_EQ(alive, 0);
}

TEST(Node, SavesItsOwnOutputWithoutACycle) {
  int alive = 0;
  const auto device = test::checked_sim();
  {
    const Tensor leaf = test::random_leaf(*device, {2}, 1);
    const auto node = record<Plain>({leaf}, &alive);
    const Tensor output = attach(node, leaf.alias());
    node->save(output);
  }
  EXPECT_EQ(alive, 0);
  EXPECT_EQ(device->memory().figures().lent.total(), 0U);
}

}  // namespace
}  // namespace ebb::autograd
