#include "allocator/process_mark.h"

#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

namespace ebb {
namespace {

TEST(ProcessMark, TellsAChildFromItsParent) {
  const ProcessMark mark;
  EXPECT_FALSE(mark.in_child());
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) _exit(mark.in_child() ? 7 : 8);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 7);
  EXPECT_FALSE(mark.in_child());
}

TEST(ProcessMark, IsTheChildsOwnWhereTheChildMadeIt) {
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) _exit(ProcessMark().in_child() ? 8 : 7);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(WEXITSTATUS(status), 7);
}

}  // namespace
}  // namespace ebb
