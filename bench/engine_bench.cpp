// What does the engine cost for each saved tensor: pack, copy issue, unpack, bookkeeping?
//
// A step makes tensors, saves them, and uses them in the reverse order, on a dry simulated
// device, so that nothing but bookkeeping takes time. The same step is run with the engine,
// and with the bare calls to the device that moving a tensor takes (ops, copies, waits,
// memory). The difference is the engine's, its queues' and its pool's.

#include <time.h>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <vector>

#include "benchmark/benchmark.h"

#include "allocator/pinned_pool.h"
#include "kernels/cpu/cpu_kernels.h"
#include "offload/engine/engine.h"
#include "offload/store/host/host_store.h"
#include "runtime/device/sim/profile.h"
#include "runtime/device/sim/sim_device.h"
#include "runtime/tensor/launch.h"
#include "runtime/transfer/transfer_queue.h"

namespace {

using ebb::Tensor;
constexpr std::size_t kTensors = 512;
constexpr std::int64_t kElements = std::int64_t{1} << 18;  // 1 MiB each.

std::unique_ptr<ebb::device::Device> make_device() {
  ebb::device::SimOptions options;
  options.profile = ebb::device::load_profile("a100-pcie4");
  options.dry = true;
  return ebb::device::make_sim_device(options, ebb::cpu_kernels());
}

// As long as a copy of the tensor takes.
void compute(const Tensor& reads, const Tensor& writes) {
  ebb::device::OpInfo info;
  info.name = "compute";
  info.work.bytes = 1e8;
  ebb::tensor::launch(info, {reads}, {writes}, [](void*) {});
}

Tensor make_tensor(ebb::device::Device& device) {
  Tensor tensor = Tensor::empty(device, {kElements}, ebb::DType::kF32);
  compute({}, tensor);
  return tensor;
}

class WithEngine {
 public:
  WithEngine() : pool_(device_->host_memory(), std::size_t{1} << 32) {
    pool_.reserve((kTensors + 1) * kElements * sizeof(float));
  }

  void step() {
    std::vector<std::unique_ptr<ebb::autograd::PackedTensor>> saved;
    saved.reserve(kTensors);
    for (std::size_t i = 0; i < kTensors; ++i) {
      saved.push_back(engine_.pack(make_tensor(*device_), {}).packed);
    }
    std::vector<ebb::autograd::PackedTensor*> order;
    order.reserve(kTensors);
    for (const auto& tensor : saved) order.push_back(tensor.get());
    std::reverse(order.begin(), order.end());
    engine_.begin_backward(order);
    while (!saved.empty()) {
      compute(saved.back()->unpack(), {});
      saved.back()->used();
      saved.pop_back();
    }
    engine_.end_backward();
    device_->synchronize();
    engine_.end_step();
    engine_.take_sent_blocks();
  }

 private:
  std::unique_ptr<ebb::device::Device> device_ = make_device();
  ebb::PinnedPool pool_;
  ebb::transfer::Link link_{*device_};
  ebb::offload::HostStore store_{link_, pool_};
  ebb::offload::Engine engine_{*device_, store_, {}};
};

// One direction's stream, and the timeline that says what has ended on it.
struct Lane {
  Lane(ebb::device::Device& device, const char* name)
      : stream(device.create_stream(name)), timeline(device.acquire_timeline(next)) {}

  ebb::Event copy(ebb::device::CopyInfo info) {
    stream.copy(info);
    stream.signal(timeline, next);
    stream.call_back([](const absl::Status&) {});
    return timeline.at(next++);
  }

  std::uint64_t next = 0;
  ebb::device::Stream& stream;
  ebb::device::Timeline& timeline;
};

// Sends and fetches every tensor, two of them under way: what the engine comes to.
class BareCalls {
 public:
  using Direction = ebb::device::CopyInfo::Direction;

  void step() {
    ebb::device::Stream& main = device_->current_stream();
    std::vector<ebb::Event> sent;
    std::vector<Tensor> window;
    for (std::size_t i = 0; i < kTensors; ++i) {
      const Tensor tensor = make_tensor(*device_);
      device_->memory().mark_sent(tensor.storage()->address());
      d2h_.stream.wait(main.record(), {});
      const auto hold = device_->memory().hold(tensor.storage()->address());
      sent.push_back(d2h_.copy(info(tensor, Direction::kDeviceToHost)));
      device_->memory().release(hold);
      tensor.storage()->used_until(sent.back());
      window.push_back(tensor);
      if (window.size() > 2) {
        main.wait(sent[i - 2], {});
        window.erase(window.begin());
      }
    }
    window.clear();
    std::vector<std::pair<Tensor, ebb::Event>> fetched;
    for (std::size_t i = kTensors; i-- > 0;) {
      fetched.push_back(fetch(sent[i], main));
      if (fetched.size() > 2) use(fetched, main);
    }
    while (!fetched.empty()) use(fetched, main);
    device_->synchronize();
  }

 private:
  std::pair<Tensor, ebb::Event> fetch(const ebb::Event& sent, ebb::device::Stream& main) {
    auto storage = ebb::tensor::Storage::allocate(*device_, kElements * sizeof(float),
                                                  ebb::Purpose::kActivations, h2d_.stream);
    device_->memory().mark_sent(storage->address());
    Tensor tensor = Tensor::over(std::move(storage), {kElements}, ebb::DType::kF32);
    h2d_.stream.wait(main.record(), {});
    h2d_.stream.wait(sent, {});
    const auto hold = device_->memory().hold(tensor.storage()->address());
    const ebb::Event landed = h2d_.copy(info(tensor, Direction::kHostToDevice));
    device_->memory().release(hold);
    tensor.storage()->used_until(landed);
    return {std::move(tensor), landed};
  }

  static void use(std::vector<std::pair<Tensor, ebb::Event>>& fetched,
                  ebb::device::Stream& main) {
    main.wait(fetched.front().second, {});
    compute(fetched.front().first, {});
    fetched.erase(fetched.begin());
  }

  ebb::device::CopyInfo info(const Tensor& tensor, Direction direction) {
    return {.name = "copy",
            .direction = direction,
            .device = tensor.storage()->address(),
            .host = host_,
            .bytes = tensor.bytes()};
  }

  std::unique_ptr<ebb::device::Device> device_ = make_device();
  std::byte* host_ = device_->host_memory().pin(kElements * sizeof(float));
  Lane d2h_{*device_, "d2h"};
  Lane h2d_{*device_, "h2d"};
};

// Of the processor, as all of it runs on this thread: an idle machine is not needed.
double cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

template <typename Steps>
double seconds_of(Steps& steps) {
  const double start = cpu_seconds();
  steps.step();
  return cpu_seconds() - start;
}

void BM_OverheadOfASavedTensor(benchmark::State& state) {
  WithEngine engine;
  BareCalls bare;
  engine.step();  // Learns the order and times of use.
  bare.step();
  double with = 0;
  double without = 0;
  for (auto _ : state) {
    const double a = seconds_of(engine);
    const double b = seconds_of(bare);
    with += a;
    without += b;
    state.SetIterationTime(std::max(0.0, a - b) / kTensors);
  }
  const auto each = [](double total) {
    return benchmark::Counter(total / kTensors, benchmark::Counter::kAvgIterations);
  };
  state.counters["with"] = each(with);
  state.counters["bare"] = each(without);
}
BENCHMARK(BM_OverheadOfASavedTensor)
    ->UseManualTime()
    ->Unit(benchmark::kMicrosecond)
    ->Iterations(50);

}  // namespace
