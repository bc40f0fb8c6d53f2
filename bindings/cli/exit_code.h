// What the program's exit code says.

#pragma once

namespace ebb::cli {

inline constexpr int kSuccess = 0;
inline constexpr int kFailed = 1;        // The run failed, or was refused.
inline constexpr int kWrongRequest = 2;  // Nothing was tried.

}  // namespace ebb::cli
