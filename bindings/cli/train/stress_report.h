// The figures of a soak, for machines and for people.

#pragma once

#include <cstdint>
#include <string>

#include "nlohmann/json.hpp"

#include "bench/soak/soak.h"

namespace ebb::cli {

// How a soak ended. One that could not begin, or ended by an error, has failed.
enum class SoakEnd : std::uint8_t { kPass, kFail, kInterrupted };

// {"passed", "problems", "steps", "events": {…}, …}: every figure of a soak
// (docs/report.md). "passed" is null where it was interrupted: nobody knows.
nlohmann::ordered_json to_json(const bench::SoakFigures& figures, SoakEnd end);

// The same as tables, as docs/reliability.md shows them; ends with a line break.
std::string to_text(const bench::SoakFigures& figures, SoakEnd end);

}  // namespace ebb::cli
