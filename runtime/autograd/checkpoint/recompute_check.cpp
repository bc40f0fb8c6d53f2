#include "runtime/autograd/checkpoint/recompute_check.h"

#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"

#include "allocator/error.h"
#include "runtime/autograd/checkpoint/op_text.h"
#include "runtime/autograd/modes.h"
#include "runtime/autograd/primitive.h"
#include "runtime/tensor/hash_bytes.h"

namespace ebb::autograd {
namespace {

// Queues a probe that hands the checksum of the tensor's bytes to `look`.
template <typename Look>
void probe(const Tensor& tensor, Look look) {
  launch_op({.name = "verify_recompute", .dtype = tensor.dtype(), .probe = true}, {tensor},
            {},
            [data = tensor.data(), bytes = tensor.bytes(), look = std::move(look)](void*) {
              look(tensor::hash_bytes(data, bytes));
            });
}

bool has_checksum(const Tensor& tensor) {
  return tensor.defined() && tensor.contiguous() && !tensor.device().capability().dry;
}

std::string described(const char* op, std::int32_t stage, std::int32_t number) {
  if (op == nullptr)
    return absl::StrCat("input ", number, " of ", op_text("the segment", stage));
  if (number == RecomputeCheck::kSaved) {
    return absl::StrCat("what ", op_text(op, stage), " saves");
  }
  return absl::StrCat("output ", number, " of ", op_text(op, stage));
}
std::string advice(const char* op) {
  if (op == nullptr) {
    return "whoever saved it brought other bytes back, or it was written in place by "
           "something that autograd does not know of";
  }
  return "the op, or one before it whose output was not compared (comparing every "
         "one finds it), gives other results for the same inputs: let it draw random "
         "numbers by autograd::next_random() only, leave what it keeps from run to run as "
         "it is where autograd::recomputing(), or checkpoint no segment with its layer";
}

}  // namespace

void RecomputeCheck::made(const char* op, std::int32_t stage, std::int32_t output,
                          const Tensor& tensor) {
  if (!again_ && outer_ != nullptr) outer_->made(op, stage, output, tensor);
  see({op, stage, output, nullptr}, tensor);
}

void RecomputeCheck::given(std::int32_t stage, std::int32_t input, const Tensor& tensor) {
  see({nullptr, stage, input, nullptr}, tensor);
}

void RecomputeCheck::begin_again() noexcept {
  again_ = true;
  next_ = 0;
}

void RecomputeCheck::see(const Output& output, const Tensor& tensor) {
  if (again_) {
    compare(output, tensor);
    return;
  }
  outputs_.push_back(output);
  Modes& m = modes();
  const auto every = static_cast<std::uint64_t>(m.verify_recompute);
  if (every == 0 || m.verify_count++ % every != 0 || !has_checksum(tensor)) return;
  const auto checksum = std::make_shared<std::uint64_t>();
  probe(tensor, [checksum](std::uint64_t now) { *checksum = now; });
  outputs_.back().checksum = checksum;
}

void RecomputeCheck::compare(const Output& output, const Tensor& tensor) {
  const std::string what = described(output.op, output.stage, output.number);
  EBB_CHECK(next_ < outputs_.size(), kFailedPrecondition,
            "a checkpointed segment ran more ops when it ran again than the ",
            outputs_.size(), " of its first run: the first one too many makes ", what);
  const Output& first = outputs_[next_++];
  const std::string before = described(first.op, first.stage, first.number);
  EBB_CHECK(what == before, kFailedPrecondition,
            "a checkpointed segment ran other ops when it ran again: in place ", next_,
            " it made ", before, ", now ", what,
            "; a segment must not depend on what changes between its two runs");
  if (first.checksum == nullptr || !has_checksum(tensor)) return;
  probe(tensor, [checksum = first.checksum, what, op = output.op](std::uint64_t now) {
    EBB_CHECK(now == *checksum, kDataLoss,
              "a recompute made something else than the first run: ", what,
              " is the first to differ, with checksum ", absl::Hex(now, absl::kZeroPad16),
              " for ", absl::Hex(*checksum, absl::kZeroPad16), "; ", advice(op));
  });
}

}  // namespace ebb::autograd
