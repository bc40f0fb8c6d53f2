// Trains a small GPT-2 for a few steps and writes what compare_gpt2.py needs to do the same
// in PyTorch: index.json, and raw little-endian files that it names.
//
// Usage: dump_gpt2 FOLDER

#include <cstdio>
#include <exception>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "nlohmann/json.hpp"

#include "allocator/error.h"
#include "kernels/cpu/cpu_kernels.h"
#include "runtime/autograd/autograd.h"
#include "runtime/device/sim/profile.h"
#include "runtime/device/sim/sim_device.h"
#include "runtime/nn/gpt2.h"
#include "runtime/tensor/launch.h"
#include "runtime/train/adamw.h"
#include "runtime/train/schedule.h"

namespace {

using ebb::DType;
using ebb::Tensor;
using nlohmann::ordered_json;

constexpr std::int64_t kBatch = 4;
constexpr std::int64_t kSeq = 48;
constexpr int kSteps = 3;
// Fewer positions are used than there are: the rest have a gradient of zero.
constexpr ebb::nn::Gpt2Config kModel{.layers = 4,
                                     .heads = 4,
                                     .hidden = 128,
                                     .vocabulary = 512,
                                     .positions = 64,
                                     .dropout = 0.0F};

class Folder {
 public:
  explicit Folder(std::string path) : path_(std::move(path)) {}

  // Writes a file of numbers, and returns its name.
  template <typename T>
  std::string write(const std::string& name, const std::vector<T>& numbers) const {
    return write(name, reinterpret_cast<const char*>(numbers.data()),
                 numbers.size() * sizeof(T));
  }
  std::string write(const std::string& name, const char* bytes, std::size_t count) const {
    std::ofstream file(path_ + "/" + name, std::ios::binary);
    file.write(bytes, static_cast<std::streamsize>(count));
    file.close();
    EBB_CHECK(file.good(), kInternal, "cannot write ", path_, "/", name);
    return name;
  }

 private:
  std::string path_;
};

// The numbers of all parameters, or of their gradients, one after the other.
template <typename Choose>
std::vector<float> flatten(const ebb::nn::Parameters& parameters, Choose choose) {
  std::vector<float> flat;
  for (const auto& parameter : parameters) {
    const Tensor tensor = choose(parameter.tensor);
    const std::size_t at = flat.size();
    flat.resize(at + static_cast<std::size_t>(tensor.elements()));
    ebb::tensor::copy_to_host(tensor, flat.data() + at);
  }
  return flat;
}

std::vector<float> weights(const ebb::nn::Parameters& parameters) {
  return flatten(parameters, [](const Tensor& tensor) { return tensor; });
}

std::vector<std::int32_t> random_tokens(std::mt19937& random) {
  std::uniform_int_distribution<std::int32_t> any(
      0, static_cast<std::int32_t>(kModel.vocabulary) - 1);
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(kBatch * kSeq));
  for (std::int32_t& token : tokens) token = any(random);
  return tokens;
}

Tensor on_device(ebb::device::Device& device, const std::vector<std::int32_t>& tokens) {
  Tensor tensor = Tensor::empty(device, {kBatch, kSeq}, DType::kI32);
  ebb::tensor::copy_from_host(tensor, tokens.data());
  return tensor;
}

ordered_json describe(const ebb::nn::Parameters& parameters,
                      const ebb::train::AdamWOptions& options) {
  ordered_json index;
  index["model"] = {{"layers", kModel.layers},
                    {"heads", kModel.heads},
                    {"hidden", kModel.hidden},
                    {"vocabulary", kModel.vocabulary},
                    {"positions", kModel.positions}};
  index["batch"] = kBatch;
  index["seq"] = kSeq;
  index["optimizer"] = {{"beta1", options.beta1},
                        {"beta2", options.beta2},
                        {"epsilon", options.epsilon},
                        {"weight_decay", options.weight_decay},
                        {"max_norm", options.max_norm}};
  for (const auto& parameter : parameters) {
    index["parameters"].push_back({{"name", parameter.name},
                                   {"shape", parameter.tensor.shape()},
                                   {"decay", parameter.decay}});
  }
  return index;
}

void dump(const Folder& folder) {
  ebb::device::SimOptions sim;
  sim.profile = ebb::device::load_profile("free");
  const auto device = ebb::device::make_sim_device(sim, ebb::cpu_kernels());
  const ebb::nn::Gpt2 model(*device, kModel, 1);
  const ebb::train::AdamWOptions options;
  ebb::train::AdamW optimizer(model.parameters(), options);

  ordered_json index = describe(model.parameters(), options);
  folder.write("weights.bin", weights(model.parameters()));
  // What `ebb train` takes by default.
  const auto schedule = ebb::train::Schedule::over(100, 6e-4);
  std::mt19937 random(1);
  for (int step = 1; step <= kSteps; ++step) {
    const std::string suffix = std::to_string(step) + ".bin";
    const std::vector<std::int32_t> tokens = random_tokens(random);
    const std::vector<std::int32_t> targets = random_tokens(random);
    for (const auto& parameter : model.parameters()) {
      ebb::autograd::overwrite_gradient(parameter.tensor);
    }
    const Tensor loss = model.loss(on_device(*device, tokens), on_device(*device, targets));
    ebb::autograd::backward(loss);
    float value = 0;
    ebb::tensor::copy_to_host(loss, &value);
    const double rate = schedule.rate(step - 1);
    index["steps"].push_back(
        {{"loss", value},
         {"learning_rate", rate},
         {"tokens", folder.write("tokens" + suffix, tokens)},
         {"targets", folder.write("targets" + suffix, targets)},
         {"gradients",
          folder.write("gradients" + suffix,
                       flatten(model.parameters(), ebb::autograd::gradient))}});
    optimizer.step(rate);
  }
  device->synchronize();
  folder.write("final_weights.bin", weights(model.parameters()));
  const std::string text = index.dump(1);
  folder.write("index.json", text.data(), text.size());
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fputs("usage: dump_gpt2 FOLDER\n", stderr);
    return 2;
  }
  try {
    dump(Folder(argv[1]));
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "dump_gpt2: %s\n", error.what());
    return 1;
  }
}
