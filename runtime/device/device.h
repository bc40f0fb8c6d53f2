// Devices: memory, streams, a clock and an op table.

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "allocator/device_arena.h"
#include "allocator/host_memory.h"
#include "allocator/purpose.h"
#include "kernels/kernels.h"
#include "runtime/device/stream.h"

namespace ebb::device {

struct LinkRate {
  double bytes_per_second = 0;  // Infinite on a device without a model of its links.
  double latency_seconds = 0;   // t0 of each copy.
};

// What a device says of itself.
struct Capability {
  std::string name;            // "sim:a100-pcie4"
  bool virtual_clock = false;  // Else the wall's.
  bool dry = false;            // Ops are timed, not run; addresses are not backed.
  std::optional<std::size_t> capacity_bytes;
  LinkRate d2h;
  LinkRate h2d;
  std::optional<double>
      duplex_bytes_per_second;  // Both directions at once; none: their sum.
  double host_submit_seconds = 0;
};

// An op as it ran, on the device's clock.
struct OpRecord {
  enum class Unit : std::uint8_t { kCompute, kD2H, kH2D, kNetwork, kDisk };

  const char* name = "";
  Event end_event;  // Of the stream it ran on.
  Unit unit = Unit::kCompute;
  Phase phase = Phase::kOther;
  std::int32_t stage = -1;
  std::size_t bytes = 0;  // Of a copy.
  double start = 0;
  double end = 0;
  // On the compute queue: how long it stood still before this op, and what it was waiting
  // for last.
  double stall = 0;
  StallCause cause = StallCause::kHost;
  const char* site = "";
  // At its start, what it makes included: activation bytes (all but parameters, gradients
  // and optimizer), and of these the bytes of blocks that the offload engine sends away
  // (see DeviceMemory::mark_sent).
  std::size_t live_activation_bytes = 0;
  std::size_t live_sent_bytes = 0;
};

// Is told of every op that has ended, probes aside, in the order of their ends.
class OpObserver {
 public:
  virtual ~OpObserver() = default;
  virtual void on_op(const OpRecord& record) = 0;
};

struct MemoryFigures {
  std::optional<std::size_t> limit_bytes;  // Of what may be reserved.
  BytesByPurpose lent;                     // What the host holds now, on no clock.
  BytesByPurpose live;
  BytesByPurpose at_peak;                 // What the peak was made of.
  std::size_t peak_bytes = 0;             // All purposes.
  std::size_t peak_activation_bytes = 0;  // BytesByPurpose::activations().
  // Addresses taken. The simulated device never gives them back, so that there the two are
  // equal; a device that trims its arena between steps has a peak above what is left.
  std::size_t reserved_bytes = 0;
  std::size_t peak_reserved_bytes = 0;
};

// Whoever holds device memory that can be done without: asked by DeviceMemory::allocate()
// before it gives up.
class Reclaimer {
 public:
  virtual ~Reclaimer() = default;

  // Frees some memory (with its fence), at least `bytes` if it can. False: there is none.
  virtual bool reclaim(std::size_t bytes) = 0;

  // What it holds that it could do without if something else were larger: a half-sentence
  // for the message of allocate(). Empty: nothing.
  virtual std::string holds() const { return {}; }
};

// Device memory in stream order. A block counts from the start of the first op or copy that
// touches it until the end of the last one, on the device's clock, whenever the host
// asked for the block or gave it back. One thread at a time.
class DeviceMemory {
 public:
  virtual ~DeviceMemory() = default;

  // `bytes` bytes (at least one granule) that `stream` uses first: the stream is made to
  // wait for whatever still uses them, tagged kD2HBacklog. Nothing if they do not fit.
  // allocate() throws Error{kResourceExhausted, kDeviceMemory} instead, which says what was
  // asked for, what there is, and what uses it; before that it asks the reclaimers, as long
  // as that finds something.
  [[nodiscard]] virtual std::optional<std::uintptr_t> try_allocate(std::size_t bytes,
                                                                   Purpose purpose,
                                                                   Stream& stream) = 0;
  [[nodiscard]] std::uintptr_t allocate(std::size_t bytes, Purpose purpose, Stream& stream);

  // Gives the block at `address` back; work in flight may use it until `last_use`.
  virtual void free(std::uintptr_t address, const Fence& last_use) noexcept = 0;

  // Copies of the block that `address` lies in will be submitted later, from callbacks: it
  // counts until the last of them has ended, though it may be given back (with a fence that
  // they come before) and lent again, in stream order, before they are submitted. Each
  // names the hold. 0 if no such block is lent.
  [[nodiscard]] virtual Hold hold(std::uintptr_t address) = 0;
  // The last of them is submitted.
  virtual void release(Hold hold) noexcept = 0;

  // The block at `address` belongs to the bytes that the offload engine sends away.
  virtual void mark_sent(std::uintptr_t address) noexcept = 0;

  virtual MemoryFigures figures() const = 0;
  virtual void reset_peaks() noexcept = 0;

  // The one that came last is asked first. It outlives the memory, or is taken off.
  void add_reclaimer(Reclaimer& reclaimer) { reclaimers_.push_back(&reclaimer); }
  void remove_reclaimer(Reclaimer& reclaimer) noexcept {
    std::erase(reclaimers_, &reclaimer);
  }

 private:
  bool reclaim(std::size_t bytes);

  std::vector<Reclaimer*> reclaimers_;
};

// One device. Outlives what is made from it; its streams' and timelines' slots live as long
// as it does, so that an event may be asked for at any time. Thread-safety: one thread
// submits at a time (callbacks of the device come from it, or hold its lock).
class Device : public StreamOrder {
 public:
  virtual const Capability& capability() const noexcept = 0;
  virtual const Kernels& kernels() const noexcept = 0;
  virtual DeviceMemory& memory() noexcept = 0;
  virtual HostMemory&
  host_memory() noexcept = 0;  // What asynchronous copies come from and go to.

  // Slots are used again: a stream made and destroyed each step costs no memory.
  // destroy_stream() waits for its work.
  [[nodiscard]] virtual Stream& create_stream(const char* name) = 0;
  virtual void destroy_stream(Stream& stream) noexcept = 0;
  // A timeline at value 0 of its own count: at(n) for n from `first` on, where `first` is 1
  // + the last value reached.
  [[nodiscard]] virtual Timeline& acquire_timeline(std::uint64_t& first) = 0;
  virtual void release_timeline(Timeline& timeline) noexcept = 0;

  // The calling thread's clock in seconds, and the time at which `event` ended if that is
  // known by now.
  virtual double now() const noexcept = 0;
  virtual std::optional<double> ended_at(const Event& event) const noexcept = 0;

  // Waits for all streams; throws the first failure of any (or of a stream that is gone),
  // and forgets the others: they are its consequences, or of the work that is void with it.
  virtual void synchronize() = 0;

  // What the host will wait for from now on, until it says otherwise: if it comes late to
  // submit compute work because it waited, that op's stall is called this.
  virtual void set_host_wait(const WaitTag& tag) noexcept = 0;

  // The calling thread reads or writes host memory that asynchronous copies use: for the
  // order checker, which cannot see it otherwise.
  virtual void touch_host(const Access& /*access*/) {}

  // Null: nobody. The observer outlives the device, or is taken off.
  virtual void set_observer(OpObserver* observer) noexcept = 0;

  // The stream that ops are given to: looked up at each call, as a job may change it at any
  // time. At first, the device's own compute stream.
  Stream& current_stream() const noexcept { return *current_stream_; }
  void set_current_stream(Stream& stream) noexcept { current_stream_ = &stream; }

 protected:
  Stream* current_stream_ = nullptr;
};

}  // namespace ebb::device
