// Where a run takes place: the report's "environment", and what its defaults depend on.

#pragma once

#include <string>

namespace ebb::cli {

struct Environment {
  std::string version;  // Of Ebbtide: "0.1.0".
  std::string commit;   // It was built from; "unknown" outside of a repository.
  std::string cpu;      // The model's name.
  int cores = 1;        // This process may run on.
};
Environment read_environment();

// How many cores this process may run on; at least 1.
int allowed_cores();

// The text that ships: beside the installed program, else in the source tree that it was
// built from. Throws Error{kInvalidArgument}, which says how to name another, if neither is
// there.
std::string shipped_text();

}  // namespace ebb::cli
