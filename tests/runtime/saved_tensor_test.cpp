#include "runtime/autograd/saved_tensor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "allocator/error.h"
#include "runtime/autograd/autograd.h"
#include "runtime/autograd/ops/ops.h"
#include "tests/support/host_hooks.h"
#include "tests/support/sim_devices.h"
#include "tests/support/tensors.h"

namespace ebb::autograd {
namespace {

using test::values_of;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr SaveSite kSite{SaveSite::Kind::kSavedTensor, "some op", 0};

class SavedTensorTest : public testing::Test {
 protected:
  std::unique_ptr<device::CheckDevice> device_ = test::checked_sim();
};

TEST_F(SavedTensorTest, KeepsTheTensorWithoutHooks) {
  Tensor x = test::random_tensor(*device_, {4}, 1);
  SavedTensor saved(x, kSite);
  EXPECT_EQ(saved.use(true).storage(), x.storage());
  EXPECT_EQ(saved.use(false).storage(), x.storage());
  EXPECT_FALSE(saved.use(false).defined()) << "it was given up";
  EXPECT_TRUE(x.unique());
}

TEST_F(SavedTensorTest, KeepsWhatHooksDoNotWant) {
  test::HostHooks hooks(/*keep=*/true);
  const HooksScope scope(&hooks);
  const Tensor x = test::random_tensor(*device_, {4}, 1);
  SavedTensor saved(x, kSite);
  EXPECT_EQ(saved.use(false).storage(), x.storage());
}

TEST_F(SavedTensorTest, BringsEveryLayoutBackFromHooks) {
  test::HostHooks hooks;
  const HooksScope scope(&hooks);
  const Tensor x = test::random_tensor(*device_, {4, 6}, 1);
  const Tensor layouts[] = {x,
                            x.view({2, 12}),
                            x.transpose(0, 1),
                            x.slice(1, 2, 5),
                            x.slice(0, 1, 3).transpose(0, 1),
                            x.slice(0, 0, 1).expand({5, 6}),
                            x.slice(0, 1, 1)};
  for (const Tensor& layout : layouts) {
    SavedTensor saved(layout, kSite);
    const Tensor back = saved.use(true);
    EXPECT_EQ(back.shape(), layout.shape());
    EXPECT_EQ(back.strides(), layout.strides());
    EXPECT_EQ(back.offset(), layout.offset());
    EXPECT_NE(back.storage(), layout.storage());
    EXPECT_EQ(values_of(contiguous(back)), values_of(contiguous(layout)));
    EXPECT_EQ(hooks.log().live, 1U);
    saved.release();
    EXPECT_EQ(hooks.log().live, 0U);
  }
}

TEST_F(SavedTensorTest, ShowsHooksActivationsOnly) {
  test::HostHooks hooks;
  const HooksScope scope(&hooks);
  for (const Purpose purpose : {Purpose::kParameters, Purpose::kGradients,
                                Purpose::kOptimizer, Purpose::kWorkspace}) {
    const Tensor x = test::random_tensor(*device_, {4}, 1, purpose);
    SavedTensor saved(x, kSite);
    EXPECT_EQ(saved.use(false).storage(), x.storage());
  }
  SavedTensor none(Tensor(), kSite);
  EXPECT_FALSE(none.use(false).defined());
  EXPECT_TRUE(hooks.log().packed.empty());
}

TEST_F(SavedTensorTest, RefusesBytesThatWereWrittenSince) {
  test::HostHooks hooks;
  for (test::HostHooks* with : {static_cast<test::HostHooks*>(nullptr), &hooks}) {
    const HooksScope scope(with);
    const Tensor x = test::random_tensor(*device_, {4}, 1);
    SavedTensor saved(x, kSite);
    add_in_place(x, x);
    try {
      saved.use(false);
      FAIL() << "the version moved on";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), absl::StatusCode::kFailedPrecondition);
      EXPECT_THAT(error.what(), HasSubstr("some op"));
    }
  }
}

TEST_F(SavedTensorTest, SeesAWriteThroughAView) {
  const Tensor x = test::random_tensor(*device_, {4}, 1);
  SavedTensor saved(x, kSite);
  const Tensor part = x.slice(0, 0, 2);
  add_in_place(part, part);
  EXPECT_THROW(saved.use(false), Error);
}

TEST_F(SavedTensorTest, SeesAParameterThatMovedBeforeBackward) {
  const Tensor x = test::random_leaf(*device_, {2, 4}, 1);
  const Tensor w = test::random_parameter(*device_, {3, 4}, 2);
  const Tensor loss = sum(linear(x, w, {}));
  {
    const NoGrad no_grad;
    add_in_place(w, w);
  }
  try {
    backward(loss);
    FAIL() << "the weight moved on";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(error.what(), HasSubstr("linear"));
  }
}

TEST_F(SavedTensorTest, ListsItselfForItsHooks) {
  test::HostHooks hooks;
  const Tensor x = test::random_tensor(*device_, {4}, 1);
  UseOrder order;
  SavedTensor kept(x, kSite);
  kept.add_to(order);
  EXPECT_TRUE(order.by_hooks.empty());
  {
    const HooksScope scope(&hooks);
    SavedTensor packed(x, kSite);
    packed.add_to(order);
    ASSERT_EQ(order.by_hooks.size(), 1U);
    EXPECT_EQ(order.by_hooks[0].first, &hooks);
    EXPECT_EQ(order.by_hooks[0].second.size(), 1U);
  }
}

}  // namespace
}  // namespace ebb::autograd
