#include "bench/soak/soak_programme.h"

#include <algorithm>
#include <type_traits>
#include <utility>

#include "absl/cleanup/cleanup.h"

#include "allocator/error.h"
#include "runtime/autograd/autograd.h"
#include "runtime/tensor/launch.h"

namespace ebb::bench {
namespace {

constexpr std::size_t kMostHeld = 4;
constexpr std::int64_t kQuietEvery = 25;  // Steps: then no graph stays alive.
constexpr float kRate = 1e-2F;

offload::EngineOptions engine_options(const SoakOptions& options) {
  return {.policy = options.policy, .min_offload_bytes = options.min_offload_bytes};
}

std::vector<std::byte> bytes_of(const Tensor& tensor) {
  std::vector<std::byte> bytes(tensor.bytes());
  tensor::copy_to_host(tensor, bytes.data());
  return bytes;
}

float value_of(const Tensor& one) {
  float value = 0;
  tensor::copy_to_host(one, &value);
  return value;
}

}  // namespace

// The job goes on on a stream of its own, and comes back.
class SoakProgramme::StreamScope {
 public:
  explicit StreamScope(device::Device& device)
      : device_(device),
        before_(device.current_stream()),
        stream_(device.create_stream("soak")) {
    stream_.wait(before_.record(), {.site = "soak.stream"});
    device_.set_current_stream(stream_);
  }
  ~StreamScope() {
    before_.wait(stream_.record(), {.site = "soak.stream"});
    device_.set_current_stream(before_);
    device_.destroy_stream(stream_);
  }
  StreamScope(const StreamScope&) = delete;
  StreamScope& operator=(const StreamScope&) = delete;

 private:
  device::Device& device_;
  device::Stream& before_;
  device::Stream& stream_;
};

SoakProgramme::SoakProgramme(device::Device& device, device::Device& reference,
                             const SoakOptions& options, SoakFigures& figures)
    : device_(device),
      options_(options),
      figures_(figures),
      dice_(options.seed),
      model_(device, trap_, options.seed),
      reference_(reference, no_trap_, options.seed),
      pool_(device.host_memory(), options.host_budget_bytes),
      link_(device),
      store_(link_, pool_),
      engine_(std::make_unique<offload::Engine>(device, store_, engine_options(options))) {
  pool_.reserve(pool_.most_reserved());
}

SoakProgramme::~SoakProgramme() { held_.clear(); }

std::vector<std::string> SoakProgramme::step(std::int64_t number) {
  event_ = draw_event();
  ++figures_.events[static_cast<std::size_t>(event_)];
  model_.zero_gradients();
  try {
    run_event(number);
    finish_held(number % kQuietEvery == 0 ? number + kQuietEvery : number);
  } catch (const Error& error) {
    if (error.code() != absl::StatusCode::kResourceExhausted) throw;
    // A refusal, not a fault: the step is left out, and training goes on.
    ++figures_.refusals;
    done_.clear();
    trap_.disarm();
  }
  const bool learns = !done_.empty();
  std::vector<std::string> wrong = compare();
  device_.synchronize();
  engine_->end_step();
  // Graphs hold the weights as they are.
  if (learns && quiet() && dice_.chance(0.25)) {
    model_.descend(kRate);
    reference_.descend(kRate);
  }
  return wrong;
}

SoakMemory SoakProgramme::memory() {
  device_.synchronize();
  pool_.collect();
  const device::MemoryFigures memory = device_.memory().figures();
  const PinnedPool::Stats pool = pool_.stats();
  const offload::EngineBooks books = engine_->books();
  return {.device_bytes = memory.lent.total(),
          .device_reserved_bytes = memory.reserved_bytes,
          .host_bytes = pool.lent_bytes + pool.retired_bytes,
          .host_pinned_bytes = pool.pinned_bytes,
          .engine_blocks = books.blocks,
          .engine_backwards = books.backwards,
          .engine_learned = books.learned};
}

offload::EngineFigures SoakProgramme::engine_figures() const {
  offload::EngineFigures figures = engines_before_;
  figures += engine_->figures();
  return figures;
}

SoakEvent SoakProgramme::draw_event() {
  BySoakEvent<double> weights = options_.weights;
  if (!quiet()) {
    // Would change what a held graph still needs.
    weights[static_cast<std::size_t>(SoakEvent::kWrittenInPlace)] = 0;
    weights[static_cast<std::size_t>(SoakEvent::kNewEngine)] = 0;
  }
  return static_cast<SoakEvent>(dice_.weighted(weights));
}

SoakGraph SoakProgramme::draw_graph() {
  SoakGraph graph;
  graph.batch = dice_.between(1, SoakModel::kMostBatch);
  graph.seq = dice_.between(4, SoakModel::kMostSeq);
  graph.stretches.resize(static_cast<std::size_t>(dice_.between(1, 3)));
  for (SoakGraph::Stretch& stretch : graph.stretches) {
    stretch.layers.resize(static_cast<std::size_t>(dice_.between(1, 2)));
    for (int& layer : stretch.layers) {
      layer = static_cast<int>(dice_.between(0, SoakModel::kLayers - 1));
    }
    stretch.checkpointed = dice_.chance(0.6);
    if (dice_.chance(0.3)) stretch.recompute = autograd::Recompute::kAsNeeded;
    stretch.nested = dice_.chance(0.2);
  }
  ++figures_.graphs;
  graph.key = {.seed = options_.seed, .step = static_cast<std::uint32_t>(figures_.graphs)};
  return graph;
}

SoakGraph SoakProgramme::draw_checkpointed() {
  SoakGraph graph = draw_graph();
  SoakGraph::Stretch& last = graph.stretches.back();
  last.checkpointed = true;
  last.recompute = autograd::Recompute::kAlways;
  return graph;
}

SoakProgramme::Live SoakProgramme::forward(const SoakGraph& graph, std::int64_t due) {
  const autograd::HooksScope hooks(engine_.get());
  return {graph, model_.loss(graph, /*segments=*/true), due};
}

void SoakProgramme::backward(Live live, int times) {
  for (int i = 1; i <= times; ++i) {
    autograd::backward(live.loss, {.retain_graph = i < times});
  }
  done_.push_back({live.graph, times});
}

void SoakProgramme::finish_held(std::int64_t until) {
  for (std::size_t i = 0; i < held_.size();) {
    if (held_[i].due > until) {
      ++i;
      continue;
    }
    Live live = std::move(held_[i]);
    held_.erase(held_.begin() + static_cast<std::ptrdiff_t>(i));
    backward(std::move(live));
  }
}

void SoakProgramme::run_event(std::int64_t number) {
  switch (event_) {
    case SoakEvent::kStep:
      return plain();
    case SoakEvent::kAccumulate:
      return accumulate();
    case SoakEvent::kInterleaved:
      return interleave();
    case SoakEvent::kHeld:
      return hold(number);
    case SoakEvent::kRetained:
      return backward(forward(draw_graph()), static_cast<int>(dice_.between(2, 3)));
    case SoakEvent::kDoubleBackward: {
      SoakGraph graph = draw_graph();
      graph.penalty = true;
      return backward(forward(graph));
    }
    case SoakEvent::kForwardOnly:
      (void)forward(draw_graph());
      return;
    case SoakEvent::kEvaluation:
      return evaluate();
    case SoakEvent::kDroppedOutput: {
      SoakGraph graph = draw_graph();
      graph.side_output = true;
      return backward(forward(graph));
    }
    case SoakEvent::kThrowsInForward:
      return spring(Trap::Where::kForward);
    case SoakEvent::kThrowsInRecompute:
      return spring(Trap::Where::kRecompute);
    case SoakEvent::kThrowsInBackward:
      return spring(Trap::Where::kBackward);
    case SoakEvent::kWrittenInPlace:
      return write_in_place();
    case SoakEvent::kNewStream: {
      const StreamScope stream(device_);
      finish_held(number);
      return plain();
    }
    case SoakEvent::kNewEngine:
      return renew_engine();
    case SoakEvent::kTrimmedPool:
      return trim_pool();
  }
}

void SoakProgramme::accumulate() {
  for (std::int64_t left = dice_.between(1, 3); left > 0; --left) plain();
  SoakGraph last = draw_graph();
  last.batch = 1;
  last.seq = 3;
  backward(forward(last));
}

void SoakProgramme::interleave() {
  Live a = forward(draw_graph());
  Live b = forward(draw_graph());
  note_alive(2);
  backward(std::move(b));
  Live c = forward(draw_graph());
  backward(std::move(a));
  backward(std::move(c));
}

void SoakProgramme::hold(std::int64_t number) {
  if (held_.size() == kMostHeld) finish_held(held_.front().due);
  held_.push_back(forward(draw_graph(), number + dice_.between(1, 20)));
  note_alive(1);
  plain();
}

void SoakProgramme::evaluate() {
  Live live = forward(draw_graph());
  const SoakGraph graph = draw_graph();
  const auto value = [&](const SoakModel& model) {
    const autograd::NoGrad no_grad;
    const autograd::TrainingScope evaluation(false);
    return model.loss(graph, /*segments=*/true);
  };
  const Tensor found = [&] {
    const autograd::HooksScope hooks(engine_.get());
    return value(model_);
  }();
  backward(std::move(live));
  EBB_CHECK(value_of(found) == value_of(value(reference_)), kDataLoss,
            "an evaluation gives another loss than the reference");
}

template <typename T>
void SoakProgramme::expect_thrown(const char* what, const std::function<void()>& call) {
  bool thrown = false;
  try {
    call();
  } catch (const T& error) {
    if constexpr (std::is_same_v<T, Error>) {
      if (error.code() != absl::StatusCode::kFailedPrecondition) throw;
    }
    thrown = true;
  }
  EBB_CHECK(thrown, kInternal, what, " threw nothing");
  ++figures_.exceptions;
  // What backward had done until then is in the gradients.
  model_.zero_gradients();
}

void SoakProgramme::spring(Trap::Where where) {
  const bool again = where == Trap::Where::kRecompute;
  const SoakGraph graph = again ? draw_checkpointed() : draw_graph();
  const int passes = again ? graph.recomputed_layers() : graph.layers();
  trap_.arm(where, static_cast<int>(dice_.between(0, passes - 1)));
  expect_thrown<Trap::Sprung>("an op that was told to throw", [&] {
    const Live live = forward(graph);
    autograd::backward(live.loss);
  });
  backward(forward(graph));
}

void SoakProgramme::write_in_place() {
  expect_thrown<Error>("backward after a saved weight was written", [&] {
    const Live live = forward(draw_graph());
    tensor::written_in_place(model_.parameters().front().tensor);
    autograd::backward(live.loss);
  });
  plain();
}

void SoakProgramme::renew_engine() {
  {
    const Live live = forward(draw_graph());
    engines_before_ = engine_figures();
    // What becomes of blocks after their engine is counted by nobody: as if all were
    // dropped.
    engines_before_.dropped_bytes = engines_before_.d2h_bytes - engines_before_.h2d_bytes -
                                    engines_before_.revived_bytes;
    engine_.reset();
  }
  engine_ = std::make_unique<offload::Engine>(device_, store_, engine_options(options_));
  plain();
}

void SoakProgramme::trim_pool() {
  device_.synchronize();
  pool_.collect();
  (void)pool_.trim();
  const absl::Cleanup anew = [this] { (void)store_.grow(pool_.most_reserved()); };
  plain();
  device_.synchronize();
}

void SoakProgramme::note_alive(std::int64_t more) {
  const auto alive = static_cast<std::int64_t>(held_.size()) + more;
  figures_.graphs_alive_at_once = std::max(figures_.graphs_alive_at_once, alive);
}

std::vector<std::string> SoakProgramme::compare() {
  std::vector<std::string> wrong;
  if (done_.empty()) return wrong;
  reference_.zero_gradients();
  for (const Done& done : std::exchange(done_, {})) {
    const Tensor loss = reference_.loss(done.graph, /*segments=*/false);
    for (int i = 1; i <= done.backwards; ++i) {
      autograd::backward(loss, {.retain_graph = i < done.backwards});
    }
    last_loss_ = static_cast<double>(value_of(loss));
  }
  ++figures_.steps_compared;
  for (std::size_t i = 0; i < model_.parameters().size(); ++i) {
    const nn::Parameter& parameter = model_.parameters()[i];
    const Tensor& expected = reference_.parameters()[i].tensor;
    ++figures_.gradients_compared;
    if (bytes_of(autograd::gradient(parameter.tensor)) !=
        bytes_of(autograd::gradient(expected))) {
      wrong.push_back(parameter.name);
    }
  }
  return wrong;
}

}  // namespace ebb::bench
