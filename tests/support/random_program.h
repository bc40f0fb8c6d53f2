// Random programs without races, for any device: several streams, copies both ways, blocks
// that come and go, polls, waits, callbacks that submit. Equal seeds make equal programs.

#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <random>
#include <vector>

#include "runtime/device/device.h"
#include "tests/support/devices.h"

namespace ebb::test {

struct ProgramResult {
  std::uint64_t bytes = 0;  // A hash of all that was computed; 0 on a dry device.
  double now = 0;
  std::size_t polls_true = 0;
  device::MemoryFigures figures;
  std::vector<device::OpRecord> records;
  // The peak bytes, worked out from the records and from what each op touched.
  std::size_t peak_by_hand = 0;
};

class RandomProgram {
 public:
  explicit RandomProgram(std::uint64_t seed) : random_(seed) {}

  ProgramResult run(device::Device& device, int actions) {
    device_ = &device;
    dry_ = device.capability().dry;
    Recorder recorder;
    device.set_observer(&recorder);
    host_ = device.host_memory().pin(kHostBlocks * kBytes);
    if (!dry_) std::memset(host_, 1, kHostBlocks * kBytes);
    streams_ = {&device.current_stream(), &device.create_stream("a"),
                &device.create_stream("b")};
    chunks_ = &device.create_stream("chunks");
    host_users_.resize(kHostBlocks);
    for (int i = 0; i < actions; ++i) act();
    device.synchronize();
    ProgramResult result;
    if (!dry_) result.bytes = hash(host_, kHostBlocks * kBytes, result.bytes);
    for (Block& block : blocks_) {
      if (!dry_) {
        result.bytes =
            hash(reinterpret_cast<std::byte*>(block.address), kBytes, result.bytes);
      }
      device.memory().free(block.address, {});
    }
    result.now = device.now();
    result.polls_true = polls_true_;
    result.figures = device.memory().figures();
    result.records = recorder.records;
    result.peak_by_hand = peak_by_hand(recorder.records);
    device.set_observer(nullptr);
    device.host_memory().unpin(host_, kHostBlocks * kBytes);
    return result;
  }

 private:
  static constexpr std::size_t kBytes = 2048;
  static constexpr std::size_t kHostBlocks = 6;
  static constexpr device::WaitTag kTag{device::StallCause::kH2DLate, "program"};

  struct Users {
    Event writer;
    Fence readers;
  };
  struct Block {
    std::uintptr_t address = 0;
    std::size_t life = 0;  // Index into touched_.
    Users users;
  };

  std::size_t draw(std::size_t below) { return random_() % below; }
  device::Stream& stream() { return *streams_[draw(streams_.size())]; }

  static std::uint64_t hash(const std::byte* data, std::size_t bytes, std::uint64_t seed) {
    for (std::size_t i = 0; i < bytes; ++i) {
      seed = (seed ^ static_cast<std::uint64_t>(data[i])) * 0x100000001b3U + 1;
    }
    return seed;
  }

  static void order(device::Stream& on, const Users& users, bool writes) {
    on.wait(users.writer, kTag);
    if (writes) on.wait(users.readers, kTag);
  }
  static void note(Users& users, const Event& event, bool writes) {
    if (writes) {
      users = {event, {}};
    } else {
      users.readers.add(event);
    }
  }
  static Fence all(const Users& users) {
    Fence fence = users.readers;
    fence.add(users.writer);
    return fence;
  }

  void act() {
    switch (draw(12)) {
      case 0:
      case 1:
        allocate();
        break;
      case 2:
        free();
        break;
      case 3:
      case 4:
      case 5:
        launch();
        break;
      case 6:
      case 7:
        copy(stream(), draw(2) == 0);
        break;
      case 8:
        if (!blocks_.empty() && all(pick().users).done()) ++polls_true_;
        break;
      case 9:
        if (draw(4) == 0) stream().record().wait();
        break;
      case 10:
        call_back();
        break;
      case 11:
        if (draw(6) == 0) {
          device_->destroy_stream(*streams_.back());
          streams_.back() = &device_->create_stream("again");
        }
        break;
    }
  }

  Block& pick() { return blocks_[draw(blocks_.size())]; }

  void allocate() {
    device::Stream& on = stream();
    if (blocks_.size() >= 12) return free();
    const auto address = device_->memory().allocate(kBytes, Purpose::kActivations, on);
    touched_.emplace_back();
    blocks_.push_back({address, touched_.size() - 1, {}});
    Block& block = blocks_.back();
    const std::array<device::Access, 1> accesses{
        device::Access{address, kBytes, device::Access::Mode::kWrite}};
    const auto value = static_cast<int>(draw(256));
    const Event event = on.launch(
        op("make", 1 + static_cast<double>(draw(50)), accesses), [address, value](void*) {
          std::memset(reinterpret_cast<void*>(address), value, kBytes);
        });
    note(block.users, event, true);
    touched_[block.life].push_back(event);
  }

  void free() {
    if (blocks_.empty()) return;
    const std::size_t i = draw(blocks_.size());
    device_->memory().free(blocks_[i].address, all(blocks_[i].users));
    blocks_.erase(blocks_.begin() + static_cast<std::ptrdiff_t>(i));
  }

  // to = a mix of to and from.
  void launch() {
    if (blocks_.size() < 2) return;
    device::Stream& on = stream();
    Block& from = pick();
    Block& to = pick();
    order(on, from.users, false);
    order(on, to.users, true);
    const std::array<device::Access, 2> accesses{
        device::Access{from.address, kBytes, device::Access::Mode::kRead},
        device::Access{to.address, kBytes, device::Access::Mode::kReadWrite}};
    const Event event =
        on.launch(op("mix", 1 + static_cast<double>(draw(90)), accesses),
                  [from = from.address, to = to.address](void*) {
                    const auto* x = reinterpret_cast<const unsigned char*>(from);
                    auto* y = reinterpret_cast<unsigned char*>(to);
                    for (std::size_t i = 0; i < kBytes; ++i) {
                      y[i] = static_cast<unsigned char>(3 * y[i] + x[kBytes - 1 - i] + i);
                    }
                  });
    note(from.users, event, &from == &to);
    note(to.users, event, true);
    touched_[from.life].push_back(event);
    touched_[to.life].push_back(event);
  }

  void copy(device::Stream& on, bool out) {
    if (blocks_.empty()) return;
    Block& block = pick();
    const std::size_t place = draw(kHostBlocks);
    Users& host = host_users_[place];
    order(on, block.users, !out);
    order(on, host, out);
    const auto direction = out ? device::CopyInfo::Direction::kDeviceToHost
                               : device::CopyInfo::Direction::kHostToDevice;
    const Event event =
        on.copy({"copy", direction, block.address, host_ + place * kBytes, kBytes});
    note(block.users, event, !out);
    note(host, event, out);
    touched_[block.life].push_back(event);
  }

  // A copy that a callback submits, and what waits for it, signalled by a timeline.
  void call_back() {
    if (blocks_.empty()) return;
    Block& block = pick();
    device::Stream& on = stream();
    const std::size_t place = draw(kHostBlocks);
    Users& host = host_users_[place];
    order(on, block.users, false);
    order(on, host, true);
    std::uint64_t value = 0;
    device::Timeline& timeline = device_->acquire_timeline(value);
    const std::size_t life = block.life;
    const device::Hold hold = device_->memory().hold(block.address);
    on.call_back([this, &timeline, value, life, hold, address = block.address,
                  to = host_ + place * kBytes](const absl::Status&) {
      touched_[life].push_back(
          chunks_->copy({"chunk", device::CopyInfo::Direction::kDeviceToHost, address, to,
                         kBytes, hold}));
      device_->memory().release(hold);
      chunks_->signal(timeline, value);
    });
    note(block.users, timeline.at(value), false);
    note(host, timeline.at(value), true);
    // Not given back: the callback may still be to come. A device owns its timelines.
  }

  std::size_t peak_by_hand(const std::vector<device::OpRecord>& records) const {
    struct Change {
      double time;
      bool begins;
    };
    std::vector<Change> changes;
    for (const auto& events : touched_) {
      double first = 1e300;
      double last = -1;
      for (const device::OpRecord& record : records) {
        if (std::find(events.begin(), events.end(), record.end_event) == events.end()) {
          continue;
        }
        first = std::min(first, record.start);
        last = std::max(last, record.end);
      }
      if (last < 0) continue;
      changes.push_back({first, true});
      changes.push_back({last, false});
    }
    std::sort(changes.begin(), changes.end(), [](const Change& a, const Change& b) {
      return a.time != b.time ? a.time < b.time : a.begins < b.begins;
    });
    std::size_t live = 0;
    std::size_t peak = 0;
    for (const Change& change : changes) {
      live = change.begins ? live + kBytes : live - kBytes;
      peak = std::max(peak, live);
    }
    return peak;
  }

  std::mt19937_64 random_;
  device::Device* device_ = nullptr;
  bool dry_ = false;
  std::byte* host_ = nullptr;
  std::vector<device::Stream*> streams_;
  device::Stream* chunks_ = nullptr;  // Callbacks alone submit to it: nothing waits ahead.
  std::vector<Block> blocks_;
  std::vector<Users> host_users_;
  std::vector<std::vector<Event>> touched_;  // By each block that ever lived.
  std::size_t polls_true_ = 0;
};

}  // namespace ebb::test
