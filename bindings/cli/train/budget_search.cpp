#include "bindings/cli/train/budget_search.h"

#include <array>
#include <optional>

#include "allocator/error.h"

namespace ebb::cli {
namespace {

constexpr std::size_t kGranule = 512;
constexpr std::size_t kPrecision = 200;  // 1 / 0.5 %.

std::size_t bisect(std::size_t fails, std::size_t enough, const Works& works) {
  while (enough - fails > enough / kPrecision + kGranule) {
    const std::size_t middle = (fails + (enough - fails) / 2) / kGranule * kGranule;
    if (middle <= fails) break;
    (works(middle) ? enough : fails) = middle;
  }
  return enough;
}

// The first part of `budget` that works although it is clearly less. What is asked of the
// result is asked at 0.97; the others look further.
std::optional<std::size_t> island_below(std::size_t budget, std::size_t fails,
                                        const Works& works) {
  constexpr std::array<double, 5> kParts{0.97, 0.98, 0.95, 0.92, 0.88};
  for (const double part : kParts) {
    const auto bytes = static_cast<std::size_t>(part * static_cast<double>(budget));
    if (bytes > fails && works(bytes)) return bytes;
  }
  return std::nullopt;
}

}  // namespace

std::size_t smallest_budget(std::size_t fails, std::size_t enough, const Works& works) {
  EBB_CHECK(fails < enough, kInvalidArgument, "the smallest budget is looked for between ",
            fails, " and ", enough, " bytes");
  std::size_t budget = bisect(fails, enough, works);
  while (const auto island = island_below(budget, fails, works)) {
    budget = bisect(fails, *island, works);
  }
  return budget;
}

}  // namespace ebb::cli
