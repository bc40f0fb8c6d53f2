#include "bindings/cli/doctor/machine.h"

#include <cstdlib>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/temp_folder.h"

namespace ebb::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using State = Finding::State;

class MachineTest : public ::testing::Test {
 protected:
  MachineTest() {
    around_ = {.root = root_.path(),
               .path = root_.path("bin"),
               .has_library = [this](const char* library) { return library == library_; }};
  }

  void write(const std::string& path, const std::string& text) const {
    root_.write(path, text);
  }
  Finding find(const std::string& key) const {
    for (const Finding& finding : inspect(around_)) {
      if (finding.key == key) return finding;
    }
    ADD_FAILURE() << key;
    return {};
  }

  const test::TempFolder root_;
  std::string library_;
  Surroundings around_;
};

TEST_F(MachineTest, LooksAtEachThingOnceEvenWhereNothingCanBeRead) {
  std::vector<std::string> keys;
  for (const Finding& finding : inspect(around_)) keys.push_back(finding.key);
  EXPECT_THAT(
      keys, ElementsAre("cores", "ram", "cgroup", "memlock", "numa", "gpu", "mpi", "nvme"));
  EXPECT_EQ(find("ram").state, State::kMissing);
}

TEST_F(MachineTest, ReadsRam) {
  write("proc/meminfo", "MemTotal:       1048576 kB\nMemAvailable:    524288 kB\n");
  EXPECT_EQ(find("ram").state, State::kGood);
  EXPECT_EQ(find("ram").figures["total_bytes"], std::size_t{1} << 30);
  EXPECT_THAT(find("ram").text, HasSubstr("512 MiB are available"));
}

TEST_F(MachineTest, NamesTheCommandThatRaisesTheLimitOfItsControlGroup) {
  EXPECT_EQ(find("cgroup").state, State::kGood);
  write("proc/meminfo", "MemTotal:       1048576 kB\nMemAvailable:    524288 kB\n");
  write("proc/self/cgroup", "0::/job.service\n");
  write("sys/fs/cgroup/job.service/memory.max", "1048576\n");
  EXPECT_EQ(find("cgroup").state, State::kLimited);
  EXPECT_THAT(find("cgroup").text, HasSubstr("job.service/memory.max"));
  EXPECT_EQ(find("cgroup").remedy, "systemctl set-property job.service MemoryMax=1024M");
}

TEST_F(MachineTest, NamesTheCommandThatLetsMoreMemoryBeLocked) {
  EXPECT_EQ(find("memlock").state, State::kGood);
  write("proc/self/limits",
        "Max locked memory         8388608              unlimited            bytes     \n");
  EXPECT_EQ(find("memlock").state, State::kLimited);
  EXPECT_THAT(find("memlock").remedy, HasSubstr("ulimit -l unlimited"));
}

TEST_F(MachineTest, CountsNumaNodes) {
  write("sys/devices/system/node/node0/cpulist", "0");
  write("sys/devices/system/node/node1/cpulist", "1");
  write("sys/devices/system/node/online", "0-1");
  EXPECT_EQ(find("numa").figures["nodes"], 2);
}

TEST_F(MachineTest, TellsAGpuWithoutADriverFromNone) {
  EXPECT_EQ(find("gpu").state, State::kMissing);
  write("sys/bus/pci/devices/0000:01:00.0/vendor", "0x10de\n");
  write("sys/bus/pci/devices/0000:01:00.0/class", "0x030200\n");
  write("sys/bus/pci/devices/0000:01:00.1/vendor", "0x10de\n");
  write("sys/bus/pci/devices/0000:01:00.1/class", "0x040300\n");  // Its audio.
  EXPECT_EQ(find("gpu").state, State::kLimited);
  EXPECT_EQ(find("gpu").figures["nvidia_gpus"], 1);
  EXPECT_THAT(find("gpu").remedy, HasSubstr("apt-get install"));
  write("proc/driver/nvidia/version", "NVRM version: 550.54\n");
  library_ = "libcuda.so.1";
  EXPECT_EQ(find("gpu").state, State::kGood);
  EXPECT_THAT(find("gpu").text, HasSubstr("NVRM version: 550.54"));
}

TEST_F(MachineTest, NamesTheCommandThatAddsMpi) {
  EXPECT_EQ(find("mpi").state, State::kMissing);
  EXPECT_THAT(find("mpi").remedy, HasSubstr("apt-get install openmpi-bin"));
  write("bin/mpirun", "");
  library_ = "libmpi.so.40";
  EXPECT_EQ(find("mpi").state, State::kGood);
  EXPECT_THAT(find("mpi").text, HasSubstr(root_.path("bin/mpirun")));
}

TEST_F(MachineTest, AddsUpNvmeDisks) {
  EXPECT_EQ(find("nvme").state, State::kMissing);
  write("sys/block/nvme0n1/size", "2097152\n");
  write("sys/block/sda/size", "1\n");
  EXPECT_EQ(find("nvme").figures["bytes"], std::size_t{1} << 30);
  EXPECT_EQ(find("nvme").state, State::kLimited);  // No liburing.
  library_ = "liburing.so.2";
  EXPECT_EQ(find("nvme").state, State::kGood);
}

TEST_F(MachineTest, SaysTheSameInWordsAndInJson) {
  const std::vector<Finding> findings = inspect(around_);
  const auto json = to_json(findings);
  ASSERT_EQ(json["findings"].size(), findings.size());
  EXPECT_EQ(json["findings"][1]["state"], "missing");
  const std::string text = to_text(findings);
  for (const Finding& finding : findings) {
    EXPECT_THAT(text, HasSubstr(finding.title));
    EXPECT_THAT(text, HasSubstr(finding.remedy));
  }
}

}  // namespace
}  // namespace ebb::cli
