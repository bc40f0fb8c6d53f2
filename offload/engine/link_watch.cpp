#include "offload/engine/link_watch.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "runtime/transfer/transfer_queue.h"

namespace ebb::offload {
namespace {

constexpr std::size_t kMostCopies = 4096;  // A step's; the rest would tell the same.
constexpr std::size_t kFewestCopies = 4;
constexpr double kFastestPart = 0.25;  // Of the bytes.
constexpr double kNoise = 0.1;
constexpr int kStrikes = 2;

}  // namespace

LinkWatch::LinkWatch(const device::LinkRate& planned, double host_submit_seconds)
    : planned_(planned),
      host_submit_seconds_(host_submit_seconds),
      chunk_bytes_(transfer::chunk_bytes(planned, host_submit_seconds)),
      plan_{planned.bytes_per_second, planned.bytes_per_second, 0, 0} {}

LinkWatch::Mark LinkWatch::queued(std::size_t bytes, const Fence& after, double now,
                                  const Event& end) {
  if (!std::isfinite(planned_.bytes_per_second) || copies_.size() == kMostCopies) return {};
  copies_.push_back({bytes, after, now, end});
  return {step_, copies_.size() - 1};
}

void LinkWatch::cancelled(const Mark& mark) noexcept {
  if (mark.step == step_) copies_[mark.index].bytes = 0;
}

double LinkWatch::planned_seconds(std::size_t bytes) const noexcept {
  const auto chunks = static_cast<double>((bytes + chunk_bytes_ - 1) / chunk_bytes_);
  return chunks * planned_.latency_seconds + (chunks - 1) * host_submit_seconds_ +
         static_cast<double>(bytes) / planned_.bytes_per_second;
}

double LinkWatch::speed(const device::Device& device) const {
  std::vector<std::pair<double, double>> speeds;  // And bytes.
  double all = 0;
  double idle_from = 0;  // The end of the copy before.
  for (const Copy& copy : copies_) {
    const std::optional<double> end = device.ended_at(copy.end);
    if (!end) continue;
    double begin = std::max(copy.queued, idle_from);
    copy.after.for_each([&](const Event& event) {
      begin = std::max(begin, device.ended_at(event).value_or(0));
    });
    idle_from = std::max(idle_from, *end);
    if (*end <= begin || copy.bytes == 0) continue;
    const auto bytes = static_cast<double>(copy.bytes);
    speeds.emplace_back(planned_seconds(copy.bytes) / (*end - begin), bytes);
    all += bytes;
  }
  if (speeds.size() < kFewestCopies) return 0;
  std::sort(speeds.begin(), speeds.end());
  double faster = 0;
  for (auto it = speeds.rbegin(); it != speeds.rend(); ++it) {
    faster += it->second;
    if (faster >= kFastestPart * all) return it->first;
  }
  return 0;
}

void LinkWatch::end_step(const device::Device& device) {
  const std::uint64_t step = step_++;
  const double now = speed(device);
  copies_.clear();
  if (now == 0) {
    strikes_ = 0;
    return;
  }
  const double thought = plan_.measured / plan_.planned;
  if (std::abs(now / thought - 1) <= kNoise) {
    strikes_ = 0;
    return;
  }
  const int direction = now < thought ? -1 : 1;
  strikes_ = strikes_ * direction > 0 ? strikes_ + direction : direction;
  if (std::abs(strikes_) < kStrikes) return;
  strikes_ = 0;
  plan_.measured = plan_.planned * (std::abs(now - 1) <= kNoise ? 1 : now);
  ++plan_.replans;
  plan_.step = step;
}

}  // namespace ebb::offload
