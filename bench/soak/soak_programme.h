// What a step of the soak does, and the same gradients without an engine.

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "allocator/pinned_pool.h"
#include "bench/soak/soak.h"
#include "bench/soak/soak_dice.h"
#include "bench/soak/soak_model.h"
#include "offload/engine/engine.h"
#include "offload/store/host/host_store.h"
#include "runtime/transfer/transfer_queue.h"

namespace ebb::bench {

// One thread at a time. The devices outlive it.
class SoakProgramme {
 public:
  SoakProgramme(device::Device& device, device::Device& reference,
                const SoakOptions& options, SoakFigures& figures);
  ~SoakProgramme();

  SoakProgramme(const SoakProgramme&) = delete;
  SoakProgramme& operator=(const SoakProgramme&) = delete;

  // Draws an event and does it, up to the end of the step. Counts in the figures, and says
  // of which parameters the gradients are wrong. Throws what was not meant to be thrown.
  std::vector<std::string> step(std::int64_t number);

  // Whether no graph is alive: then memory is expected to be as it was.
  bool quiet() const noexcept { return held_.empty(); }
  SoakMemory memory();
  offload::EngineFigures engine_figures() const;
  double last_loss() const noexcept { return last_loss_; }
  SoakEvent event() const noexcept { return event_; }  // Of the last step.

 private:
  struct Live {
    SoakGraph graph;
    Tensor loss;
    std::int64_t due = 0;  // The step in which its backward comes.
  };
  // What gave gradients in this step.
  struct Done {
    SoakGraph graph;
    int backwards = 0;
  };
  class StreamScope;

  SoakEvent draw_event();
  SoakGraph draw_graph();
  SoakGraph draw_checkpointed();
  Live forward(const SoakGraph& graph, std::int64_t due = 0);
  void backward(Live live, int times = 1);
  void plain() { backward(forward(draw_graph())); }
  void finish_held(std::int64_t until);

  void run_event(std::int64_t number);
  void accumulate();
  void interleave();
  void hold(std::int64_t number);
  void evaluate();
  void spring(Trap::Where where);
  void write_in_place();
  void renew_engine();
  void trim_pool();
  // Runs `call`, and sees `T` thrown.
  template <typename T>
  void expect_thrown(const char* what, const std::function<void()>& call);

  void note_alive(std::int64_t more);  // Besides those held.
  std::vector<std::string> compare();

  device::Device& device_;
  const SoakOptions options_;
  SoakFigures& figures_;
  Dice dice_;
  Trap trap_;
  Trap no_trap_;
  SoakModel model_;
  SoakModel reference_;

  PinnedPool pool_;
  transfer::Link link_;
  offload::HostStore store_;
  std::unique_ptr<offload::Engine> engine_;
  offload::EngineFigures engines_before_;

  SoakEvent event_ = SoakEvent::kStep;
  std::vector<Live> held_;
  std::vector<Done> done_;
  double last_loss_ = 0;
};

}  // namespace ebb::bench
