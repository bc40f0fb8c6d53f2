// How long is a whole training step of GPT-2, and how far is it from what its matrix
// products at oneDNN's rate and its other ops at memcpy's rate would take?
//
// Prints the step op by op. With --serve it runs one step for each line on its input and
// answers with the seconds, so that bench/peers/gpt2_step.py can alternate it with PyTorch.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <exception>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "allocator/error.h"
#include "bench/kernel_ledger.h"
#include "kernels/cpu/cpu_kernels.h"
#include "runtime/autograd/autograd.h"
#include "runtime/device/sim/profile.h"
#include "runtime/device/sim/sim_device.h"
#include "runtime/nn/gpt2.h"
#include "runtime/tensor/launch.h"
#include "runtime/train/adamw.h"

namespace {

using ebb::Kernels;
using ebb::Tensor;
using Clock = std::chrono::steady_clock;

double since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Bytes read and written a second by plain copies on all threads.
double memcpy_rate(int threads) {
  const std::size_t part = (std::size_t{512} << 20) / static_cast<std::size_t>(threads);
  std::vector<std::vector<char>> from(static_cast<std::size_t>(threads),
                                      std::vector<char>(part, 1));
  std::vector<std::vector<char>> to = from;
  double best = 1e30;
  for (int round = 0; round < 5; ++round) {
    const auto start = Clock::now();
    {
      std::vector<std::jthread> workers;
      for (std::size_t i = 0; i < from.size(); ++i) {
        workers.emplace_back([&, i] { std::memcpy(to[i].data(), from[i].data(), part); });
      }
    }
    best = std::min(best, since(start));
  }
  return 2.0 * static_cast<double>(part) * threads / best;
}

struct Options {
  ebb::nn::Gpt2Config model = ebb::nn::gpt2_config("gpt2");
  std::int64_t batch = 4;
  std::int64_t seq = 256;
  int steps = 3;
  int threads = static_cast<int>(std::thread::hardware_concurrency());
  bool serve = false;
};

Options parse(int argc, char** argv) {
  Options options;
  options.model.dropout = 0;
  const auto integer = [](std::int64_t& to) {
    return [&to](const char* text) { to = std::stoll(text); };
  };
  const std::map<std::string, std::function<void(const char*)>> flags = {
      {"--layers", integer(options.model.layers)},
      {"--heads", integer(options.model.heads)},
      {"--hidden", integer(options.model.hidden)},
      {"--vocab", integer(options.model.vocabulary)},
      {"--batch", integer(options.batch)},
      {"--seq", integer(options.seq)},
      {"--dropout", [&](const char* text) { options.model.dropout = std::stof(text); }},
      {"--steps", [&](const char* text) { options.steps = std::stoi(text); }},
      {"--threads", [&](const char* text) { options.threads = std::stoi(text); }},
  };
  for (int i = 1; i < argc; ++i) {
    const std::string flag = argv[i];
    if (flag == "--serve") {
      options.serve = true;
      continue;
    }
    const auto found = flags.find(flag);
    EBB_CHECK(found != flags.end() && i + 1 < argc, kInvalidArgument, "what is ", flag,
              "?");
    found->second(argv[++i]);
  }
  return options;
}

class Trainer {
 public:
  explicit Trainer(const Options& options)
      : options_(options),
        table_(ebb::bench::timed_kernels()),
        device_(make_device(table_)),
        model_(*device_, options.model, 1),
        optimizer_(model_.parameters(), {}),
        tokens_(random_tokens(1)),
        targets_(random_tokens(2)) {}

  // The seconds of one step: forward, backward, clipping, AdamW.
  double step() {
    ebb::autograd::set_random({.seed = 1, .step = ++steps_});
    const auto start = Clock::now();
    for (const auto& parameter : model_.parameters()) {
      ebb::autograd::overwrite_gradient(parameter.tensor);
    }
    ebb::autograd::backward(model_.loss(tokens_, targets_));
    optimizer_.step(1e-4);
    device_->synchronize();
    return since(start);
  }

 private:
  static std::unique_ptr<ebb::device::Device> make_device(const Kernels& table) {
    ebb::device::SimOptions sim;
    sim.profile = ebb::device::load_profile("free");
    sim.order.kind = ebb::device::Order::Kind::kEager;
    return ebb::device::make_sim_device(sim, table);
  }

  Tensor random_tokens(unsigned seed) {
    std::mt19937 random(seed);
    std::vector<std::int32_t> values(
        static_cast<std::size_t>(options_.batch * options_.seq));
    for (auto& value : values) {
      value = static_cast<std::int32_t>(random() %
                                        static_cast<unsigned>(options_.model.vocabulary));
    }
    Tensor tensor =
        Tensor::empty(*device_, {options_.batch, options_.seq}, ebb::DType::kI32);
    ebb::tensor::copy_from_host(tensor, values.data());
    return tensor;
  }

  const Options options_;
  const Kernels table_;
  const std::unique_ptr<ebb::device::Device> device_;
  const ebb::nn::Gpt2 model_;
  ebb::train::AdamW optimizer_;
  const Tensor tokens_;
  const Tensor targets_;
  std::uint32_t steps_ = 0;
};

// Runs `steps` steps with the ledger open, and prints what each op took a step.
void print_ops(Trainer& trainer, const Options& options) {
  ebb::bench::KernelLedger ledger;
  double step = 0;
  {
    const ebb::bench::LedgerScope scope(ledger);
    trainer.step();  // Measures the rates of the products.
    ledger.clear();
    for (int i = 0; i < options.steps; ++i) step += trainer.step() / options.steps;
  }
  const double copy_rate = memcpy_rate(options.threads);
  const double flop_rate = ledger.best_flop_rate();

  std::printf(
      "oneDNN's best rate %.1f GFLOP/s, memcpy %.1f GB/s (read + written), %d threads\n",
      flop_rate / 1e9, copy_rate / 1e9, options.threads);
  std::printf("%-24s %6s %10s %10s %8s\n", "op, a step", "calls", "ms", "bound ms",
              "bound/ms");
  double bound = 0;
  double rest = step;
  std::vector<std::pair<std::string, ebb::bench::KernelLedger::Row>> rows(
      ledger.rows().begin(), ledger.rows().end());
  std::sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) {
    return a.second.seconds > b.second.seconds;
  });
  for (const auto& [name, row] : rows) {
    const double seconds = row.seconds / options.steps;
    const double least =
        (row.least.product_seconds +
         std::max(row.least.flops / flop_rate, row.least.bytes / copy_rate)) /
        options.steps;
    bound += least;
    rest -= seconds;
    std::printf("%-24s %6lld %10.2f %10.2f %8.2f\n", name.c_str(),
                static_cast<long long>(row.calls / options.steps), seconds * 1e3,
                least * 1e3, least / seconds);
  }
  std::printf("%-24s %6s %10.2f\n", "outside of kernels", "", rest * 1e3);
  std::printf("%-24s %6s %10.2f %10.2f %8.2f\n", "step", "", step * 1e3, bound * 1e3,
              bound / step);
}

void run(const Options& options) {
  ebb::set_cpu_threads(options.threads);
  Trainer trainer(options);
  trainer.step();
  if (options.serve) {
    for (std::string line; std::getline(std::cin, line) && line != "end";) {
      std::printf("%.9f\n", trainer.step());
      std::fflush(stdout);
    }
  }
  print_ops(trainer, options);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    run(parse(argc, argv));
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "gpt2_step_bench: %s\n", error.what());
    return 1;
  }
}
