#include "bindings/cli/train/refusal.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

#include "allocator/bytes_text.h"

namespace ebb::cli {
namespace {

// Whose limit it is.
std::string device_owner(const config::RunConfig& config) {
  return config.device_budget_bytes ? " (its device budget)"
                                    : absl::StrCat(" (all that ", config.device, " has)");
}

std::string of_host_memory(const config::RunConfig& config, const Shortage& shortage) {
  const std::size_t needs = *shortage.smallest_host_budget_bytes;
  const Compared sizes = compared(needs, config.host_budget_bytes.value_or(0));
  std::string text = absl::StrCat("the run needs ", sizes.needs, " of host memory and has ",
                                  sizes.has, " (its host budget): it would fit with ",
                                  config.host_budget_flag, " ", needs);
  if (shortage.smallest_device_budget_bytes) {
    absl::StrAppend(&text, ", or with --device-budget ",
                    *shortage.smallest_device_budget_bytes);
  }
  return text;
}

std::string of_device_memory(const config::RunConfig& config, const Shortage& shortage) {
  const std::size_t needs = *shortage.smallest_device_budget_bytes;
  const std::optional<std::size_t> budget = shortage.device_budget_bytes;
  const Compared sizes = compared(needs, budget.value_or(0));
  const std::string has = budget ? absl::StrCat(sizes.has, device_owner(config))
                                 : "no limit of its device's memory";
  return absl::StrCat(
      "the run needs ", sizes.needs, " of device memory and has ", has, ": ",
      shortage.policy.empty()
          ? "no policy of this release makes it fit, so take a smaller --batch, --seq or "
            "model, or --device-budget "
          : absl::StrCat("it would fit with ", shortage.policy,
                         ", or with --device-budget "),
      needs);
}

std::string of_both(const config::RunConfig& config, const Shortage& shortage) {
  if (!config.host_budget_bytes) {
    return absl::StrCat("the run does not fit: ", shortage.why_not);
  }
  const std::string device =
      shortage.device_budget_bytes
          ? absl::StrCat(bytes_text(*shortage.device_budget_bytes), device_owner(config))
          : "a device without a limit";
  return absl::StrCat(
      "the run does not fit ", device, " with a host budget of ",
      bytes_text(*config.host_budget_bytes), ", whatever one of the two were: raise both (",
      config.host_budget_flag, ", --device-budget), or take a smaller --batch or --seq");
}

}  // namespace

Compared compared(std::size_t needs, std::size_t has) {
  Compared sizes{bytes_text(needs), bytes_text(has)};
  const auto number = [](const std::string& text) {
    double value = 0;
    (void)absl::SimpleAtod(text.substr(0, text.find(' ')), &value);
    return value;
  };
  const auto unit = [](const std::string& text) { return text.substr(text.find(' ')); };
  const bool alike =
      number(sizes.needs) == number(sizes.has) && unit(sizes.needs) == unit(sizes.has);
  if (alike && needs != has) {
    absl::StrAppend(&sizes.needs, " (", needs, " bytes)");
    absl::StrAppend(&sizes.has, " (", has, " bytes)");
  }
  return sizes;
}

Refusal refusal(const config::RunConfig& config, const Shortage& shortage) {
  Refusal refusal;
  refusal.smallest_device_budget_bytes = shortage.smallest_device_budget_bytes;
  refusal.smallest_host_budget_bytes = shortage.smallest_host_budget_bytes;
  if (shortage.smallest_host_budget_bytes) {
    refusal.resource = Error::Resource::kHostMemory;
    refusal.message = of_host_memory(config, shortage);
  } else if (shortage.smallest_device_budget_bytes) {
    refusal.resource = Error::Resource::kDeviceMemory;
    refusal.message = of_device_memory(config, shortage);
  } else {
    refusal.message = of_both(config, shortage);
  }
  return refusal;
}

}  // namespace ebb::cli
