#include "bindings/cli/progress.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace ebb::cli {
namespace {

constexpr std::int64_t kLines = 20;
constexpr std::int64_t kBar = 28;

std::string loss_text(std::optional<double> loss) {
  return loss ? absl::StrFormat("  loss %.4f", *loss) : "";
}

std::string duration(double seconds) {
  const auto whole = static_cast<std::int64_t>(seconds + 0.5);
  return whole < 60 ? absl::StrCat(whole, " s")
                    : absl::StrFormat("%d:%02d min", whole / 60, whole % 60);
}

}  // namespace

Progress::Progress(std::FILE* out, bool terminal, std::int64_t steps)
    : out_(out),
      terminal_(terminal),
      steps_(steps),
      every_(std::max<std::int64_t>(1, (steps + kLines - 1) / kLines)),
      begin_(std::chrono::steady_clock::now()) {}

Progress::~Progress() {
  if (drawn_) std::fputc('\n', out_);
  std::fflush(out_);
}

void Progress::update(std::int64_t step, std::optional<double> loss) {
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  if (terminal_) {
    draw(step, loss, seconds);
  } else if (step == 1 || step == steps_ || step % every_ == 0) {
    print(step, loss, seconds);
  }
}

void Progress::draw(std::int64_t step, std::optional<double> loss, double seconds) {
  const std::int64_t full = kBar * step / steps_;
  const std::string bar = std::string(static_cast<std::size_t>(full), '=') +
                          std::string(static_cast<std::size_t>(kBar - full), ' ');
  const double left =
      seconds / static_cast<double>(step) * static_cast<double>(steps_ - step);
  // \x1b[K clears what a longer line left behind.
  const std::string line =
      absl::StrCat("\r[", bar, "] step ", step, "/", steps_, loss_text(loss), "  ",
                   duration(left), " left\x1b[K");
  std::fputs(line.c_str(), out_);
  std::fflush(out_);
  drawn_ = true;
}

void Progress::print(std::int64_t step, std::optional<double> loss, double seconds) {
  const std::string line = absl::StrCat("step ", step, "/", steps_, loss_text(loss),
                                        absl::StrFormat("  %.1f s\n", seconds));
  std::fputs(line.c_str(), out_);
  std::fflush(out_);
}

}  // namespace ebb::cli
