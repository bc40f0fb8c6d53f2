#include "bindings/config/run_config.h"

namespace ebb::config {

const std::vector<Flag>& train_flags() {
  static const std::vector<Flag> flags{
      {"model", "NAME",
       "gpt2-nano (bytes), gpt2, gpt2-medium, gpt2-large, gpt2-xl [gpt2-nano]"},
      {"layers", "N", "transformer layers [the model's]"},
      {"hidden", "N", "width of a layer, a multiple of --heads [the model's]"},
      {"heads", "N", "attention heads [the model's]"},
      {"vocab", "N", "size of the vocabulary [the model's]"},
      {"dropout", "P", "probability of dropout, from 0 [0.1]"},
      {"data", "FILE",
       "text to train on; its last tenth is for validation [the text that ships]"},
      {"steps", "N", "training steps [100]"},
      {"batch", "N", "sequences per micro-batch [8]"},
      {"seq", "N", "tokens per sequence [256]"},
      {"accumulate", "N", "micro-batches per step [1]"},
      {"lr", "RATE", "peak learning rate; warms up, then falls along a cosine [6e-4]"},
      {"seed", "N", "of weights, batches, dropout and sampling [1]"},
      {"threads", "N", "CPU threads [the cores there are]"},
      {"dtype", "f32", "element type of weights and activations [f32]"},
      {"zero", "0", "ZeRO stage [0]"},
      {"compress", "none", "codec of what is offloaded [none]"},
      {"device", "sim[:PROFILE|FILE.json]",
       "the device: t4-pcie3, a100-pcie4, h100-pcie5, gh200, gb300, free, or a profile in "
       "a file [sim:a100-pcie4]"},
      {"device-budget", "SIZE|auto",
       "device bytes the run may take, as 24GiB or 512MiB [the device's capacity]"},
      {"host-budget", "SIZE", "host bytes that offloading may pin [what the machine has]"},
      {"node-host-budget", "SIZE", "the same for all ranks of a machine together"},
      {"min-offload-bytes", "SIZE", "smaller tensors stay on the device"},
      {"checkpoint", "POLICY",
       "layers to recompute: none, every:K, sqrt, layers:1,5,10 [none]"},
      {"offload", "POLICY",
       "what leaves the device: none, inputs (of checkpointed segments), saved (every "
       "saved tensor) [none]"},
      {"order", "ORDER",
       "when bytes move on the simulated device: eager, time, fuzz:SEED [time]"},
      {"check", nullptr, "watch for accesses without an order between them"},
      {"dry", nullptr, "compute nothing: exact time and memory in seconds"},
      {"verify-gradients", nullptr,
       "compare every gradient with a run without checkpointing or offload"},
      {"verify-recompute", "N", "compare every N-th recomputed tensor with the original"},
      {"stress", nullptr,
       "soak the engine instead: random training steps, every gradient compared, memory "
       "that has to stay flat; --steps [2000]"},
      {"report", "FILE.json", "write the run's report"},
      {"json", nullptr, "print the report instead of the summary"},
  };
  return flags;
}

}  // namespace ebb::config
