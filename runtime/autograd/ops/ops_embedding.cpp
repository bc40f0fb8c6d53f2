// Token and position embedding.

#include <utility>

#include "allocator/error.h"
#include "runtime/autograd/backward_call.h"
#include "runtime/autograd/node.h"
#include "runtime/autograd/ops/ops.h"
#include "runtime/autograd/primitive.h"

namespace ebb::autograd {
namespace {

// Bytes of one row for each token, and of the positions.
double row_bytes(const EmbeddingShape& s, bool positions) {
  const double rows =
      static_cast<double>(s.batch * s.seq) + (positions ? static_cast<double>(s.seq) : 0);
  return rows * static_cast<double>(s.hidden) * static_cast<double>(size_of(s.dtype));
}

EmbeddingShape check_embedding(const Tensor& tokens, const Tensor& table,
                               const Tensor& positions) {
  EBB_CHECK(
      tokens.dimensions() == 2 && tokens.dtype() == DType::kI32 && tokens.contiguous(),
      kInvalidArgument, "embedding: tokens are contiguous i32 [batch, seq]");
  EBB_CHECK(table.dimensions() == 2 && table.contiguous(), kInvalidArgument,
            "embedding: the table is a contiguous [vocabulary, hidden]");
  EBB_CHECK(!positions.defined() ||
                (positions.dimensions() == 2 && positions.contiguous() &&
                 positions.size(1) == table.size(1) && positions.dtype() == table.dtype()),
            kInvalidArgument,
            "embedding: positions are contiguous, of the table's dtype and width");
  EBB_CHECK(!positions.defined() || positions.size(0) >= tokens.size(1), kInvalidArgument,
            "embedding: a sequence of ", tokens.size(1), " is longer than the ",
            positions.size(0), " positions");
  return {table.dtype(), tokens.size(0), tokens.size(1), table.size(1), table.size(0)};
}

class EmbeddingNode final : public Node {
 public:
  EmbeddingNode(const EmbeddingShape& shape, std::int64_t positions)
      : Node("embedding"), shape_(shape), positions_(positions) {}

  void backward(BackwardCall& call) override {
    const Tensor dout = call.gradient();
    const Tensor tokens = call.use(0);
    Destination table =
        call.open(1, dout.device(), {shape_.vocabulary, shape_.hidden}, shape_.dtype);
    Destination positions =
        call.open(2, dout.device(), {positions_, shape_.hidden}, shape_.dtype);
    make_additive(table);
    make_additive(positions);
    // The kernel makes the table's; one that nobody needs is thrown away.
    Tensor spare;
    if (!table.tensor.defined()) {
      spare =
          Tensor::empty(dout.device(), {shape_.vocabulary, shape_.hidden}, shape_.dtype);
      fill(spare, 0);
    }
    launch(tokens, dout, spare.defined() ? spare : table.tensor, positions.tensor);
    call.close(1, table);
    call.close(2, positions);
  }

 private:
  void launch(const Tensor& tokens, const Tensor& dout, const Tensor& table,
              const Tensor& positions) const {
    const Kernels& kernels = dout.device().kernels();
    const Tensor scratch =
        workspace(dout.device(), kernels.embedding_backward_workspace(shape_));
    launch_op(
        {.name = "embedding.backward",
         .dtype = shape_.dtype,
         .flops = static_cast<double>(dout.elements()),
         // Reads dout, and reads and writes the rows.
         .bytes = static_cast<double>(tokens.bytes() + dout.bytes()) +
                  2 * row_bytes(shape_, positions.defined())},
        {tokens, dout, table, positions}, {table, positions, scratch},
        [&kernels, shape = shape_, ids = tokens.data_as<std::int32_t>(), grad = dout.data(),
         to = table.data(), to_positions = positions.defined() ? positions.data() : nullptr,
         work = workspace_of(scratch)](void* queue) {
          kernels.embedding_backward(shape, ids, grad, to, to_positions, work, queue);
        });
  }

  const EmbeddingShape shape_;
  const std::int64_t positions_;  // Rows of the positions' table.
};

}  // namespace

Tensor embedding(const Tensor& tokens, const Tensor& table, const Tensor& positions) {
  const EmbeddingShape s = check_embedding(tokens, table, positions);
  const auto node = record<EmbeddingNode>({tokens, table, positions}, s,
                                          positions.defined() ? positions.size(0) : 0);
  if (node) node->save(tokens, 0);
  Tensor out = Tensor::empty(tokens.device(), {s.batch, s.seq, s.hidden}, s.dtype);
  const double bytes =
      static_cast<double>(tokens.bytes() + out.bytes()) + row_bytes(s, positions.defined());
  launch_op({.name = "embedding.forward",
             .dtype = s.dtype,
             .flops = static_cast<double>(out.elements()),
             .bytes = bytes},
            {tokens, table, positions}, {out},
            [kernel = tokens.device().kernels().embedding_forward, s,
             ids = tokens.data_as<std::int32_t>(), rows = table.data(),
             places = positions.defined() ? positions.data() : nullptr,
             to = out.data()](void* queue) { kernel(s, ids, rows, places, to, queue); });
  return attach(node, std::move(out));
}

}  // namespace ebb::autograd
