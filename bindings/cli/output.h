// Where a command writes.

#pragma once

#include <cstdio>
#include <string>

namespace ebb::cli {

// Results, and what goes on meanwhile. Borrowed.
struct Output {
  std::FILE* out;
  std::FILE* err;
};

// One line for a person.
inline void say(std::FILE* file, const std::string& line) {
  std::fprintf(file, "ebb: %s\n", line.c_str());
}

}  // namespace ebb::cli
