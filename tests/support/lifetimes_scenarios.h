// What a job may do to its graphs. Each is run with the engine and without.

#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/autograd/autograd.h"
#include "runtime/autograd/modes.h"
#include "runtime/autograd/ops/ops.h"
#include "tests/support/errors.h"
#include "tests/support/lifetimes_rig.h"

namespace ebb::test::lifetimes {

// What a job does. Nothing of it is alive at the end.
struct Scenario {
  std::string name;
  void (*run)(LifetimesRig& rig);
};

// Every way in which a layer may be saved, in turn.
inline Pass pass(std::uint32_t number) {
  Pass pass;
  pass.number = number;
  pass.checkpointed = number % 3 != 0;
  if (number % 3 == 2) pass.recompute = autograd::Recompute::kAsNeeded;
  return pass;
}

inline void interleaved(LifetimesRig& rig) {
  for (std::uint32_t first = 1; first <= 7; first += 3) {
    Tensor a = rig.loss(pass(first));
    Tensor b = rig.loss(pass(first + 1));
    rig.backward(std::exchange(b, {}));
    Tensor c = rig.loss(pass(first + 2));
    rig.backward(std::exchange(a, {}));
    rig.backward(std::exchange(c, {}));
    rig.end_step();
  }
}

inline void alive_for_many_steps(LifetimesRig& rig) {
  std::deque<Tensor> graphs;
  for (std::uint32_t step = 1; step <= 14; ++step) {
    graphs.push_back(rig.loss(pass(step)));
    if (graphs.size() == 5) {
      // The oldest, or the second newest.
      const std::size_t which = step % 2 == 0 ? 0 : 3;
      rig.backward(graphs[which]);
      graphs.erase(graphs.begin() + static_cast<std::ptrdiff_t>(which));
    }
    rig.end_step();
  }
  for (const Tensor& loss : graphs) rig.backward(loss);
}

inline void retained(LifetimesRig& rig) {
  for (std::uint32_t number = 1; number <= 3; ++number) {
    const Tensor loss = rig.loss(pass(number));
    for (int i = 0; i < 2; ++i) {
      autograd::backward(loss, {.retain_graph = true});
      const Tensor between = rig.loss(pass(number + 3));
      rig.backward(between);
    }
    rig.end_step();
    rig.backward(loss);
    // A retained graph whose last backward never comes.
    autograd::backward(rig.loss(pass(number)), {.retain_graph = true});
    rig.record_gradients();
  }
}

// Ops with second derivatives, and views.
inline Tensor smooth(const Tensor& x) {
  const Tensor cube = autograd::multiply(autograd::multiply(x, x), x);
  const Tensor turned = autograd::transpose(cube, 0, 1);
  const std::int64_t half = turned.size(0) / 2;
  return autograd::multiply(autograd::slice(turned, 0, 0, half),
                            autograd::slice(turned, 0, half, 2 * half));
}

inline void differentiate_twice(LifetimesRig& rig, bool checkpointed,
                                autograd::Recompute recompute) {
  for (int layer = 0; layer < 3; ++layer) {
    const autograd::HooksScope hooks(rig.engine());
    const Tensor inputs[] = {autograd::scale(rig.weight(layer), 1.5F)};
    const auto segment = [](std::span<const Tensor> in) {
      return std::vector<Tensor>{smooth(in[0])};
    };
    const Tensor y =
        (checkpointed ? autograd::checkpoint(segment, inputs, recompute) : segment(inputs))
            .front();
    const Tensor slope =
        autograd::gradients(autograd::sum(y), inputs, {.create_graph = true}).front();
    const Tensor penalty = autograd::sum(autograd::multiply(slope, slope));
    rig.record(slope);
    autograd::backward(penalty, {.retain_graph = true});
    rig.record_gradients();
    // What y needs is still there.
    rig.backward(autograd::sum(y));
  }
}
inline void double_backward(LifetimesRig& rig) {
  differentiate_twice(rig, false, autograd::Recompute::kAlways);
}
inline void through_checkpoint(LifetimesRig& rig) {
  differentiate_twice(rig, true, autograd::Recompute::kAlways);
}
inline void through_checkpoint_as_needed(LifetimesRig& rig) {
  differentiate_twice(rig, true, autograd::Recompute::kAsNeeded);
}

inline void forward_only(LifetimesRig& rig) {
  for (std::uint32_t number = 1; number <= 6; ++number) {
    (void)rig.loss(pass(number));
    if (number % 2 == 0) rig.end_step();
  }
  rig.backward(rig.loss(pass(7)));
}

inline void dropped_outputs(LifetimesRig& rig) {
  for (std::uint32_t number = 1; number <= 3; ++number) {
    Tensor h = rig.output(pass(number));
    {
      const autograd::HooksScope hooks(rig.engine());
      (void)autograd::gelu(autograd::multiply(h, h));
      h = autograd::sum(h);
    }
    Tensor unused = rig.output(pass(number + 3));
    rig.backward(h);
    unused = {};
    rig.end_step();
  }
}

// The exception comes at every op in turn; another graph is alive meanwhile.
inline void throw_at(LifetimesRig& rig, Tripwire::Where where, bool checkpointed) {
  for (int at = 0; at < 3; ++at) {
    const Tensor other = rig.loss(pass(20));
    Pass failing = pass(1 + static_cast<std::uint32_t>(at));
    failing.checkpointed = checkpointed;
    failing.recompute = autograd::Recompute::kAlways;
    if (where != Tripwire::Where::kRecompute || rig.offloads()) {
      rig.wire().set(where, at);
      EXPECT_THROW(
          {
            const Tensor loss = rig.loss(failing);
            autograd::backward(loss);
          },
          Thrown);
    }
    rig.clear_gradients();
    rig.backward(other);
    rig.backward(rig.loss(failing));
    rig.end_step();
  }
}
inline void throws_in_forward(LifetimesRig& rig) {
  throw_at(rig, Tripwire::Where::kForward, false);
  throw_at(rig, Tripwire::Where::kForward, true);
}
inline void throws_in_recompute(LifetimesRig& rig) {
  throw_at(rig, Tripwire::Where::kRecompute, true);
}
inline void throws_in_backward(LifetimesRig& rig) {
  throw_at(rig, Tripwire::Where::kBackward, false);
  throw_at(rig, Tripwire::Where::kBackward, true);
}

// The graph outlives the exception, and its backward comes after all.
inline void tried_again(LifetimesRig& rig) {
  Pass failing = pass(1);
  failing.recompute = autograd::Recompute::kAlways;
  for (int at = 0; at < 3; ++at) {
    const Tensor loss = rig.loss(failing);
    if (rig.offloads()) {
      rig.wire().set(Tripwire::Where::kRecompute, at);
      EXPECT_THROW(autograd::backward(loss, {.retain_graph = true}), Thrown);
      rig.clear_gradients();
      rig.end_step();
    }
    rig.backward(loss);
  }
}

inline void evaluation(LifetimesRig& rig) {
  for (std::uint32_t number = 1; number <= 3; ++number) {
    const Tensor loss = rig.loss(pass(number));
    {
      const autograd::NoGrad no_grad;
      const autograd::TrainingScope off(false);
      rig.record(rig.loss(pass(number + 3)));
    }
    rig.backward(loss);
    rig.end_step();
    const autograd::NoGrad no_grad;
    rig.record(rig.output(pass(number)));
  }
}

inline void accumulation(LifetimesRig& rig) {
  for (std::uint32_t step = 0; step < 3; ++step) {
    for (std::uint32_t micro = 1; micro <= 4; ++micro) {
      Pass one = pass(4 * step + micro);
      if (micro == 4) one.rows = 7;
      autograd::backward(rig.loss(one));
    }
    rig.record_gradients();
    rig.end_step();
  }
}

inline void another_order_every_step(LifetimesRig& rig) {
  const std::vector<std::vector<int>> orders = {{0, 1, 2, 3}, {3, 2, 1, 0}, {1},
                                                {0, 0, 3, 3}, {2, 1},       {3, 0, 2},
                                                {0, 1, 2, 3}, {2},          {0, 1, 3}};
  for (std::uint32_t step = 0; step < orders.size(); ++step) {
    Pass one = pass(step + 1);
    one.layers = orders[step];
    one.rows = 20 + 9 * (step % 4);
    rig.backward(rig.loss(one));
    rig.end_step();
  }
}

inline void new_streams(LifetimesRig& rig) {
  device::Device& device = rig.device();
  std::set<const device::Stream*> streams;
  const device::WaitTag tag{.site = "test"};
  for (std::uint32_t step = 1; step <= 12; ++step) {
    device::Stream& before = device.current_stream();
    device::Stream& now = device.create_stream("of one step");
    streams.insert(&now);
    now.wait(before.record(), tag);
    device.set_current_stream(now);
    rig.backward(rig.loss(pass(step)));
    before.wait(now.record(), tag);
    device.set_current_stream(before);
    device.destroy_stream(now);
    rig.end_step();
    // Nothing is kept by stream.
    if (step == 2 || step == 12) rig.expect_empty();
  }
  EXPECT_EQ(streams.size(), 1U) << "their slots are used again";
}

inline void engine_goes_first(LifetimesRig& rig) {
  Tensor dropped = rig.loss(pass(1));
  std::vector<Tensor> before = {rig.loss(pass(4)), rig.loss(pass(5)), rig.loss(pass(6))};
  rig.end_step();
  rig.renew_engine();
  const Tensor now = rig.loss(pass(2));
  dropped = {};
  for (Tensor& loss : before) rig.backward(std::exchange(loss, {}));
  rig.backward(now);
  rig.backward(rig.loss(pass(3)));
}

// Graphs of their own, from forward to backward, in the middle of another one's backward.
inline void backward_in_backward(LifetimesRig& rig) {
  for (std::uint32_t number = 1; number <= 3; ++number) {
    Pass outer = pass(number);
    std::uint32_t inner = 10 * number;
    std::vector<Tensor> held;
    outer.in_backward = [&] {
      const autograd::ModesScope restore;
      autograd::modes().grad_enabled = true;
      Pass one = pass(++inner);
      one.layers = {3};
      const Tensor weights[] = {rig.weight(3)};
      Tensor loss = rig.loss(one);
      rig.record(autograd::gradients(loss, weights).front());
      held.push_back(rig.loss(one));  // Its backward comes when the outer one is over.
    };
    rig.backward(rig.loss(outer));
    rig.end_step();
    for (const Tensor& loss : held) rig.backward(loss);
  }
}

inline void dropped_in_backward(LifetimesRig& rig) {
  for (std::uint32_t number = 1; number <= 3; ++number) {
    Tensor other = rig.loss(pass(number + 3));
    Pass one = pass(number);
    one.in_backward = [&other] { other = {}; };
    rig.backward(rig.loss(one));
    rig.end_step();
  }
}

inline void weight_written(LifetimesRig& rig) {
  for (std::uint32_t number = 1; number <= 3; ++number) {
    {
      const Tensor loss = rig.loss(pass(number));
      tensor::written_in_place(rig.weight(1));
      EXPECT_THAT([&] { autograd::backward(loss); },
                  fails_with(absl::StatusCode::kFailedPrecondition, "written in place"));
      rig.clear_gradients();
    }
    rig.end_step();
    rig.backward(rig.loss(pass(number)));
  }
}

// A segment that holds on to what it is given, and to the op that is in it.
inline void closures_hold_tensors(LifetimesRig& rig) {
  const autograd::HooksScope hooks(rig.engine());
  for (int i = 0; i < 3; ++i) {
    const Tensor x = autograd::scale(rig.weight(i), 2);
    const auto holder = std::make_shared<std::vector<Tensor>>();
    const auto segment = [x, holder](std::span<const Tensor> in) {
      *holder = {in[0]};
      return std::vector<Tensor>{autograd::multiply(autograd::gelu(in[0]), x)};
    };
    const Tensor inputs[] = {x};
    const Tensor y =
        (rig.offloads() ? autograd::checkpoint(segment, inputs) : segment(inputs)).front();
    rig.backward(autograd::sum(y));
  }
}

inline const std::vector<Scenario>& scenarios() {
  static const std::vector<Scenario> all = {
      {"InterleavedGraphs", interleaved},
      {"GraphsAliveForManySteps", alive_for_many_steps},
      {"RetainedGraphs", retained},
      {"DoubleBackward", double_backward},
      {"DoubleBackwardThroughACheckpoint", through_checkpoint},
      {"DoubleBackwardThroughACheckpointAsNeeded", through_checkpoint_as_needed},
      {"ForwardWithoutBackward", forward_only},
      {"DroppedOutputs", dropped_outputs},
      {"ExceptionsInForward", throws_in_forward},
      {"ExceptionsInRecompute", throws_in_recompute},
      {"ExceptionsInBackward", throws_in_backward},
      {"BackwardTriedAgainAfterAnException", tried_again},
      {"EvaluationInBetween", evaluation},
      {"ALastMicroBatchThatDiffers", accumulation},
      {"AnotherOrderEveryStep", another_order_every_step},
      {"NewStreamsEveryStep", new_streams},
      {"AnEngineThatGoesBeforeItsGraphs", engine_goes_first},
      {"ForwardInTheMiddleOfBackward", backward_in_backward},
      {"AGraphDroppedInAnothersBackward", dropped_in_backward},
      {"AWeightWrittenBeforeBackward", weight_written},
      {"ClosuresThatHoldTensors", closures_hold_tensors},
  };
  return all;
}

}  // namespace ebb::test::lifetimes
