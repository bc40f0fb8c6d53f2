#include "bench/soak/soak_model.h"

#include <memory>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

#include "runtime/autograd/autograd.h"
#include "tests/support/sim_devices.h"
#include "tests/support/tensors.h"

namespace ebb::bench {
namespace {

using namespace test;

SoakGraph graph() {
  SoakGraph graph;
  graph.batch = 2;
  graph.stretches = {
      {.layers = {0, 3}, .checkpointed = true, .nested = true},
      {.layers = {2}, .checkpointed = true, .recompute = autograd::Recompute::kAsNeeded},
      {.layers = {1}},
      {.layers = {3}, .checkpointed = true}};
  graph.key = {.seed = 3, .step = 1};
  return graph;
}

class SoakModelTest : public testing::Test {
 protected:
  SoakModelTest() { set_cpu_threads(1); }
  // Loss and gradients.
  std::vector<std::vector<float>> results(const SoakGraph& graph, bool segments) {
    model_.zero_gradients();
    const Tensor loss = model_.loss(graph, segments);
    autograd::backward(loss);
    std::vector<std::vector<float>> values{values_of(loss)};
    for (const nn::Parameter& parameter : model_.parameters()) {
      values.push_back(values_of(autograd::gradient(parameter.tensor)));
    }
    return values;
  }

  std::unique_ptr<device::CheckDevice> device_ = checked_sim();
  Trap trap_;
  SoakModel model_{*device_, trap_, 5};
};

TEST_F(SoakModelTest, SegmentsChangeNoBit) {
  SoakGraph other = graph();
  EXPECT_EQ(results(graph(), true), results(graph(), false));
  other.penalty = other.side_output = true;
  EXPECT_EQ(results(other, true), results(other, false));
  EXPECT_NE(results(other, false), results(graph(), false));
}

TEST_F(SoakModelTest, AGraphsKeyIsItsBatchAndItsDropout) {
  SoakGraph other = graph();
  other.key.step = 2;
  EXPECT_EQ(results(graph(), false), results(graph(), false));
  EXPECT_NE(results(graph(), false)[0], results(other, false)[0]);
}

TEST_F(SoakModelTest, ATrapIsSprungAtItsPass) {
  EXPECT_EQ(graph().layers(), 5);
  EXPECT_EQ(graph().recomputed_layers(), 3);
  using Where = Trap::Where;
  const std::pair<Where, int> passes[] = {
      {Where::kForward, 5}, {Where::kRecompute, 3}, {Where::kBackward, 5}};
  const std::size_t before = device_->memory().figures().lent.total();
  for (const auto& [where, count] : passes) {
    for (int pass = 0; pass < count; ++pass) {
      trap_.arm(where, pass);
      EXPECT_THROW(results(graph(), true), Trap::Sprung);
      EXPECT_FALSE(trap_.armed());
      EXPECT_EQ(device_->memory().figures().lent.total(), before);
    }
    trap_.arm(where, count);
    EXPECT_NO_THROW(results(graph(), true));
    trap_.disarm();
  }
}

TEST_F(SoakModelTest, DescendingChangesTheLoss) {
  const auto before = results(graph(), false);
  model_.descend(0.1F);
  EXPECT_LT(results(graph(), false)[0][0], before[0][0]);
}

}  // namespace
}  // namespace ebb::bench
