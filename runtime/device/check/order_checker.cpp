#include "runtime/device/check/order_checker.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"

namespace ebb::device {
namespace {

// The threads that submit, as a source: each touch of theirs is a ticket.
constexpr Source kHost = 0;

bool reads(const Access& access) { return access.mode != Access::Mode::kWrite; }
bool writes(const Access& access) { return access.mode != Access::Mode::kRead; }

AccessMap::Range range(const Access& access) {
  return {access.address, access.address + access.bytes};
}

}  // namespace

OrderChecker::OrderChecker() : mover_(*this, /*eager=*/true, /*seed=*/0) {
  (void)add_stream("host");
}

const char* OrderChecker::intern(const char* name) {
  return names_.insert(name).first->c_str();
}

Source OrderChecker::add_stream(const char* name) {
  const absl::MutexLock lock(&mutex_);
  mover_.add_source();
  clocks_.add_stream();
  states_.emplace_back().name = intern(name);
  return static_cast<Source>(states_.size() - 1);
}

Source OrderChecker::add_timeline() {
  const absl::MutexLock lock(&mutex_);
  mover_.add_source();
  clocks_.add_timeline();
  states_.emplace_back();
  return static_cast<Source>(states_.size() - 1);
}

void OrderChecker::rename(Source stream, const char* name) {
  const absl::MutexLock lock(&mutex_);
  states_[stream].name = intern(name);
}

std::shared_ptr<const Clock> OrderChecker::known() {
  if (known_ == nullptr || known_version_ != clocks_.version()) {
    known_ = std::make_shared<const Clock>(clocks_.thread());
    known_version_ = clocks_.version();
  }
  return known_;
}

void OrderChecker::push(Source stream, std::uint64_t ticket, Mover::Work work) {
  State& state = states_[stream];
  if (ticket != state.next) {
    state.early.emplace(ticket, std::move(work));
    return;
  }
  mover_.push(stream, std::move(work));
  ++state.next;
  while (!state.early.empty() && state.early.begin()->first == state.next) {
    mover_.push(stream, std::move(state.early.begin()->second));
    state.early.erase(state.early.begin());
    ++state.next;
  }
  mover_.move_all();
}

void OrderChecker::join(Source stream, std::uint64_t ticket,
                        const std::shared_ptr<const Clock>& known) {
  State& state = states_[stream];
  if (state.joined == known) return;
  state.joined = known;
  clocks_.submit(stream, ticket, *known);
}

absl::Status OrderChecker::run(Point /*here*/, Mover::Work& work, bool /*skip*/) {
  mutex_.AssertHeld();
  if (work.body) work.body(nullptr);
  return {};
}

void OrderChecker::access(Source stream, std::uint64_t ticket, const char* op,
                          std::span<const Access> accesses, Hold hold) {
  const absl::MutexLock lock(&mutex_);
  look_for_freed(stream, op, accesses, hold);
  const auto held = held_.find(hold);
  Mover::Work work;
  work.kind = Mover::Kind::kOp;
  work.body = [this, stream, ticket, op, known = known(),
               announced = held == held_.end() ? nullptr : held->second.known,
               all = std::vector<Access>(accesses.begin(), accesses.end())](void*) {
    mutex_.AssertHeld();
    join(stream, ticket, known);
    if (announced != nullptr) clocks_.submit(stream, ticket, *announced);
    look({stream, ticket}, op, all, clocks_.clock(stream));
  };
  push(stream, ticket, std::move(work));
}

void OrderChecker::wait(Source stream, std::uint64_t ticket, Point point) {
  const absl::MutexLock lock(&mutex_);
  Mover::Work work;
  work.kind = Mover::Kind::kWait;
  work.point = point;
  work.body = [this, stream, ticket, point, known = known()](void*) {
    mutex_.AssertHeld();
    join(stream, ticket, known);
    clocks_.wait(stream, ticket, point);
  };
  push(stream, ticket, std::move(work));
}

void OrderChecker::signal(Source stream, std::uint64_t ticket, Point timeline) {
  const absl::MutexLock lock(&mutex_);
  Mover::Work work;
  work.kind = Mover::Kind::kSignal;
  work.point = timeline;
  work.body = [this, stream, ticket, timeline, known = known()](void*) {
    mutex_.AssertHeld();
    join(stream, ticket, known);
    clocks_.signal(stream, ticket, timeline);
  };
  push(stream, ticket, std::move(work));
}

void OrderChecker::nothing(Source stream, std::uint64_t ticket) {
  const absl::MutexLock lock(&mutex_);
  Mover::Work work;
  work.kind = Mover::Kind::kOp;  // What comes after it comes after what the host knew.
  work.body = [this, stream, ticket, known = known()](void*) {
    mutex_.AssertHeld();
    join(stream, ticket, known);
  };
  push(stream, ticket, std::move(work));
}

void OrderChecker::touch_host(const Access& access) {
  const absl::MutexLock lock(&mutex_);
  const Point here{kHost, ++host_ticket_};
  look(here, "host access", {&access, 1}, clocks_.thread());
  clocks_.learn(here);
}

void OrderChecker::learn(Point point) {
  const absl::MutexLock lock(&mutex_);
  clocks_.learn(point);
}

void OrderChecker::begin_call_back(Point point) {
  const absl::MutexLock lock(&mutex_);
  clocks_.begin_call_back(point);
  in_call_back_ = true;
}

void OrderChecker::end_call_back() {
  const absl::MutexLock lock(&mutex_);
  clocks_.end_call_back();
  in_call_back_ = false;
}

bool OrderChecker::lend(std::uintptr_t address, std::size_t bytes) {
  const absl::MutexLock lock(&mutex_);
  const bool used = address < highest_;
  lent_.emplace(address, address + bytes);
  lowest_ = highest_ == 0 ? address : std::min(lowest_, address);
  highest_ = std::max(highest_, address + bytes);
  return used;
}

std::size_t OrderChecker::free(std::uintptr_t address) {
  const absl::MutexLock lock(&mutex_);
  const auto it = lent_.find(address);
  if (it == lent_.end()) return 0;
  const std::size_t bytes = it->second - it->first;
  lent_.erase(it);
  return bytes;
}

AccessMap::Range OrderChecker::hold(std::uintptr_t address, Hold hold) {
  const absl::MutexLock lock(&mutex_);
  auto it = lent_.upper_bound(address);
  if (it == lent_.begin()) return {};
  --it;
  held_[hold] = {it->first, it->second, known()};
  return {it->first, it->second};
}

void OrderChecker::release(Hold hold) {
  const absl::MutexLock lock(&mutex_);
  held_.erase(hold);
}

void OrderChecker::look(Point here, const char* op, std::span<const Access> accesses,
                        const Clock& clock) {
  const AccessMap::User user{here, op, states_[here.source].name};
  const auto report = [&](bool writing) {
    return [this, &user, writing](const AccessMap::User& earlier, bool wrote,
                                  AccessMap::Range where) {
      mutex_.AssertHeld();
      found(absl::StrFormat(
          "'%s' on stream '%s' %s [%#x, %#x), which '%s' on stream '%s' %s, and nothing "
          "orders the two",
          user.op, user.stream, writing ? "writes" : "reads", where.begin, where.end,
          earlier.op, earlier.stream, wrote ? "writes" : "reads"));
    };
  };
  for (const Access& access : accesses) {
    ++figures_.accesses;
    if (reads(access)) map_.read(range(access), user, clock, report(false));
  }
  for (const Access& access : accesses) {
    if (writes(access)) map_.write(range(access), user, clock, report(true));
  }
}

// Device memory is to be touched only while it is lent, in the order of submission, or as
// was announced while it was.
void OrderChecker::look_for_freed(Source stream, const char* op,
                                  std::span<const Access> accesses, Hold hold) {
  const auto held = held_.find(hold);
  for (const Access& access : accesses) {
    if (held != held_.end() && held->second.begin <= access.address &&
        access.address + access.bytes <= held->second.end) {
      continue;
    }
    std::uintptr_t from = std::max(access.address, lowest_);
    const std::uintptr_t end = std::min(access.address + access.bytes, highest_);
    while (from < end) {
      auto it = lent_.upper_bound(from);
      if (it == lent_.begin() || std::prev(it)->second <= from) {
        found(absl::StrFormat(
            "'%s' on stream '%s' touches [%#x, %#x), and [%#x, ...) is "
            "not lent: used after it was freed",
            op, states_[stream].name, access.address, access.address + access.bytes, from));
        return;
      }
      from = std::prev(it)->second;
    }
  }
}

void OrderChecker::found(std::string words) {
  ++figures_.violations;
  if (news_.empty()) news_ = words;
  if (words_.size() < kMaxWords) words_.push_back(std::move(words));
}

std::vector<std::string> OrderChecker::violations() const {
  const absl::MutexLock lock(&mutex_);
  return words_;
}

OrderFigures OrderChecker::figures() const {
  const absl::MutexLock lock(&mutex_);
  return figures_;
}

std::string OrderChecker::take_news() {
  const absl::MutexLock lock(&mutex_);
  return in_call_back_ ? std::string() : std::exchange(news_, {});
}

}  // namespace ebb::device
