// gossamer-memory whose memory outlives it (--region): what the next process goes on with.
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "common/bootstrap/membership.h"
#include "common/bootstrap/server_probe.h"
#include "common/bootstrap/test_support.h"
#include "common/fabric/open/open_port.h"
#include "common/random_id.h"
#include "common/testing/built_paths.h"
#include "common/testing/child_process.h"
#include "common/testing/fake_service_manager.h"
#include "proto/region.h"

namespace gossamer {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;
using Arguments = std::vector<std::string>;

class ProgramRegion : public ::testing::Test {
 protected:
  std::string region() const { return directory_.path() + "/region"; }
  std::string socket() const { return directory_.path() + "/notify"; }
  Arguments Command(const Arguments& more) const { return CommandWith(region(), more); }
  Arguments CommandWith(const std::string& region, const Arguments& more) const {
    Arguments arguments = {BuiltFile("bin/gossamer-memory"),
                           "--bootstrap=dir:" + directory_.path() + "/stores",
                           "--region=" + region};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  }
  std::unique_ptr<ChildProcess> Launch(const Arguments& more) const {
    return std::make_unique<ChildProcess>(Command(more));
  }
  std::unique_ptr<ChildProcess> LaunchAndWait(const Arguments& more) const {
    auto server = Launch(more);
    EXPECT_TRUE(server->WaitForOutput("gossamer-memory ready: store default server 0"))
        << server->standard_error();
    return server;
  }
  // As a process of the service that `manager` manages.
  std::unique_ptr<ChildProcess> LaunchBy(const FakeServiceManager& manager, const Arguments& more,
                                         const std::string& variable = "FDSTORE=1") const {
    std::vector<std::string> environment = manager.Environment();
    environment.push_back(variable);
    return std::make_unique<ChildProcess>(manager.Command(CommandWith("systemd", more)),
                                          environment);
  }
  std::unique_ptr<ChildProcess> LaunchByAndWait(const FakeServiceManager& manager,
                                                const Arguments& more) const {
    auto server = LaunchBy(manager, more);
    EXPECT_TRUE(server->WaitForOutput("gossamer-memory ready: store default server 0"))
        << server->standard_error();
    return server;
  }
  static void Kill(ChildProcess& server) {
    server.Signal(SIGKILL);
    EXPECT_EQ(server.Wait(), -SIGKILL);
  }
  Result<StoreRecord> Find() const {
    const auto bootstrap = OpenBootstrap("dir:" + directory_.path() + "/stores").value();
    FindOptions find;
    find.probe = FabricProbe();
    return FindStore(*bootstrap, find);
  }
  // Adds 1 to a word of the heap, as a client. Returns the word before.
  uint64_t Count() const {
    const StoreRecord record = Find().value();
    ComputePortOptions options;
    options.client_uuid = RandomId();
    const auto port = OpenComputePort(FabricKind::kShm, options).value();
    const Status connected = port->Connect(ServerId{0}, record.servers[0].address);
    EXPECT_TRUE(connected) << connected.error().ToString();
    const auto endpoint = port->NewEndpoint().value();
    const auto buffer = endpoint->buffers().Allocate(8).value();
    InlineBatch<1> batch(ServerId{0});
    batch.Add(Verb::FetchAdd(Space::kRegion, kHeapOffset, 1, buffer.address()));
    Completion completion{1, std::noop_coroutine()};
    batch.completion = &completion;
    endpoint->Post(batch);
    while (completion.remaining != 0) endpoint->Poll();
    EXPECT_EQ(batch.status(), VerbStatus::kSuccess);
    return batch.verbs()[0].old_value();
  }

  const TemporaryDirectory directory_;
};

// ---- Flags that are left out

TEST_F(ProgramRegion, TheSizesAreThoseOfTheFile) {
  auto server = LaunchAndWait({"--memory=8MiB", "--chunk_bytes=512KiB", "--node_bytes=512",
                               "--max_key_bytes=60", "--inline_value_bytes=0"});
  const std::string sizes = "chunks 512 KiB locks DRAM ";
  EXPECT_THAT(server->standard_output(), AllOf(HasSubstr("region 8.00 MiB"), HasSubstr(sizes)));
  EXPECT_EQ(Count(), 0u);
  Kill(*server);
  server = LaunchAndWait({"--lock_table_bytes=64KiB"});
  EXPECT_THAT(server->standard_output(),
              AllOf(HasSubstr("region 8.00 MiB"), HasSubstr(sizes + "64.0 KiB")));
  EXPECT_EQ(Count(), 1u);
  Kill(*server);
  // The sizes that are given agree with the file; it has the others.
  server = LaunchAndWait({"--memory=8MiB", "--node_bytes=512", "--chunk_bytes=256KiB"});
  EXPECT_THAT(server->standard_output(), HasSubstr("chunks 256 KiB"));
  EXPECT_EQ(Count(), 2u);
}

TEST_F(ProgramRegion, OtherSizesThanThoseOfTheFileAreRefused) {
  Kill(*LaunchAndWait({"--memory=8MiB", "--node_bytes=512"}));
  struct Refused {
    std::string flag;
    std::vector<std::string> both;
  };
  const std::vector<Refused> table = {
      {"--memory=4MiB", {"a region of 8388608 bytes", "--memory says 4194304"}},
      // The defaults, but given.
      {"--node_bytes=1024", {"created with --node_bytes=512", "started with --node_bytes=1024"}},
      {"--max_key_bytes=60", {"with --max_key_bytes=250", "with --max_key_bytes=60"}},
      {"--inline_value_bytes=8", {"with --inline_value_bytes=16", "with --inline_value_bytes=8"}}};
  for (const Refused& refused : table) {
    const auto server = Launch({refused.flag});
    EXPECT_EQ(server->Wait(), 1) << refused.flag;
    for (const std::string& value : refused.both) {
      EXPECT_THAT(server->standard_error(), HasSubstr(value));
    }
  }
  // The record is gone: the region has noted it.
  std::filesystem::remove_all(directory_.path() + "/stores");
  const auto server = Launch({"--node_bytes=1024"});
  EXPECT_EQ(server->Wait(), 1);
  EXPECT_THAT(server->standard_error(), HasSubstr("created with --node_bytes=512"));
  EXPECT_TRUE(LaunchAndWait({}));
}

TEST_F(ProgramRegion, WithoutAFileTheMemoryMustBeGiven) {
  const auto missing = Launch({});
  EXPECT_EQ(missing->Wait(), 2);
  EXPECT_THAT(missing->standard_error(), HasSubstr("--memory=SIZE is missing"));
  const auto server = LaunchAndWait({"--memory=4MiB"});
  const auto second = Launch({});
  EXPECT_EQ(second->Wait(), 1);
  EXPECT_THAT(second->standard_error(), HasSubstr("another memory server uses it"));
  Kill(*server);
  // It is to be replaced.
  const auto anew = Launch({"--create=new"});
  EXPECT_EQ(anew->Wait(), 2);
  EXPECT_THAT(anew->standard_error(), HasSubstr("--memory=SIZE is missing"));
}

// ---- What is checked

TEST_F(ProgramRegion, ItSaysWhatItHasChecked) {
  auto server = LaunchAndWait({"--memory=4MiB"});
  EXPECT_THAT(server->standard_error(), Not(HasSubstr("checking")));
  Kill(*server);
  server = LaunchAndWait({});
  while (server->standard_error().find("checked 1.00 KiB of nodes") == std::string::npos) {
    ASSERT_TRUE(server->Poll(100)) << server->standard_error();
  }
  EXPECT_THAT(server->standard_error(), HasSubstr("their values: no damage"));
  Kill(*server);
  // A byte of the root.
  std::fstream file(region(), std::ios::binary | std::ios::in | std::ios::out);
  file.seekp(kFirstLeafOffset + 12);
  file.put('x');
  file.close();
  server = LaunchAndWait({});
  const std::string damage =
      fmt::format("this region is damaged at offset {}: unit 0 of a leaf", kFirstLeafOffset);
  while (server->standard_error().find("1 part damaged") == std::string::npos) {
    ASSERT_TRUE(server->Poll(100)) << server->standard_error();
  }
  EXPECT_THAT(server->standard_error(), HasSubstr(damage));
}

// ---- With systemd

TEST_F(ProgramRegion, MemoryThatSystemdKeepsOutlivesTheProcess) {
  const FakeServiceManager manager(socket());
  auto server = LaunchByAndWait(manager, {"--memory=8MiB", "--node_bytes=512"});
  EXPECT_THAT(server->standard_output(), HasSubstr("pages, systemd)"));
  EXPECT_THAT(manager.kept(), ElementsAre("gossamer-region"));
  EXPECT_EQ(Count(), 0u);
  Kill(*server);
  EXPECT_THAT(Find().error().message, HasSubstr("start it again, with --region=systemd"));
  for (uint64_t returns = 1; returns <= 3; ++returns) {
    server = LaunchByAndWait(manager, {});
    EXPECT_THAT(server->standard_output(), HasSubstr("region 8.00 MiB"));
    EXPECT_EQ(Count(), returns);
    const auto second = LaunchBy(manager, {});
    EXPECT_EQ(second->Wait(), 1);
    EXPECT_THAT(second->standard_error(), HasSubstr("another memory server uses it"));
    if (returns == 2) {
      server->Signal(SIGTERM);
      EXPECT_EQ(server->Wait(), 0) << server->standard_error();
    } else {
      Kill(*server);
    }
  }
  EXPECT_THAT(manager.told(), Contains("FDSTORE=1\nFDNAME=gossamer-region").Times(1));
}

TEST_F(ProgramRegion, MemoryThatSystemdKeepsIsReplacedWhereThatIsWished) {
  const FakeServiceManager manager(socket());
  auto server = LaunchByAndWait(manager, {"--memory=8MiB"});
  EXPECT_EQ(Count(), 0u);
  Kill(*server);
  server = LaunchByAndWait(manager, {"--memory=4MiB", "--create=new", "--replace_store"});
  EXPECT_EQ(Count(), 0u);
  Kill(*server);
  EXPECT_THAT(manager.kept(), SizeIs(1));
  server = LaunchByAndWait(manager, {});
  EXPECT_THAT(server->standard_output(), HasSubstr("region 4.00 MiB"));
  EXPECT_EQ(Count(), 1u);
}

// Only somebody who knows the unit can say so.
TEST_F(ProgramRegion, MemoryThatSystemdHasLostIsNotReplacedByChance) {
  {
    const FakeServiceManager manager(socket());
    Kill(*LaunchByAndWait(manager, {"--memory=8MiB"}));
  }
  std::filesystem::remove(socket());
  const FakeServiceManager manager(socket());
  auto server = LaunchBy(manager, {"--memory=8MiB"});
  EXPECT_EQ(server->Wait(), 1);
  EXPECT_THAT(server->standard_error(),
              AllOf(HasSubstr("systemd has no memory of this service"),
                    HasSubstr("which has none of this service: if this is "
                              "the service of server 0, the store is "
                              "lost: --replace_store begins a new one")));
  EXPECT_THAT(manager.kept(), IsEmpty());
  EXPECT_TRUE(LaunchByAndWait(manager, {"--memory=8MiB", "--replace_store"}));
}

TEST_F(ProgramRegion, ASystemdThatKeepsNothingIsTold) {
  const FakeServiceManager manager(socket());
  const auto none = LaunchBy(manager, {"--memory=8MiB"}, "FDSTORE=0");
  EXPECT_EQ(none->Wait(), 1);
  EXPECT_THAT(none->standard_error(), HasSubstr("set FileDescriptorStoreMax=1 in its unit"));
  EXPECT_THAT(manager.kept(), IsEmpty());
  // Before version 254 it does not say, and here nobody can be asked.
  const auto unknown = LaunchBy(manager, {"--memory=8MiB"}, "PATH=" + directory_.path());
  EXPECT_TRUE(unknown->WaitForOutput("ready")) << unknown->standard_error();
  EXPECT_THAT(unknown->standard_error(), HasSubstr("without FileDescriptorStoreMax=1 in its unit"));
  for (const char* create : {"--create=auto", "--create=new"}) {
    ChildProcess alone(CommandWith("systemd", {"--memory=8MiB", create}), {"NOTIFY_SOCKET="});
    EXPECT_EQ(alone.Wait(), 1);
    EXPECT_THAT(alone.standard_error(),
                AllOf(HasSubstr("--region=systemd: systemd has not started this process"),
                      HasSubstr("FileDescriptorStoreMax=1"), HasSubstr("--region=PATH")));
  }
}

// ---- Memory

// The map of 2 GiB has 142 MiB. In the file it is no data of the process.
TEST_F(ProgramRegion, TheMapOfTheHeapCountsOnce) {
  Arguments arguments = {"sh", "-c", "ulimit -d 148480 && exec \"$0\" \"$@\""};
  for (const std::string& word :
       Command({"--memory=2GiB", "--notouch", "--chunk_bytes=32MiB", "--create=new"})) {
    arguments.push_back(word);
  }
  ChildProcess server(arguments);
  EXPECT_TRUE(server.WaitForOutput("gossamer-memory ready")) << server.standard_error();
}

}  // namespace
}  // namespace gossamer
