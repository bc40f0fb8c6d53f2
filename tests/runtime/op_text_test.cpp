#include "runtime/autograd/checkpoint/op_text.h"

#include <gtest/gtest.h>

namespace ebb::autograd {
namespace {

TEST(OpText, NamesTheLayerWhereThereIsOne) {
  EXPECT_EQ(op_text("gelu", 0), "gelu (layer 0)");
  EXPECT_EQ(op_text("gelu", -1), "gelu");
}

}  // namespace
}  // namespace ebb::autograd
