// Hooks that park what is saved in ordinary host memory, at once, and write down what they
// were asked.

#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "runtime/autograd/saved_tensor_hooks.h"
#include "runtime/tensor/launch.h"
#include "runtime/tensor/tensor.h"

namespace ebb::test {

class HostHooks final : public autograd::SavedTensorHooks {
 public:
  struct Log {
    std::vector<std::string> packed;    // "op" or "op (input)".
    std::vector<std::string> remade;    // Left to a recompute.
    std::vector<std::size_t> unpacked;  // Numbers of packed.
    std::vector<std::size_t> order;     // As begin_backward() said.
    std::size_t live = 0;
    int begun = 0;
    int ended = 0;
  };

  enum class Answer { kTake, kKeep, kRemake };
  using Answers = std::function<Answer(const autograd::SaveSite&)>;

  // With `keep`, hands everything back for the tape to keep.
  HostHooks() : HostHooks(false) {}
  explicit HostHooks(std::same_as<bool> auto keep)
      : answers_([keep](const auto&) { return keep ? Answer::kKeep : Answer::kTake; }) {}
  explicit HostHooks(Answers answers) : answers_(std::move(answers)) {}

  // Answers by chance; where it may, it leaves two thirds to a recompute.
  static Answers random(std::uint64_t seed) {
    return [random = std::mt19937_64(seed)](const autograd::SaveSite& site) mutable {
      const auto drawn = random() % 6;
      if (site.can_recompute && drawn < 4) return Answer::kRemake;
      return drawn % 2 == 0 ? Answer::kTake : Answer::kKeep;
    };
  }
  static Answer remake(const autograd::SaveSite& site) {
    return site.can_recompute ? Answer::kRemake : Answer::kTake;
  }

  const Log& log() const { return *log_; }
  void clear_log() {
    EXPECT_EQ(log_->live, 0U);
    *log_ = {};
  }

  autograd::PackResult pack(const Tensor& tensor, const autograd::SaveSite& site) override {
    EXPECT_TRUE(tensor.defined());
    EXPECT_EQ(tensor.storage()->purpose(), Purpose::kActivations);
    const Answer answer = answers_(site);
    if (answer == Answer::kKeep) return nullptr;
    const bool input = site.kind == autograd::SaveSite::Kind::kCheckpointInput;
    const std::string what = std::string(site.op) + (input ? " (input)" : "");
    if (answer == Answer::kRemake) {
      log_->remade.push_back(what);
      return autograd::PackResult::remade();
    }
    log_->packed.push_back(what);
    return std::make_unique<Packed>(log_, tensor, log_->packed.size() - 1);
  }

  void begin_backward(std::span<autograd::PackedTensor* const> order) override {
    ++log_->begun;
    for (autograd::PackedTensor* packed : order) {
      log_->order.push_back(static_cast<Packed*>(packed)->number());
    }
  }
  void end_backward() noexcept override { ++log_->ended; }

 private:
  class Packed final : public autograd::PackedTensor {
   public:
    Packed(std::shared_ptr<Log> log, const Tensor& tensor, std::size_t number)
        : log_(std::move(log)),
          number_(number),
          device_(tensor.device()),
          shape_(tensor.shape()),
          strides_(tensor.strides()),
          dtype_(tensor.dtype()),
          offset_(tensor.offset()),
          bytes_(tensor.storage()->bytes()) {
      ++log_->live;
      tensor::copy_to_host(whole(tensor.storage()), bytes_.data());
    }
    ~Packed() override { --log_->live; }

    Tensor unpack() override {
      log_->unpacked.push_back(number_);
      tensor::StorageRef storage =
          tensor::Storage::allocate(device_, bytes_.size(), Purpose::kActivations);
      tensor::copy_from_host(whole(storage), bytes_.data());
      return Tensor::over(std::move(storage), shape_, strides_, dtype_, offset_);
    }
    void used() noexcept override {}
    std::size_t number() const { return number_; }

   private:
    static Tensor whole(const tensor::StorageRef& storage) {
      return Tensor::over(storage, {static_cast<std::int64_t>(storage->bytes())},
                          DType::kU8);
    }

    std::shared_ptr<Log> log_;
    std::size_t number_;
    device::Device& device_;
    tensor::Shape shape_;
    tensor::Shape strides_;
    DType dtype_;
    std::int64_t offset_;
    std::vector<std::byte> bytes_;
  };

  Answers answers_;
  std::shared_ptr<Log> log_ = std::make_shared<Log>();
};

}  // namespace ebb::test
