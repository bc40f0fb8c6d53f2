// Hooks that park what is saved in ordinary host memory, at once, and write down what they
// were asked.

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
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
    std::vector<std::size_t> unpacked;  // Numbers of packed.
    std::vector<std::size_t> order;     // As begin_backward() said.
    std::size_t live = 0;
    int begun = 0;
    int ended = 0;
  };

  // With `keep`, hands everything back for the tape to keep.
  explicit HostHooks(bool keep = false) : keep_(keep) {}

  const Log& log() const { return *log_; }
  void clear_log() {
    EXPECT_EQ(log_->live, 0U);
    *log_ = {};
  }

  autograd::PackResult pack(const Tensor& tensor, const autograd::SaveSite& site) override {
    EXPECT_TRUE(tensor.defined());
    EXPECT_EQ(tensor.storage()->purpose(), Purpose::kActivations);
    if (keep_) return nullptr;
    const bool input = site.kind == autograd::SaveSite::Kind::kCheckpointInput;
    log_->packed.push_back(std::string(site.op) + (input ? " (input)" : ""));
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

  const bool keep_;
  std::shared_ptr<Log> log_ = std::make_shared<Log>();
};

}  // namespace ebb::test
