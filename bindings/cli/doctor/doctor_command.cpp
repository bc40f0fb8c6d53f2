#include "bindings/cli/doctor/doctor_command.h"

#include <string>
#include <vector>

#include "bindings/cli/exit_code.h"

namespace ebb::cli {

int doctor(const Surroundings& surroundings, bool json, std::FILE* out) {
  const std::vector<Finding> findings = inspect(surroundings);
  const std::string text = json ? to_json(findings).dump(2) + "\n" : to_text(findings);
  std::fputs(text.c_str(), out);
  std::fflush(out);
  return kSuccess;
}

}  // namespace ebb::cli
