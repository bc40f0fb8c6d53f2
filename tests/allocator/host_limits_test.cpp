#include "allocator/host_limits.h"

#include <fstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/errors.h"

namespace ebb {
namespace {

using test::fails_with;
using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;

// A tree of files in place of the machine's.
class HostLimitsTest : public ::testing::Test {
 protected:
  void TearDown() override { std::filesystem::remove_all(root_); }

  void write(const std::string& file, const std::string& text) const {
    const std::filesystem::path path = root_ / file;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  void write_meminfo(std::size_t available_kib) const {
    write("proc/meminfo",
          "MemTotal:       24000000 kB\nMemFree:        1 kB\nMemAvailable: " +
              std::to_string(available_kib) + " kB\n");
  }

  HostLimits read() const { return read_host_limits(root_); }

  static auto refuses(const std::string& why) {
    return fails_with(absl::StatusCode::kResourceExhausted, why);
  }

  const std::filesystem::path root_ =
      std::filesystem::path(::testing::TempDir()) /
      ::testing::UnitTest::GetInstance()->current_test_info()->name();
};

TEST_F(HostLimitsTest, FindsNoLimitWhereNothingSaysOne) {
  const HostLimits limits = read();
  EXPECT_FALSE(limits.total_bytes);
  EXPECT_FALSE(limits.available_bytes);
  EXPECT_FALSE(limits.cgroup);
  EXPECT_FALSE(limits.memlock_bytes);
  EXPECT_FALSE(limits.room_bytes());
  EXPECT_NO_THROW(limits.check_room(std::size_t{1} << 60));
}

TEST_F(HostLimitsTest, ReadsMemory) {
  write_meminfo(1000);
  EXPECT_EQ(read().total_bytes, 24'000'000UL * 1024);
  EXPECT_EQ(read().available_bytes, 1000U * 1024);
  EXPECT_EQ(read().room_bytes(), 1000U * 1024);
}

TEST_F(HostLimitsTest, ReadsHowMuchMayBeLocked) {
  write("proc/self/limits",
        "Limit                     Soft Limit           Hard Limit           Units     \n"
        "Max locked memory         8388608              unlimited            bytes     \n");
  EXPECT_EQ(read().memlock_bytes, 8'388'608U);
  write("proc/self/limits",
        "Max locked memory         unlimited            unlimited            bytes     \n");
  EXPECT_FALSE(read().memlock_bytes);
}

TEST_F(HostLimitsTest, NamesTheLimitOfTheAddressSpaceAndTheCommandThatRaisesIt) {
  EXPECT_FALSE(read().address_room_bytes());
  write("proc/self/limits",
        "Max address space         1048576              unlimited            bytes     \n");
  write("proc/self/status", "Name:\tebb\nVmSize:\t    1000 kB\n");
  EXPECT_EQ(read().address_room_bytes(), 24U * 1024);
  EXPECT_EQ(read().why_not_mapped(24 * 1024), "");
  EXPECT_THAT(read().why_not_mapped(24 * 1024 + 1),
              AllOf(HasSubstr("RLIMIT_AS (ulimit -v) allows 1 MiB (1048576 bytes)"),
                    HasSubstr("to raise it: ulimit -v unlimited")));
  EXPECT_THAT(read().why_no_room(std::size_t{1} << 20), HasSubstr("RLIMIT_AS"));
  write("proc/self/status", "VmSize:\t    9000 kB\n");
  EXPECT_EQ(read().address_room_bytes(), 0U);
}

TEST_F(HostLimitsTest, ReadsACgroupOfVersion2) {
  write("proc/self/cgroup", "0::/job\n");
  write("sys/fs/cgroup/job/memory.max", "1000000\n");
  write("sys/fs/cgroup/job/memory.current", "300000\n");
  write("sys/fs/cgroup/job/memory.stat", "anon 1\nfile 90000\ninactive_file 50000\n");
  const auto cgroup = read().cgroup;
  ASSERT_TRUE(cgroup);
  EXPECT_THAT(cgroup->file, EndsWith("sys/fs/cgroup/job/memory.max"));
  EXPECT_EQ(cgroup->group, "/job");
  EXPECT_EQ(cgroup->limit_bytes, 1'000'000U);
  EXPECT_EQ(cgroup->used_bytes, 250'000U);
  EXPECT_EQ(cgroup->room_bytes(), 750'000U);
}

TEST_F(HostLimitsTest, ReadsACgroupOfVersion1) {
  write("proc/self/cgroup", "9:name=systemd:/\n4:cpuset,memory:/docker/0123\n0::/\n");
  write("sys/fs/cgroup/memory/docker/0123/memory.limit_in_bytes", "1000000\n");
  write("sys/fs/cgroup/memory/docker/0123/memory.usage_in_bytes", "300000\n");
  write("sys/fs/cgroup/memory/docker/0123/memory.stat",
        "inactive_file 1\ntotal_inactive_file 50000\n");
  const auto cgroup = read().cgroup;
  ASSERT_TRUE(cgroup);
  EXPECT_EQ(cgroup->limit_bytes, 1'000'000U);
  EXPECT_EQ(cgroup->used_bytes, 250'000U);
}

TEST_F(HostLimitsTest, TakesWordsAndHugeNumbersForNoLimit) {
  write("proc/self/cgroup", "4:memory:/a\n0::/a\n");
  write("sys/fs/cgroup/memory/a/memory.limit_in_bytes", "9223372036854771712\n");
  write("sys/fs/cgroup/a/memory.max", "max\n");
  EXPECT_FALSE(read().cgroup);
}

TEST_F(HostLimitsTest, FindsTheTightestOfTheGroupsAroundTheProcess) {
  write("proc/self/cgroup", "0::/slice/job\n");
  write("sys/fs/cgroup/slice/memory.max", "2000\n");
  write("sys/fs/cgroup/slice/memory.current", "1900\n");
  write("sys/fs/cgroup/slice/job/memory.max", "1000\n");
  write("sys/fs/cgroup/slice/job/memory.current", "500\n");
  EXPECT_EQ(read().cgroup->room_bytes(), 100U);
}

TEST_F(HostLimitsTest, ReadsTheMountOfAContainerThatDoesNotSeeItsGroup) {
  write("proc/self/cgroup", "0::/docker/0123\n");
  write("sys/fs/cgroup/memory.max", "4096\n");
  EXPECT_EQ(read().cgroup->room_bytes(), 4096U);
  EXPECT_EQ(read().cgroup->group, "/");
}

TEST_F(HostLimitsTest, HasNoRoomInAGroupThatUsesMoreThanItsLimit) {
  write("proc/self/cgroup", "0::/\n");
  write("sys/fs/cgroup/memory.max", "4096\n");
  write("sys/fs/cgroup/memory.current", "5000\n");
  EXPECT_EQ(read().room_bytes(), 0U);
}

TEST_F(HostLimitsTest, IgnoresGarbage) {
  write("proc/meminfo", "MemAvailable:\nMemTotal: many kB\n");
  write("proc/self/limits", "Max locked memory");
  write("proc/self/cgroup", "nonsense\n:\n0::/../../../etc\n0::/a//b/.\n");
  write("sys/fs/cgroup/memory.max", "-5\n");
  EXPECT_FALSE(read().room_bytes());
}

TEST_F(HostLimitsTest, NamesTheGroupThatRefuses) {
  write_meminfo(1'000'000);
  write("proc/self/cgroup", "0::/job\n");
  write("sys/fs/cgroup/job/memory.max", "1000000\n");
  const HostLimits limits = read();
  EXPECT_NO_THROW(limits.check_room(1'000'000));
  EXPECT_THAT([&] { limits.check_room(1'000'001); }, refuses("job/memory.max"));
}

TEST_F(HostLimitsTest, SaysWhenItIsTheMachineThatRefuses) {
  write_meminfo(1000);
  write("proc/self/cgroup", "0::/job\n");
  write("sys/fs/cgroup/job/memory.max", "4000000000\n");
  EXPECT_EQ(read().room_bytes(), 1'024'000U);
  EXPECT_THAT([&] { read().check_room(1'024'001); }, refuses("this machine's RAM"));
}

TEST_F(HostLimitsTest, SaysWhatWasAskedForWhatThereIsAndTheCommandThatRaisesIt) {
  write("proc/self/cgroup", "0::/system.slice/train.service\n");
  write("sys/fs/cgroup/system.slice/train.service/memory.max", "1073741824\n");
  write("sys/fs/cgroup/system.slice/train.service/memory.current", "536870912\n");
  EXPECT_THAT(read().why_no_room(std::size_t{1} << 30),
              AllOf(HasSubstr("1 GiB (1073741824 bytes) of host memory"),
                    HasSubstr("train.service/memory.max allows 1 GiB"),
                    HasSubstr("512 MiB (536870912 bytes) are in use"),
                    EndsWith("systemctl set-property train.service MemoryMax=1536M")));
  EXPECT_EQ(read().why_no_room(std::size_t{512} << 20), "");
}

TEST_F(HostLimitsTest, KnowsWhoMadeTheGroup) {
  const std::size_t bytes = std::size_t{3} << 30;
  const auto how = [&](const std::string& group) {
    return HostLimits::Cgroup{.file = "/cg" + group + "/memory.max",
                              .group = group,
                              .limit_bytes = 0,
                              .used_bytes = 0}
        .how_to_raise(bytes);
  };
  const std::string id = "0123456789abcdef0123";
  EXPECT_EQ(how("/docker/" + id),
            "docker update --memory 3072m --memory-swap 3072m 0123456789ab");
  EXPECT_EQ(how("/system.slice/docker-" + id + ".scope"), how("/docker/" + id));
  EXPECT_EQ(how("/kubepods.slice/kubepods-pod1.slice/cri-containerd-1.scope"),
            "set resources.limits.memory of the pod to 3072Mi");
  EXPECT_EQ(how("/slurm/uid_1/job_7"), "ask for it: srun --mem=3072M");
  EXPECT_EQ(how("/user.slice/user-1000.slice"),
            "systemctl set-property user-1000.slice MemoryMax=3072M");
  EXPECT_THAT(how("/"), HasSubstr("docker run --memory 3072m"));
  EXPECT_EQ(how("/mine"), "echo 3221225472 | sudo tee /cg/mine/memory.max");
}

TEST_F(HostLimitsTest, CountsWhatMayBeLockedOnlyWhereMemoryIsLocked) {
  write_meminfo(1'000'000);
  write("proc/self/limits",
        "Max locked memory         65536                unlimited            bytes     \n");
  EXPECT_EQ(read().why_no_room(65537), "");
  EXPECT_EQ(read().why_not_locked(65536), "");
  EXPECT_THAT(read().why_not_locked(65537),
              AllOf(HasSubstr("64 KiB (65536 bytes) may be locked"),
                    HasSubstr("RLIMIT_MEMLOCK"), HasSubstr("ulimit -l unlimited")));
  write("proc/self/limits",
        "Max locked memory         unlimited            unlimited            bytes     \n");
  EXPECT_THAT(read().why_not_locked(std::size_t{2} << 30), HasSubstr("MemAvailable"));
}

TEST(HostLimits, FindsTheMemoryOfThisMachine) {
  const HostLimits limits = read_host_limits();
  ASSERT_TRUE(limits.room_bytes());
  EXPECT_GT(*limits.room_bytes(), 0U);
  EXPECT_LE(*limits.room_bytes(), limits.total_bytes);
}

}  // namespace
}  // namespace ebb
