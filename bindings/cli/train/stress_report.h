// The figures of a soak, for machines and for people.

#pragma once

#include <string>

#include "nlohmann/json.hpp"

#include "bench/soak/soak.h"

namespace ebb::cli {

// {"passed", "problems", "steps", "events": {…}, …}: every figure of a soak
// (docs/report.md).
nlohmann::ordered_json to_json(const bench::SoakFigures& figures);

// The same as tables, as docs/reliability.md shows them; ends with a line break.
std::string to_text(const bench::SoakFigures& figures);

}  // namespace ebb::cli
