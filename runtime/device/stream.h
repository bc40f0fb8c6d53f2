// Streams: queues of work that runs in order, and what that work says of itself.
//
// Everything that touches memory goes through a Stream, says which bytes it reads and
// writes, and gets its order from streams and events alone.
//
// Failures. A call that throws has queued nothing. What fails later, while it runs, fails
// its stream: the first failure stays there, says which op it was and on which stream, and
// goes where a wait for that stream, or for a timeline that it signals, takes it. Whatever
// is behind it is not run, and yet ends in its turn: events are done, timelines reach their
// values, callbacks are called and told, so that nobody waits for ever and no memory stays
// lent. It is thrown by the next call that synchronizes: Stream::synchronize(), for that
// stream, which works again then; Device::synchronize(), for all, after which the device is
// as good as new. (Event::wait() and done() never throw.) What was to be written by the
// work in between is void: whoever catches the failure drops the graphs and results that
// hold it, and begins the step again. Where the fault leaves a device of no use, every
// later submission fails the same way, and the message says that the process must end.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"

#include "allocator/event.h"
#include "kernels/dtype.h"

namespace ebb::device {

// The bytes that an op reads, writes, or both.
struct Access {
  enum class Mode : std::uint8_t { kRead, kWrite, kReadWrite };

  std::uintptr_t address = 0;
  std::size_t bytes = 0;
  Mode mode = Mode::kRead;
};

// What part of a training step an op belongs to.
enum class Phase : std::uint8_t { kForward, kRecompute, kBackward, kOptimizer, kOther };

// Why compute stood still. The keys of the report's `stall_seconds`.
enum class StallCause : std::uint8_t {
  kD2HBacklog,
  kH2DLate,
  kHostFull,
  kPin,
  kComm,
  kHost
};
inline constexpr std::size_t kStallCauses = 6;

// A wait says what it is for, and where in the code it is asked for.
struct WaitTag {
  StallCause cause = StallCause::kHost;
  const char* site = "";  // Static text, such as "engine.unpack".
};

// How much an op does, for clocks that model time: max(flops / peak, bytes / bandwidth) +
// launch.
struct Work {
  double flops = 0;
  double bytes = 0;
  DType dtype = DType::kF32;  // Whose peak counts.
};

struct OpInfo {
  const char* name = "";  // Static text, such as "linear.forward".
  std::span<const Access> accesses;
  Work work;
  Phase phase = Phase::kOther;
  std::int32_t stage = -1;  // Which layer it belongs to, if any.
  // A probe looks on (checksums, verification): it has its place in the order, and takes no
  // time, no launch and no submission on a virtual clock.
  bool probe = false;
};

// Names a block of device memory that copies will use which are not submitted yet; 0: none.
// See DeviceMemory::hold().
using Hold = std::uint64_t;

struct CopyInfo {
  enum class Direction : std::uint8_t { kDeviceToHost, kHostToDevice };

  const char* name = "";
  Direction direction = Direction::kDeviceToHost;
  std::uintptr_t device = 0;
  std::byte* host = nullptr;
  std::size_t bytes = 0;
  Hold hold = 0;  // That it was announced by.
};

// A counter that streams wait for and signal: the end of work that is not submitted yet. Of
// several values of one timeline, the latest is reached last. (CUDA: stream memory
// operations on a 64-bit counter.)
class Timeline : public EventSource {
 public:
  Event at(std::uint64_t value) const { return {*this, value}; }
};

// Runs on the host, or queued with the native handle of the stream (a cudaStream_t; null on
// the CPU).
using Body = absl::AnyInvocable<void(void* native)>;
// Runs when the work before it has ended; may submit to streams. `status` is the stream's
// first failure, or OK.
using Callback = absl::AnyInvocable<void(const absl::Status& status)>;

// A queue of work on a device; its tickets count what is submitted. One thread submits at a
// time; events of it may be asked for by any thread. Made and owned by a Device.
class Stream : public EventSource {
 public:
  virtual StreamId id() const noexcept = 0;

  // Queues an op, a copy. The event is its end.
  virtual Event launch(const OpInfo& op, Body body) = 0;
  virtual Event copy(const CopyInfo& copy) = 0;

  // What is submitted from now on runs after `event`: as recorded now, or, of a timeline,
  // once it is signalled. Waiting for what the stream is ordered after already costs
  // nothing.
  virtual void wait(const Event& event, const WaitTag& tag) = 0;
  void wait(const Fence& fence, const WaitTag& tag) {
    fence.for_each([&](const Event& event) { wait(event, tag); });
  }

  // The end of all that was submitted so far.
  virtual Event record() const noexcept = 0;

  // When all that was submitted so far has ended: `timeline` reaches `value`; `callback` is
  // called, on a clock of its own that starts at that time (a thread of the engine's, on
  // hardware). A callback that throws fails the stream. signal() throws for nothing but
  // misuse (Error{kInvalidArgument}): others wait for it already.
  virtual void signal(Timeline& timeline, std::uint64_t value) = 0;
  virtual void call_back(Callback callback) = 0;

  // Blocks the calling thread until all that was submitted has ended. Throws the stream's
  // first failure, once: Error that names the op and the stream. Those that had waited for
  // it keep it, until they or their device synchronize.
  virtual void synchronize() = 0;

  virtual void* native() noexcept = 0;
};

}  // namespace ebb::device
