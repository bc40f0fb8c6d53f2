// What was asked for, as text, and where it was asked.

#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>

namespace ebb::config {

// One value, and the name that errors call it by: "--host-budget", "EBB_HOST_BUDGET".
struct Setting {
  std::string name;
  std::string value;
};

// By flag, without its dashes: "host-budget". A switch that is on has the value "true".
using Settings = std::map<std::string, Setting>;

// What the environment sets: EBB_HOST_BUDGET and EBB_DEVICE_BUDGET. `variable` looks a name
// up (std::getenv, or a test's). Throws Error{kInvalidArgument} that names the variable for
// one that is empty (a budget that nobody meant to leave out), and for EBB_NVME, which this
// release has no use for.
using Lookup = std::function<std::optional<std::string>(const char* name)>;
Settings environment_settings(const Lookup& variable);

// Where settings come from.
struct Levels {
  Settings flags;
  Settings environment;
  Settings file;  // A configuration file's.
};

// All of them. Where several set the same, a flag wins over the environment, and both over
// the file.
Settings merged(const Levels& levels);

}  // namespace ebb::config
