// gossamer-memory with too little memory: it reports that before it is ready, and is not killed
// later.
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>

#include "common/bootstrap/test_support.h"
#include "common/testing/built_paths.h"
#include "common/testing/child_process.h"

namespace gossamer {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using Arguments = std::vector<std::string>;

constexpr uint64_t kMiB = uint64_t{1} << 20;

class ProgramMemory : public ::testing::Test {
 protected:
  // A server started by a shell after `preparation`.
  std::unique_ptr<ChildProcess> LaunchAfter(const std::string& preparation,
                                            const Arguments& more) const {
    Arguments arguments = {"sh", "-c", preparation + " && exec \"$0\" \"$@\"",
                           BuiltFile("bin/gossamer-memory"),
                           "--bootstrap=dir:" + directory_.path()};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return std::make_unique<ChildProcess>(arguments);
  }

 private:
  TemporaryDirectory directory_;
};

TEST_F(ProgramMemory, ALimitOfTheProcessIsTold) {
  const auto server = LaunchAfter("ulimit -f 4096", {"--memory=1GiB"});
  EXPECT_EQ(server->Wait(), 1);
  EXPECT_THAT(server->standard_error(), AllOf(HasSubstr("1.00 GiB of memory are more than"),
                                              HasSubstr("ulimit -f lets this process have")));
}

// A control group below that of this test, with a limit.
class ControlGroup {
 public:
  explicit ControlGroup(uint64_t limit_bytes) {
    std::ifstream groups("/proc/self/cgroup");
    for (std::string line; std::getline(groups, line) && directory_.empty();) {
      const std::string path = line.substr(line.rfind(':') + 1);
      if (line.starts_with("0::")) Make("/sys/fs/cgroup" + path, "memory.max", limit_bytes);
      if (line.find(":memory:") != std::string::npos) {
        Make("/sys/fs/cgroup/memory" + path, "memory.limit_in_bytes", limit_bytes);
      }
    }
  }
  ControlGroup(const ControlGroup&) = delete;
  ControlGroup& operator=(const ControlGroup&) = delete;
  ~ControlGroup() {
    std::error_code stays;
    if (!directory_.empty()) std::filesystem::remove(directory_, stays);
  }

  // Empty if no group can be created.
  const std::string& directory() const { return directory_; }

 private:
  void Make(const std::string& parent, const std::string& file, uint64_t limit_bytes) {
    const std::string directory = fmt::format("{}/gossamer-test-{}", parent, ::getpid());
    std::error_code error;
    if (!std::filesystem::create_directory(directory, error) || error) return;
    std::ofstream limit(directory + "/" + file);
    if (limit << limit_bytes << std::flush) {
      directory_ = directory;
    } else {
      std::filesystem::remove(directory, error);
    }
  }

  std::string directory_;
};

TEST_F(ProgramMemory, AControlGroupsLimitIsTold) {
  const ControlGroup group(400 * kMiB);
  if (group.directory().empty()) GTEST_SKIP() << "no control group with memory can be made here";
  const std::string enter = "echo $$ > " + group.directory() + "/cgroup.procs";
  const auto server = LaunchAfter(enter, {"--memory=1GiB"});
  EXPECT_EQ(server->Wait(), 1);
  EXPECT_THAT(server->standard_error(),
              AllOf(HasSubstr("1.00 GiB of memory are more than"),
                    HasSubstr("left of the 400 MiB which the control group"),
                    HasSubstr(group.directory())));
  const auto smaller = LaunchAfter(enter, {"--memory=128MiB"});
  EXPECT_TRUE(smaller->WaitForOutput("ready")) << smaller->standard_error();
  smaller->Signal(SIGTERM);
  EXPECT_EQ(smaller->Wait(), 0) << smaller->standard_error();
}

// A region that has its pages needs no others.
TEST_F(ProgramMemory, ARegionThatComesBackFitsTheLimitThatItFills) {
  const ControlGroup group(400 * kMiB);
  if (group.directory().empty()) GTEST_SKIP() << "no control group with memory can be made here";
  const std::string region = fmt::format("/dev/shm/gossamer-test-{}.region", ::getpid());
  const std::string enter = "echo $$ > " + group.directory() + "/cgroup.procs";
  for (const char* size : {"--memory=256MiB", "--create=auto"}) {
    const auto server = LaunchAfter(enter, {size, "--region=" + region});
    EXPECT_TRUE(server->WaitForOutput("region 256 MiB")) << server->standard_error();
    server->Signal(SIGKILL);
    EXPECT_EQ(server->Wait(), -SIGKILL);
  }
  std::filesystem::remove(region);
}

// Imitates a full disk: the log cannot be written.
TEST_F(ProgramMemory, AFullDiskForTheLogIsNoReasonToEnd) {
  const auto server = LaunchAfter("exec 2>/dev/full", {"--memory=4MiB"});
  ASSERT_TRUE(server->WaitForOutput("ready"));
  server->Signal(SIGTERM);
  EXPECT_EQ(server->Wait(), 0);
  const auto mute = LaunchAfter("exec 1>/dev/full", {"--memory=4MiB", "--ready_fd=2"});
  while (mute->standard_error().find("READY") == std::string::npos) {
    ASSERT_TRUE(mute->Poll(1000)) << mute->standard_error();
  }
  EXPECT_THAT(mute->standard_error(), HasSubstr("cannot write to standard output"));
  mute->Signal(SIGTERM);
  EXPECT_EQ(mute->Wait(), 0) << mute->standard_error();
}

}  // namespace
}  // namespace gossamer
