// Attention over heads of one qkv tensor.

#include <utility>

#include "allocator/error.h"
#include "runtime/autograd/autograd.h"
#include "runtime/autograd/backward_call.h"
#include "runtime/autograd/node.h"
#include "runtime/autograd/ops/ops.h"
#include "runtime/autograd/primitive.h"

namespace ebb::autograd {
namespace {

// Of one of the matrix products with a [seq, seq] side; causal ones are half as long.
double product_flops(const AttentionShape& s) {
  const double full = 2.0 * static_cast<double>(s.batch) * static_cast<double>(s.heads) *
                      static_cast<double>(s.seq) * static_cast<double>(s.seq) *
                      static_cast<double>(s.head_size);
  return s.causal ? full / 2 : full;
}

AttentionShape check_attention(const Tensor& qkv, std::int64_t heads, std::int64_t kv_heads,
                               bool causal) {
  EBB_CHECK(heads > 0 && kv_heads > 0 && heads % kv_heads == 0, kInvalidArgument,
            "attention: ", heads, " heads are no multiple of ", kv_heads, " kv_heads");
  EBB_CHECK(qkv.dimensions() == 3 && qkv.size(2) % (heads + 2 * kv_heads) == 0,
            kInvalidArgument,
            "attention: qkv is [batch, seq, (heads + 2 kv_heads) * head_size]");
  return {qkv.dtype(), qkv.size(0), qkv.size(1),
          heads,       kv_heads,    qkv.size(2) / (heads + 2 * kv_heads),
          causal};
}

class AttentionNode final : public Node {
 public:
  AttentionNode(const AttentionShape& shape, const Dropout& dropout)
      : Node("attention"), shape_(shape), dropout_(dropout) {}

  void backward(BackwardCall& call) override {
    const Tensor dout = call.gradient();
    const Tensor qkv = call.use(0);
    const Tensor out = call.use(1);
    const Tensor log_sum_exp = call.use(2);
    Tensor dqkv = Tensor::empty(qkv.device(), qkv.shape(), qkv.dtype());
    const Kernels& kernels = qkv.device().kernels();
    const Tensor scratch =
        workspace(qkv.device(), kernels.attention_backward_workspace(shape_));
    launch_op({.name = "attention.backward",
               .dtype = qkv.dtype(),
               .flops = 5 * product_flops(shape_)},
              {qkv, out, log_sum_exp, dout}, {dqkv, scratch},
              [&kernels, shape = shape_, dropout = dropout_, in = qkv.data(),
               o = out.data(), lse = log_sum_exp.data_as<float>(), grad = dout.data(),
               result = dqkv.data(), work = workspace_of(scratch)](void* queue) {
                kernels.attention_backward(shape, dropout, in, o, lse, grad, result, work,
                                           queue);
              });
    call.give(0, std::move(dqkv));
  }

 private:
  const AttentionShape shape_;
  const Dropout dropout_;
};

}  // namespace

Tensor attention(const Tensor& qkv_any_layout, std::int64_t heads, std::int64_t kv_heads,
                 bool causal, float probability) {
  const AttentionShape s = check_attention(qkv_any_layout, heads, kv_heads, causal);
  EBB_CHECK(probability >= 0 && probability < 1, kInvalidArgument,
            "attention: a dropout probability of ", probability, " is not in [0, 1)");
  const Tensor qkv = contiguous(qkv_any_layout);
  Dropout dropout;
  if (training() && probability > 0) dropout = {probability, next_random()};
  const auto node = record<AttentionNode>({qkv}, s, dropout);
  if (node) node->save(qkv, 0);
  Tensor out =
      Tensor::empty(qkv.device(), {s.batch, s.seq, s.heads * s.head_size}, s.dtype);
  const Tensor log_sum_exp =
      Tensor::empty(qkv.device(), {s.batch, s.heads, s.seq}, DType::kF32);
  const Kernels& kernels = qkv.device().kernels();
  {
    const Tensor scratch = workspace(qkv.device(), kernels.attention_forward_workspace(s));
    launch_op(
        {.name = "attention.forward", .dtype = s.dtype, .flops = 2 * product_flops(s)},
        {qkv}, {out, log_sum_exp, scratch},
        [&kernels, s, dropout, in = qkv.data(), o = out.data(),
         lse = log_sum_exp.data_as<float>(), work = workspace_of(scratch)](void* queue) {
          kernels.attention_forward(s, dropout, in, o, lse, work, queue);
        });
  }
  if (node) {
    node->save(out);
    node->save(log_sum_exp);
  }
  return attach(node, std::move(out));
}

}  // namespace ebb::autograd
