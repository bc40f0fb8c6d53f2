#include "bindings/config/settings.h"

#include <utility>

#include "allocator/error.h"

namespace ebb::config {

Settings environment_settings(const Lookup& variable) {
  Settings settings;
  for (const auto& [name, flag] : {std::pair{"EBB_HOST_BUDGET", "host-budget"},
                                   std::pair{"EBB_DEVICE_BUDGET", "device-budget"}}) {
    const std::optional<std::string> value = variable(name);
    if (!value) continue;
    if (value->empty()) {
      throw Error(absl::StatusCode::kInvalidArgument,
                  absl::StrCat(name,
                               " is empty: give it a size, such as 24GiB, or unset "
                               "it"));
    }
    settings[flag] = {name, *value};
  }
  const std::optional<std::string> nvme = variable("EBB_NVME");
  if (nvme && !nvme->empty()) {
    throw Error(absl::StatusCode::kInvalidArgument,
                absl::StrCat("EBB_NVME is set to '", *nvme,
                             "', and this release moves nothing to NVMe: unset it"));
  }
  return settings;
}

Settings merged(const Levels& levels) {
  Settings all = levels.flags;
  all.insert(levels.environment.begin(), levels.environment.end());
  all.insert(levels.file.begin(), levels.file.end());
  return all;
}

}  // namespace ebb::config
