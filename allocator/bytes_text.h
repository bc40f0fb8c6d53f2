// Bytes as people read them.

#pragma once

#include <cstddef>
#include <string>

namespace ebb {

// "17 B", "512 MiB", "1.50 GiB", "396.2 MiB": whole numbers whole, others with two digits,
// or one from 100 on.
std::string bytes_text(std::size_t bytes);

}  // namespace ebb
