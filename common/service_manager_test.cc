#include "common/service_manager.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "common/bootstrap/test_support.h"
#include "common/testing/fake_service_manager.h"

namespace gossamer {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Sets variables of the environment, and puts back what was there.
class ServiceManager : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const char* name :
         {"NOTIFY_SOCKET", "LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES", "FDSTORE", "PATH"}) {
      const char* const value = std::getenv(name);
      before_.emplace_back(name,
                           value == nullptr ? std::nullopt : std::optional<std::string>(value));
      if (before_.back().first != "PATH") ::unsetenv(name);
    }
  }
  void TearDown() override {
    for (const auto& [name, value] : before_) {
      if (value) {
        ::setenv(name.c_str(), value->c_str(), 1);
      } else {
        ::unsetenv(name.c_str());
      }
    }
  }
  static void Set(const char* name, const std::string& value) { ::setenv(name, value.c_str(), 1); }
  std::string socket() const { return directory_.path() + "/notify"; }
  void BeInGroup(const std::string& lines) const {
    std::filesystem::create_directories(directory_.path() + "/proc/self");
    std::ofstream(directory_.path() + "/proc/self/cgroup") << lines;
  }
  // A systemctl that says `line` and notes its arguments.
  void HaveSystemctl(const std::string& line) const {
    const std::string bin = directory_.path() + "/bin";
    std::filesystem::create_directories(bin);
    std::ofstream(bin + "/systemctl") << "#!/bin/sh\nfor word in \"$@\"; do echo \"$word\"; done >"
                                      << directory_.path() << "/asked\n"
                                      << line << "\n";
    ::chmod((bin + "/systemctl").c_str(), 0700);
    Set("PATH", bin);
  }
  std::string Asked() const {
    std::ifstream file(directory_.path() + "/asked");
    return {std::istreambuf_iterator<char>(file), {}};
  }

  const TemporaryDirectory directory_;

 private:
  std::vector<std::pair<std::string, std::optional<std::string>>> before_;
};

TEST_F(ServiceManager, WithoutOneNothingIsTold) {
  EXPECT_FALSE(HasServiceManager());
  const Status told = TellServiceManager("READY=1");
  ASSERT_FALSE(told);
  EXPECT_EQ(told.error().message, "cannot tell the service manager READY=1: there is none");
  EXPECT_FALSE(AwaitServiceManager(std::chrono::milliseconds(1)));
  EXPECT_FALSE(KeptDescriptor("x"));
}

TEST_F(ServiceManager, GetsDescriptorsInOrder) {
  FakeServiceManager manager(socket());
  Set("NOTIFY_SOCKET", socket());
  const UniqueFd file(::open("/dev/null", O_RDWR | O_CLOEXEC));
  ASSERT_TRUE(TellServiceManager("FDSTORE=1\nFDNAME=a", file.get()));
  ASSERT_TRUE(TellServiceManager("FDSTORE=1\nFDNAME=b", file.get()));
  ASSERT_TRUE(TellServiceManager("FDSTOREREMOVE=1\nFDNAME=a"));
  ASSERT_TRUE(AwaitServiceManager(std::chrono::minutes(1)));
  EXPECT_THAT(manager.kept(), ElementsAre("b"));
  EXPECT_EQ(manager.told().size(), 3u);
}

TEST_F(ServiceManager, OneThatDoesNotAnswerIsTold) {
  FakeServiceManager manager(socket());
  manager.Pause(true);
  Set("NOTIFY_SOCKET", socket());
  const Status answered = AwaitServiceManager(std::chrono::milliseconds(20));
  ASSERT_FALSE(answered);
  EXPECT_THAT(answered.error().message, HasSubstr("has not answered within 20 ms"));
  manager.Pause(false);
  EXPECT_TRUE(AwaitServiceManager(std::chrono::minutes(1)));
  Set("NOTIFY_SOCKET", directory_.path() + "/none");
  EXPECT_THAT(TellServiceManager("READY=1").error().message, HasSubstr("No such file"));
  Set("NOTIFY_SOCKET", std::string(200, 'x'));
  EXPECT_THAT(TellServiceManager("READY=1").error().message, HasSubstr("too long"));
}

TEST_F(ServiceManager, WhatItKeptIsFoundByName) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
  const UniqueFd reads(ends[0]);
  const UniqueFd writes(ends[1]);
  const int first = ::dup(3);  // what this test has there
  ASSERT_EQ(::dup2(reads.get(), 3), 3);
  const int second = ::dup(4);
  ASSERT_EQ(::dup2(writes.get(), 4), 4);
  Set("LISTEN_FDS", "2");
  Set("LISTEN_FDNAMES", "in:out");
  EXPECT_FALSE(KeptDescriptor("out")) << "they may be another process's";
  Set("LISTEN_PID", std::to_string(::getpid() + 1));
  EXPECT_FALSE(KeptDescriptor("out"));
  Set("LISTEN_PID", std::to_string(::getpid()));
  EXPECT_FALSE(KeptDescriptor("ou"));
  EXPECT_FALSE(KeptDescriptor("more"));
  {
    const UniqueFd out = KeptDescriptor("out");
    ASSERT_TRUE(out);
    EXPECT_EQ(::write(out.get(), "x", 1), 1);
  }
  char byte = 0;
  EXPECT_EQ(::read(KeptDescriptor("in").get(), &byte, 1), 1) << "it can be asked for again";
  EXPECT_EQ(byte, 'x');
  ::dup2(first, 3);
  ::dup2(second, 4);
  ::close(first);
  ::close(second);
}

TEST_F(ServiceManager, SaysHowMuchItKeeps) {
  HaveSystemctl("echo 7");
  Set("FDSTORE", "2");
  BeInGroup("0::/system.slice/x.service\n");
  EXPECT_EQ(MostKeptDescriptors(directory_.path()), 2u);
  Set("FDSTORE", "0");
  EXPECT_EQ(MostKeptDescriptors(directory_.path()), 0u);
  EXPECT_THAT(Asked(), IsEmpty()) << "it has said so itself";

  ::unsetenv("FDSTORE");
  const std::string question = "show\n--property=FileDescriptorStoreMax\n--value\n";
  for (const auto& [group, unit] : std::vector<std::pair<std::string, std::string>>{
           {"4:memory:/a.service\n0::/system.slice/system-x\\x2dy.slice/x\\x2dy@0.service\n",
            "x\\x2dy@0.service\n"},
           {"1:name=systemd:/system.slice/x.service/part\n", "x.service\n"},
           {"0::/user.slice/user-7.slice/user@7.service/app.slice/y.service\n",
            "--user\ny.service\n"}}) {
    BeInGroup(group);
    EXPECT_EQ(MostKeptDescriptors(directory_.path()), 7u) << group;
    EXPECT_EQ(Asked(), question + unit);
  }
  HaveSystemctl("echo 0");
  EXPECT_EQ(MostKeptDescriptors(directory_.path()), 0u);
}

TEST_F(ServiceManager, NobodyMayKnowHowMuchItKeeps) {
  HaveSystemctl("echo; exit 1");
  BeInGroup("0::/system.slice/x.service\n");
  EXPECT_EQ(MostKeptDescriptors(directory_.path()), std::nullopt);
  EXPECT_NE(Asked(), "");
  std::filesystem::remove(directory_.path() + "/asked");
  for (const char* group : {"", "nonsense", "0::/\n", "0::/user.slice/session-1.scope\n",
                            "4:memory:/x.service\n", "0::/$(reboot)'.service\n"}) {
    BeInGroup(group);
    EXPECT_EQ(MostKeptDescriptors(directory_.path()), std::nullopt) << group;
    EXPECT_THAT(Asked(), IsEmpty()) << group;
  }
  BeInGroup("0::/x.service\n");
  std::filesystem::remove(directory_.path() + "/bin/systemctl");
  EXPECT_EQ(MostKeptDescriptors(directory_.path()), std::nullopt);
}

}  // namespace
}  // namespace gossamer
