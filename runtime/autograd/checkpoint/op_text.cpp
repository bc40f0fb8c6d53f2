#include "runtime/autograd/checkpoint/op_text.h"

#include "absl/strings/str_cat.h"

namespace ebb::autograd {

std::string op_text(absl::string_view op, std::int32_t stage) {
  return stage < 0 ? std::string(op) : absl::StrCat(op, " (layer ", stage, ")");
}

}  // namespace ebb::autograd
