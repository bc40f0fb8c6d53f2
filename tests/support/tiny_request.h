// A request for a run that takes milliseconds.

#pragma once

#include <string>
#include <utility>
#include <vector>

#include "bindings/config/run_config.h"
#include "kernels/cpu/cpu_kernels.h"

namespace ebb::test {

inline config::RunConfig tiny_request(
    const std::vector<std::pair<std::string, std::string>>& more = {}) {
  set_cpu_threads(1);  // More would only wait for each other.
  config::Settings settings;
  const auto set = [&](const std::string& flag, const std::string& value) {
    settings[flag] = {"--" + flag, value};
  };
  for (const auto& [flag, value] :
       {std::pair{"layers", "4"}, std::pair{"heads", "2"}, std::pair{"hidden", "32"},
        std::pair{"batch", "2"}, std::pair{"seq", "32"}, std::pair{"steps", "3"},
        std::pair{"threads", "1"}, std::pair{"min-offload-bytes", "1024"}}) {
    set(flag, value);
  }
  for (const auto& [flag, value] : more) set(flag, value);
  return config::make_run_config(settings, 1);
}

}  // namespace ebb::test
