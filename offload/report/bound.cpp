#include "offload/report/bound.h"

#include <algorithm>
#include <cmath>

namespace ebb::offload {
namespace {

// Sums over ops 1..k, at [k].
struct Prefix {
  std::vector<double> seconds{0};
  std::vector<double> bytes{0};
  std::vector<double> blocks{0};

  explicit Prefix(const std::vector<BoundOp>& ops) {
    for (const BoundOp& op : ops) {
      seconds.push_back(seconds.back() + op.seconds);
      bytes.push_back(bytes.back() + static_cast<double>(op.sent_bytes));
      blocks.push_back(blocks.back() + static_cast<double>(op.sent_blocks));
    }
  }
};

// Most sent bytes on the device at any op: P.
double most_sent(const std::vector<BoundOp>& ops) {
  double most = 0;
  for (const BoundOp& op : ops) {
    most = std::max(most, static_cast<double>(op.live_sent_bytes));
  }
  return most;
}

// W(j) of each op, at [j], from 1; [0] and [n + 1] are between the passes, where nothing
// else is known to be live.
std::vector<double> room(const std::vector<BoundOp>& ops, std::size_t activation_bytes,
                         std::size_t live_after) {
  const double most = std::max(most_sent(ops), static_cast<double>(live_after));
  const auto all = static_cast<double>(activation_bytes);
  std::vector<double> result{std::min(all, most)};
  for (const BoundOp& op : ops) {
    const double left = std::max(0.0, all - static_cast<double>(op.other_bytes));
    result.push_back(std::min(left, most));
  }
  result.push_back(std::min(all, most));
  return result;
}

double copy_seconds(double bytes, double blocks, double room,
                    const device::LinkRate& link) {
  if (bytes <= room) return 0;
  const double left = bytes - room;
  return left / link.bytes_per_second + link.latency_seconds * blocks * left / bytes;
}

double total_bytes(const std::vector<BoundOp>& ops) { return Prefix(ops).bytes.back(); }

// What is not on the device at the turn has crossed in forward, or has to in backward.
double turn_bound(const std::vector<BoundOp>& ops, double on_device,
                  const device::LinkRate& link) {
  const Prefix prefix(ops);
  return copy_seconds(prefix.bytes.back(), prefix.blocks.back(), on_device, link);
}

double sum_seconds(const std::vector<BoundOp>& ops, bool recompute) {
  double seconds = 0;
  for (const BoundOp& op : ops) seconds += op.recompute == recompute ? op.seconds : 0;
  return seconds;
}

// Bytes and blocks of one direction over the whole step.
struct Traffic {
  double bytes = 0;
  double blocks = 0;

  void add(const std::vector<BoundOp>& ops) {
    const Prefix prefix(ops);
    bytes += prefix.bytes.back();
    blocks += prefix.blocks.back();
  }
  double rate(const device::LinkRate& link) const {
    if (bytes == 0) return link.bytes_per_second;
    return bytes / (bytes / link.bytes_per_second + blocks * link.latency_seconds);
  }
};

}  // namespace

double forward_bound(const std::vector<BoundOp>& ops, std::size_t activation_bytes,
                     const device::LinkRate& link, std::size_t live_after) {
  const Prefix prefix(ops);
  const std::vector<double> rooms = room(ops, activation_bytes, live_after);
  const std::size_t n = ops.size();
  double bound = prefix.seconds[n];
  for (std::size_t i = 1; i <= n; ++i) {
    if (ops[i - 1].sent_bytes == 0) continue;  // An earlier end of f(1..i) is no better.
    for (std::size_t j = i; j <= n; ++j) {
      const double copy =
          copy_seconds(prefix.bytes[j] - prefix.bytes[i - 1],
                       prefix.blocks[j] - prefix.blocks[i - 1], rooms[j + 1], link);
      bound =
          std::max(bound, prefix.seconds[i] + copy + prefix.seconds[n] - prefix.seconds[j]);
    }
  }
  return bound;
}

double backward_bound(const std::vector<BoundOp>& ops, std::size_t activation_bytes,
                      const device::LinkRate& link) {
  const Prefix prefix(ops);
  const std::vector<double> rooms = room(ops, activation_bytes, 0);
  const std::size_t m = ops.size();
  double bound = prefix.seconds[m];
  for (std::size_t j = 1; j <= m; ++j) {
    if (ops[j - 1].sent_bytes == 0) continue;
    for (std::size_t i = 0; i < j; ++i) {
      const double copy = copy_seconds(prefix.bytes[j] - prefix.bytes[i],
                                       prefix.blocks[j] - prefix.blocks[i], rooms[i], link);
      bound = std::max(
          bound, prefix.seconds[i] + copy + prefix.seconds[m] - prefix.seconds[j - 1]);
    }
  }
  return bound;
}

Bound step_bound(const BoundInput& input) {
  Bound bound;
  Traffic out;
  Traffic in;
  for (const BoundMicroStep& micro : input.micro_steps) {
    const std::size_t live =
        micro.backward.empty() ? 0 : micro.backward.front().live_sent_bytes;
    // What is live is counted in whole granules of the arena, what is sent in bytes.
    const double turn = std::min(static_cast<double>(live), total_bytes(micro.forward));
    bound.seconds +=
        std::max(forward_bound(micro.forward, input.activation_bytes, input.d2h, live),
                 turn_bound(micro.forward, turn, input.d2h)) +
        std::max(backward_bound(micro.backward, input.activation_bytes, input.h2d),
                 turn_bound(micro.backward, turn, input.h2d));
    bound.forward_seconds += sum_seconds(micro.forward, false);
    bound.recompute_seconds += sum_seconds(micro.backward, true);
    bound.backward_seconds += sum_seconds(micro.backward, false);
    bound.sent_bytes += total_bytes(micro.forward);
    bound.fetched_bytes += total_bytes(micro.backward);
    bound.kept_bytes += turn;
    out.add(micro.forward);
    in.add(micro.backward);
  }
  bound.optimizer_seconds = input.optimizer_seconds;
  bound.seconds += input.optimizer_seconds;
  bound.d2h_bytes_per_second = out.rate(input.d2h);
  bound.h2d_bytes_per_second = in.rate(input.h2d);
  bound.duplex_bytes_per_second = input.duplex_bytes_per_second.value_or(
      bound.d2h_bytes_per_second + bound.h2d_bytes_per_second);
  const double crossing = out.bytes + in.bytes - 2 * bound.kept_bytes;
  bound.seconds = std::max(bound.seconds, crossing / bound.duplex_bytes_per_second);

  const auto count =
      static_cast<double>(std::max<std::size_t>(1, input.micro_steps.size()));
  for (double* mean :
       {&bound.forward_seconds, &bound.recompute_seconds, &bound.backward_seconds,
        &bound.sent_bytes, &bound.fetched_bytes, &bound.kept_bytes}) {
    *mean /= count;
  }
  return bound;
}

}  // namespace ebb::offload
