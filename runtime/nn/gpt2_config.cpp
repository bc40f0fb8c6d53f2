// The named shapes of GPT-2 (Radford et al. 2019, table 2), and a small one on bytes.

#include <algorithm>
#include <utility>

#include "absl/strings/str_join.h"

#include "allocator/error.h"
#include "runtime/nn/gpt2.h"

namespace ebb::nn {
namespace {

const std::vector<std::pair<std::string, Gpt2Config>>& named() {
  static const std::vector<std::pair<std::string, Gpt2Config>> kNamed = {
      {"gpt2-nano", {.layers = 12, .heads = 6, .hidden = 384, .vocabulary = 256}},
      {"gpt2", {.layers = 12, .heads = 12, .hidden = 768, .vocabulary = 50257}},
      {"gpt2-medium", {.layers = 24, .heads = 16, .hidden = 1024, .vocabulary = 50257}},
      {"gpt2-large", {.layers = 36, .heads = 20, .hidden = 1280, .vocabulary = 50257}},
      {"gpt2-xl", {.layers = 48, .heads = 25, .hidden = 1600, .vocabulary = 50257}},
  };
  return kNamed;
}

}  // namespace

std::vector<std::string> gpt2_names() {
  std::vector<std::string> names;
  for (const auto& [name, config] : named()) names.push_back(name);
  return names;
}

Gpt2Config gpt2_config(const std::string& name) {
  const auto it = std::find_if(named().begin(), named().end(),
                               [&](const auto& entry) { return entry.first == name; });
  EBB_CHECK(it != named().end(), kInvalidArgument, "no model \"", name, "\"; there are ",
            absl::StrJoin(gpt2_names(), ", "));
  return it->second;
}

}  // namespace ebb::nn
