#include "bindings/cli/interrupt.h"

#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/errors.h"

namespace ebb::cli {
namespace {

using test::fails_with;

void wait_for(const Interrupt& interrupt) {
  while (!interrupt.requested()) std::this_thread::yield();  // The test's time-out ends it.
}

TEST(InterruptTest, IsQuietUntilAsked) {
  const Interrupt interrupt;
  EXPECT_FALSE(interrupt.requested());
  EXPECT_NO_THROW(interrupt.check("in a test"));
}

TEST(InterruptTest, TurnsEitherSignalIntoAnError) {
  for (const int signal : {SIGINT, SIGTERM}) {
    const Interrupt interrupt;
    kill(getpid(), signal);
    wait_for(interrupt);
    EXPECT_THAT([&] { interrupt.check("in training"); },
                fails_with(absl::StatusCode::kCancelled, "in training"));
  }
}

TEST(InterruptTest, LeavesSignalsAsTheyWere) {
  sigset_t before;
  sigset_t after;
  pthread_sigmask(SIG_SETMASK, nullptr, &before);
  { const Interrupt interrupt; }
  pthread_sigmask(SIG_SETMASK, nullptr, &after);
  EXPECT_EQ(sigismember(&before, SIGINT), sigismember(&after, SIGINT));
}

TEST(InterruptDeathTest, EndsTheProcessWhenAskedTwice) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        const Interrupt interrupt;
        kill(getpid(), SIGINT);
        wait_for(interrupt);
        kill(getpid(), SIGINT);
        for (;;) pause();
      },
      ::testing::KilledBySignal(SIGINT), "");
}

}  // namespace
}  // namespace ebb::cli
