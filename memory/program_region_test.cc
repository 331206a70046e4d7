// gossamer-memory whose memory outlives it (--region): what the next process goes on with.
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "common/bootstrap/membership.h"
#include "common/bootstrap/test_support.h"
#include "common/fabric/open/open_port.h"
#include "common/random_id.h"
#include "common/testing/built_paths.h"
#include "common/testing/child_process.h"
#include "proto/region.h"

namespace gossamer {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using Arguments = std::vector<std::string>;

class ProgramRegion : public ::testing::Test {
 protected:
  std::string region() const { return directory_.path() + "/region"; }
  Arguments Command(const Arguments& more) const {
    Arguments arguments = {BuiltFile("bin/gossamer-memory"),
                           "--bootstrap=dir:" + directory_.path() + "/stores",
                           "--region=" + region()};
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
  static void Kill(ChildProcess& server) {
    server.Signal(SIGKILL);
    EXPECT_EQ(server.Wait(), -SIGKILL);
  }
  // Adds 1 to a word of the heap, as a client. Returns the word before.
  uint64_t Count() const {
    const auto bootstrap = OpenBootstrap("dir:" + directory_.path() + "/stores").value();
    FindOptions find;
    const StoreRecord record = FindStore(*bootstrap, find).value();
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
  // Sizes that are given, and those that are not, agree.
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
