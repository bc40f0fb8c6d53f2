// What this machine can do, what is in the way, and the command that fixes it.

#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "nlohmann/json.hpp"

namespace ebb::cli {

struct Finding {
  enum class State { kGood, kLimited, kMissing };

  std::string key;    // "cores", "ram", ...: stable, for machines.
  std::string title;  // "cores", "RAM", ...: for people.
  State state = State::kGood;
  std::string text;
  std::string remedy;  // A command, or advice; empty if nothing is to be done.
  nlohmann::ordered_json figures = nlohmann::ordered_json::object();
};

// Where it looks: tests give it a tree, a program path and libraries of their own.
struct Surroundings {
  std::filesystem::path root = "/";  // Above proc/ and sys/.
  std::string path;                  // As $PATH.
  // Whether a shared library can be opened.
  std::function<bool(const char* name)> has_library;
};
Surroundings this_machine();

// Cores, RAM, control group, locked memory, NUMA, GPUs and their driver, MPI, NVMe: in this
// order, each exactly once. What cannot be read counts as missing; throws nothing of its
// own.
std::vector<Finding> inspect(const Surroundings& surroundings);

// For people: a line or two each.
std::string to_text(const std::vector<Finding>& findings);
// {"findings": [{"key", "state": "good|limited|missing", "text", "remedy", ...}]}
nlohmann::ordered_json to_json(const std::vector<Finding>& findings);

}  // namespace ebb::cli
