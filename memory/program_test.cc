// Runs gossamer-memory as users do: processes, signals, exit codes, messages.
#include <fcntl.h>
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <set>
#include <thread>

#include "common/bootstrap/membership.h"
#include "common/bootstrap/server_probe.h"
#include "common/bootstrap/test_support.h"
#include "common/fabric/open/open_port.h"
#include "common/testing/built_paths.h"

namespace gossamer {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;
using Arguments = std::vector<std::string>;

std::string Program() { return BuiltFile("bin/gossamer-memory"); }

class ProgramTest : public BothBootstraps {
 protected:
  std::unique_ptr<ChildProcess> Launch(const Arguments& more = {}) const {
    Arguments arguments = {Program(), "--memory=4MiB", "--store=s", "--bootstrap=" + url_};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return std::make_unique<ChildProcess>(arguments);
  }
  std::unique_ptr<ChildProcess> LaunchAndWait(const Arguments& more = {}) const {
    auto server = Launch(more);
    EXPECT_TRUE(server->WaitForOutput("gossamer-memory ready: store s server"))
        << server->standard_error();
    return server;
  }
  // Does not wait for a lost record to come back.
  std::unique_ptr<ChildProcess> LaunchFirst() const { return LaunchAndWait({"--create=new"}); }
  Result<StoreRecord> Find(LivenessProbe probe = nullptr) const {
    FindOptions options;
    options.store = "s";
    options.probe = std::move(probe);
    return FindStore(*bootstrap_, options);
  }
  // Waits, as long as the test may last, until the record is back.
  StoreRecord FindAgain() const {
    FindOptions options;
    options.store = "s";
    options.patience = std::chrono::minutes(1);
    const auto record = FindStore(*bootstrap_, options);
    EXPECT_TRUE(record) << record.error().ToString();
    return record ? record.value() : StoreRecord{};
  }
  // Stops `server`, but not in the middle of a change of the directory, where it keeps other
  // processes out.
  void Stop(ChildProcess& server) const {
    for (;;) {
      server.Signal(SIGSTOP);
      siginfo_t stopped{};
      ASSERT_EQ(waitid(P_PID, static_cast<id_t>(server.pid()), &stopped, WSTOPPED), 0);
      if (!IsBeingChanged()) return;
      server.Signal(SIGCONT);
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  bool IsBeingChanged() const {
    const int lock = open((directory_.path() + "/s.lock").c_str(), O_RDWR | O_CLOEXEC);
    if (lock < 0) return false;
    const bool is_free = flock(lock, LOCK_EX | LOCK_NB) == 0;
    close(lock);
    return !is_free;
  }
  void LoseRecord() const {
    if (memcached_ != nullptr) {
      ASSERT_TRUE(memcached_->FlushAll());
    } else {
      ASSERT_TRUE(std::filesystem::remove(directory_.path() + "/s.store"));
    }
  }
};
INSTANTIATE_TEST_SUITE_P(All, ProgramTest, ::testing::Values("dir", "memcached"),
                         [](const auto& kind) { return kind.param; });

TEST_P(ProgramTest, LivesFromReadyToSigterm) {
  const auto server = LaunchFirst();
  EXPECT_THAT(
      server->standard_output(),
      ContainsRegex(
          "^gossamer-memory ready: store s server 0 fabric shm address [^ ]+ region 4.00 MiB "
          "\\(.*\\) chunks 256 KiB locks DRAM 256 KiB\n$"));
  const auto found = Find(FabricProbe());
  ASSERT_TRUE(found) << found.error().ToString();
  server->Signal(SIGTERM);
  EXPECT_EQ(server->Wait(), 0) << server->standard_error();
  EXPECT_EQ(Find().error().code, Code::kNotFound);
  EXPECT_FALSE(std::filesystem::exists(found.value().servers[0].address));
}

// In a directory that other rounds have used, and in none at all: whether servers may live there is
// judged differently.
TEST_P(ProgramTest, ServersThatRaceMakeOneStore) {
  constexpr size_t kServers = 4;
  const int rounds = memcached_ == nullptr ? 8 : 2;  // each round with memcached waits 3 s
  for (int round = 0; round < rounds; ++round) {
    SCOPED_TRACE(round);
    if (memcached_ == nullptr && round % 2 == 1) std::filesystem::remove_all(directory_.path());
    std::vector<std::unique_ptr<ChildProcess>> servers;
    servers.reserve(kServers);
    for (size_t i = 0; i < kServers; ++i) servers.push_back(Launch());
    for (const auto& server : servers) {
      ASSERT_TRUE(server->WaitForOutput("ready: store s server")) << server->standard_error();
    }
    const auto record = Find(FabricProbe());
    ASSERT_TRUE(record) << record.error().ToString();
    EXPECT_EQ(record.value().servers.size(), kServers);
    EXPECT_EQ(record.value().next_server, kServers);
    for (const auto& server : servers) server->Signal(SIGINT);
    for (const auto& server : servers) EXPECT_EQ(server->Wait(), 0) << server->standard_error();
    EXPECT_EQ(Find().error().code, Code::kNotFound);
  }
}

// What it keeps should not go with a terminal.
TEST_P(ProgramTest, AHangupChangesNothing) {
  const auto server = LaunchFirst();
  server->Signal(SIGHUP);
  EXPECT_TRUE(Find(FabricProbe()));
  server->Signal(SIGTERM);
  EXPECT_EQ(server->Wait(), 0) << server->standard_error();
}

TEST_P(ProgramTest, KilledServerIsRecognisedAndReplaced) {
  auto server = LaunchFirst();
  const auto before = Find().value();
  server->Signal(SIGKILL);
  EXPECT_EQ(server->Wait(), -SIGKILL);
  const auto found = Find(FabricProbe());
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().code, Code::kNodeUnreachable);
  EXPECT_THAT(found.error().message,
              AllOf(HasSubstr("server 0"), HasSubstr("is dead"), HasSubstr("creates it anew")));

  server = LaunchAndWait();
  const auto after = Find(FabricProbe());
  ASSERT_TRUE(after) << after.error().ToString();
  EXPECT_NE(after.value().store_id, before.store_id);
  server->Signal(SIGTERM);
  EXPECT_EQ(server->Wait(), 0);
  EXPECT_THAT(server->standard_error(), HasSubstr("is lost with its server 0"));
}

TEST_P(ProgramTest, StoppedServerIsNotReplaced) {
  const auto server = LaunchFirst();
  Stop(*server);
  const auto second = Launch();
  EXPECT_EQ(second->Wait(), 1);
  EXPECT_THAT(second->standard_error(),
              AllOf(HasSubstr(fmt::format("lives as process {} on this host", server->pid())),
                    Not(HasSubstr("--replace_store"))));
  server->Signal(SIGCONT);
  EXPECT_TRUE(Find(FabricProbe()));
}

// memcached was flushed or a file was removed, but the store lives. A second, empty store would
// contradict the first.
TEST_P(ProgramTest, LostRecordMakesNoSecondStore) {
  const auto first = LaunchFirst();
  const auto second = LaunchAndWait();
  const StoreRecord before = Find().value();
  LoseRecord();
  const auto third = LaunchAndWait();
  EXPECT_THAT(third->standard_output(), HasSubstr("store s server 2 "));
  StoreRecord after = FindAgain();
  EXPECT_EQ(after.store_id, before.store_id);
  ASSERT_EQ(after.servers.size(), 3u);
  after.servers.pop_back();
  EXPECT_EQ(after.servers, before.servers);
  EXPECT_TRUE(Find(FabricProbe()));
}

TEST_P(ProgramTest, RecordOfDeadServersStaysLost) {
  auto first = LaunchFirst();
  auto second = LaunchAndWait();
  const StoreRecord before = Find().value();
  for (const auto& server : {first.get(), second.get()}) {
    server->Signal(SIGKILL);
    EXPECT_EQ(server->Wait(), -SIGKILL);
  }
  LoseRecord();
  const auto anew = LaunchAndWait();
  EXPECT_THAT(anew->standard_output(), HasSubstr("store s server 0 "));
  EXPECT_NE(Find(FabricProbe()).value().store_id, before.store_id);
}

TEST_P(ProgramTest, TwoStoresOfOneNameAreToldOf) {
  const auto old = LaunchFirst();
  const StoreRecord before = Find().value();
  Stop(*old);  // It cannot put its record back.
  LoseRecord();
  const auto other = LaunchAndWait({"--create=new"});
  EXPECT_NE(Find().value().store_id, before.store_id);
  old->Signal(SIGCONT);
  while (old->standard_error().find("Two stores have one name") == std::string::npos) {
    ASSERT_TRUE(old->Poll(100)) << old->standard_error();
  }
  EXPECT_NE(Find().value().store_id, before.store_id) << "the store that lives was overwritten";
  other->Signal(SIGTERM);
  EXPECT_EQ(other->Wait(), 0) << other->standard_error();
  EXPECT_EQ(FindAgain().store_id, before.store_id);
}

TEST_P(ProgramTest, PeopleDecideWhatIsCreated) {
  const auto server = LaunchFirst();
  const auto second = Launch({"--create=new"});
  EXPECT_EQ(second->Wait(), 1);
  EXPECT_THAT(second->standard_error(),
              AllOf(HasSubstr("lives, with server 0"), HasSubstr("leave out --create=new")));
  const auto third = LaunchAndWait({"--create=join"});
  EXPECT_THAT(third->standard_output(), HasSubstr("store s server 1 "));
}

TEST_P(ProgramTest, DisagreementNamesTheFlag) {
  const auto server = LaunchFirst();
  const auto second = Launch({"--max_key_bytes=8"});
  EXPECT_EQ(second->Wait(), 1);
  EXPECT_THAT(second->standard_error(), AllOf(HasSubstr("created with --max_key_bytes=250"),
                                              HasSubstr("started with --max_key_bytes=8")));
}

TEST(ProgramFabric, AMachineWithoutRdmaIsTold) {
  std::error_code none;
  if (!std::filesystem::is_empty("/sys/class/infiniband", none) && !none) {
    GTEST_SKIP() << "this machine has an RDMA device";
  }
  ChildProcess server({Program(), "--memory=4MiB", "--fabric=verbs", "--listen=127.0.0.1:7000"});
  EXPECT_EQ(server.Wait(), 1);
  EXPECT_THAT(server.standard_error(),
              AllOf(HasSubstr("no RDMA device on this machine"), HasSubstr("--fabric=shm")));
}

TEST(ProgramBootstrap, MemcachedThatDiedIsTold) {
  MemcachedProcess memcached;
  ASSERT_TRUE(memcached.running());
  ChildProcess server(
      {Program(), "--memory=4MiB", "--create=new", "--bootstrap=" + memcached.url()});
  ASSERT_TRUE(server.WaitForOutput("ready")) << server.standard_error();
  memcached.Kill();
  ChildProcess second({Program(), "--memory=4MiB", "--bootstrap=" + memcached.url()});
  EXPECT_EQ(second.Wait(), 1);
  EXPECT_THAT(second.standard_error(),
              ContainsRegex("memcached at host 127.0.0.1 port [0-9]+ does not answer"));
  server.Signal(SIGTERM);
  EXPECT_EQ(server.Wait(), 1);
  EXPECT_THAT(server.standard_error(), HasSubstr("cannot leave the store"));
}

TEST(ProgramBootstrap, MemcachedThatWasRestartedLearnsTheStoreAgain) {
  MemcachedProcess memcached;
  ASSERT_TRUE(memcached.running());
  const Arguments start = {Program(), "--memory=4MiB", "--bootstrap=" + memcached.url()};
  Arguments start_first = start;
  start_first.emplace_back("--create=new");
  ChildProcess server(start_first);
  ASSERT_TRUE(server.WaitForOutput("ready")) << server.standard_error();
  memcached.Restart();
  ASSERT_TRUE(memcached.running());
  ChildProcess second(start);
  EXPECT_TRUE(second.WaitForOutput("ready: store default server 1")) << second.standard_error();
  // On a slow machine the first one has put it back before the second one looks.
  EXPECT_THAT(second.standard_error(), AnyOf(HasSubstr("servers that live put a lost one back"),
                                             HasSubstr("was lost and put back")));
  server.Poll(0);
  EXPECT_THAT(server.standard_error(), HasSubstr("was gone although this store lives: put back"));
}

// Removing the directory also removed the evidence that a server lives. One server that starts
// then, and two together.
TEST(ProgramBootstrap, DirectoryThatWasRemovedComesBack) {
  for (const size_t count : {1, 2}) {
    const TemporaryDirectory directory;
    const std::string path = directory.path() + "/stores";
    const Arguments start = {Program(), "--memory=4MiB", "--bootstrap=dir:" + path};
    ChildProcess server(start);
    ASSERT_TRUE(server.WaitForOutput("ready")) << server.standard_error();
    // An atomic rename: the server may be writing into the directory.
    std::filesystem::rename(path, directory.path() + "/gone");
    std::vector<std::unique_ptr<ChildProcess>> joining(count);
    for (auto& each : joining) each = std::make_unique<ChildProcess>(start);
    std::set<std::string> said;
    for (const auto& each : joining) {
      ASSERT_TRUE(each->WaitForOutput("ready: store default server")) << each->standard_error();
      said.insert(each->standard_output());
    }
    ASSERT_EQ(said.size(), count);
    for (size_t id = 1; const std::string& line : said) {
      EXPECT_THAT(line, HasSubstr("server " + std::to_string(id++) + " ")) << "a second store";
    }
  }
}

TEST(ProgramReady, IsToldToDescriptorAndServiceManager) {
  const TemporaryDirectory directory;
  const std::string path = directory.path() + "/notify";
  const int manager = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  ASSERT_EQ(bind(manager, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  // The descriptor is standard output, so that the order of both lines is visible.
  ChildProcess server(
      {Program(), "--memory=4MiB", "--bootstrap=dir:" + directory.path(), "--ready_fd=1"},
      {"NOTIFY_SOCKET=" + path});
  ASSERT_TRUE(server.WaitForOutput("\nREADY\n")) << server.standard_error();
  char state[64] = {};
  ASSERT_GT(recv(manager, state, sizeof state - 1, 0), 0);
  EXPECT_STREQ(state, "READY=1");
  server.Signal(SIGTERM);
  EXPECT_EQ(server.Wait(), 0);
  close(manager);
}

TEST(ProgramListen, AddressInUseIsTold) {
  const TemporaryDirectory directory;
  const std::string listen = "--listen=" + directory.path() + "/socket";
  const std::string bootstrap = "--bootstrap=dir:" + directory.path();
  ChildProcess server({Program(), "--memory=4MiB", bootstrap, listen});
  ASSERT_TRUE(server.WaitForOutput("ready")) << server.standard_error();
  ChildProcess second({Program(), "--memory=4MiB", bootstrap, listen});
  EXPECT_EQ(second.Wait(), 1);
  EXPECT_THAT(second.standard_error(), HasSubstr("give another address"));
}

// The record names the socket. A relative path would lead nowhere from another directory, and the
// next server would advise replacing the living store.
TEST(ProgramListen, RelativePathIsFoundFromAnotherDirectory) {
  const TemporaryDirectory directory;
  const std::string bootstrap = "--bootstrap=dir:" + directory.path();
  const auto in = [&](const std::string& folder, const std::string& more) {
    return Arguments{"env", "--chdir=" + folder, Program(), "--memory=4MiB", bootstrap, more};
  };
  ChildProcess server(in(directory.path(), "--listen=a.sock"));
  ASSERT_TRUE(server.WaitForOutput("address " + directory.path() + "/a.sock"))
      << server.standard_error();
  ChildProcess second(in("/", "--listen=" + directory.path() + "/b.sock"));
  EXPECT_TRUE(second.WaitForOutput("ready: store default server 1")) << second.standard_error();
}

// The server process lacks file descriptors. Each limit is reached at another step of making a
// connection.
TEST(ProgramListen, AServerWithoutFileDescriptorsIsTold) {
  const TemporaryDirectory directory;
  for (const char* limit : {"24", "25", "26"}) {
    const std::string path = directory.path() + "/" + limit;
    ChildProcess server({"sh", "-c", "ulimit -n \"$0\" && exec \"$@\"", limit, Program(),
                         "--memory=4MiB", "--bootstrap=dir:" + directory.path(),
                         "--store=s" + std::string(limit), "--listen=" + path});
    ASSERT_TRUE(server.WaitForOutput("ready")) << server.standard_error();
    ComputePortOptions options;
    options.client_uuid = 5;
    const auto port = OpenComputePort(FabricKind::kShm, options).value();
    ASSERT_TRUE(port->Connect(ServerId{0}, path));
    std::vector<std::unique_ptr<Endpoint>> endpoints;
    Status attached = Ok();
    while (attached && endpoints.size() < 30) {
      endpoints.push_back(port->NewEndpoint().value());
      attached = endpoints.back()->Attach(ServerId{0});
    }
    ASSERT_FALSE(attached) << limit;
    EXPECT_EQ(attached.error().code, Code::kNodeUnreachable) << limit;
    EXPECT_THAT(attached.error().message,
                HasSubstr("the memory server has no file descriptor left (ulimit -n is " +
                          std::string(limit) + ")"));
    endpoints.clear();
    // The server learns only later that these endpoints are gone.
    const auto endpoint = port->NewEndpoint().value();
    for (int i = 0; !(attached = endpoint->Attach(ServerId{0})) && i < 1000; ++i) usleep(10'000);
    EXPECT_TRUE(attached) << attached.error().ToString();
    server.Signal(SIGTERM);
    EXPECT_EQ(server.Wait(), 0) << server.standard_error();
  }
}

struct BadFlags {
  Arguments flags;
  int exit_status;
  std::string sentence;
};

TEST(ProgramFlags, EachMistakeIsOneSentence) {
  const TemporaryDirectory directory;
  const std::string file = directory.path() + "/flags";
  std::ofstream(file) << "# a comment\n\n--memory=4MiB\n--stroe=x\n";
  const std::vector<BadFlags> table = {
      {{}, 2, "--memory=SIZE is missing"},
      {{"--memroy=1GiB"}, 2, "no flag --memroy; did you mean --memory"},
      {{"--frobnicate"}, 2, "no flag --frobnicate \\(see gossamer-memory --help\\)"},
      {{"--v", "--memory=x"}, 2, "--v=--memory=x does not fit; give a whole number"},
      {{"--memory"}, 2, "--memory needs a value"},
      {{"--memory=lots"}, 2, "--memory: 'lots' is not a size: write 4096, 64MiB"},
      {{"--memory=0"}, 2, "--memory: 0 is too little"},
      {{"--memory=16KiB"}, 2, "--memory=16384: too little for one chunk of 256 KiB"},
      {{"--memory=1"}, 2, "--memory=1: too little for one chunk of 256 KiB"},
      {{"--memory=4MiB", "--device=mlx5_0"},
       2,
       "--device=mlx5_0: only --fabric=verbs has a device"},
      {{"--memory=4MiB", "--gid_index=3"}, 2, "--gid_index=3: only --fabric=verbs has a device"},
      {{"--memory=4MiB", "--on_chip_locks=require"},
       2,
       "--on_chip_locks=require: only --fabric=verbs has a device"},
      {{"--memory=4MiB", "--on_chip_locks=yes"},
       2,
       "--on_chip_locks=yes: give auto, require or no"},
      {{"--memory=4MiB", "--fabric=verbs", "--path_mtu=1500"}, 2, "--path_mtu=1500: give 256"},
      {{"--memory=4MiB", "--connection_timeout_ms=0"}, 2, "--connection_timeout_ms=0: give 1 to"},
      {{"--memory=4MiB", "--chunk_bytes=300KiB"}, 2, "--chunk_bytes=307200: give a power of two"},
      {{"--memory=4MiB", "--lock_table_bytes=100"},
       2,
       "--lock_table_bytes=100: give a power of two"},
      {{"--memory=4MiB", "--node_bytes=1000"}, 2, "--node_bytes=1000: give a power of two"},
      {{"--memory=4MiB", "--node_bytes=-1"},
       2,
       "--node_bytes=-1 does not fit; give a whole number from 0"},
      {{"--memory=4MiB", "--max_key_bytes=251"}, 2, "--max_key_bytes=251: give 1 to 250"},
      {{"--memory=4MiB", "--max_key_bytes=65544"}, 2, "--max_key_bytes=65544: give 1 to 250"},
      {{"--memory=4MiB", "--inline_value_bytes=65"}, 2, "--inline_value_bytes=65: give 0 to 64"},
      {{"--memory=4MiB", "--fabric=tcp"}, 2, "fabric 'tcp': give --fabric=shm or --fabric=verbs"},
      {{"--memory=4MiB", "--fabric=verbs"}, 2, "--fabric=verbs needs --listen=ADDRESS:PORT"},
      {{"--memory=4MiB", "--listen=127.0.0.1:5000"},
       2,
       "--listen=127.0.0.1:5000: --fabric=shm listens at the path of a Unix socket"},
      {{"--memory=4MiB", "--create=never"}, 2, "--create=never: give auto, new or join"},
      {{"--memory=4MiB", "--store=a/b"}, 2, "store name 'a/b'"},
      {{"--memory=4MiB", "--bootstrap=http://x"}, 2, "bootstrap 'http://x' is of no known kind"},
      {{"--memory=4MiB", "--huge_pages=perhaps"},
       2,
       "--huge_pages=perhaps does not fit; give true or false"},
      {{"--memory=4MiB", "more"}, 2, "'more' is no flag"},
      {{"--flagfile=" + file}, 2, "flags line 4: there is no flag --stroe; did you mean --store"},
      {{"--flagfile=/nowhere/at/all"}, 2, "cannot read the flag file /nowhere/at/all"},
      {{"--memory=7TiB"},
       1,
       "7.00 TiB of memory are more than the .* that this machine has available"},
      {{"--memory=4MiB", "--ready_fd=99"}, 2, "cannot write to --ready_fd=99"},
      {{"--memory=4MiB", "--listen=/nowhere/at/all"}, 1, "/nowhere/at/all"},
      {{"--memory=4MiB", "--bootstrap=dir:/proc/nowhere"},
       1,
       "cannot make the bootstrap directory"},
      {{"--memory=4MiB", "--fabric=verbs", "--listen=127.0.0.1:0"}, 1, "RDMA"},
  };
  for (const BadFlags& bad : table) {
    Arguments arguments = {Program(), "--bootstrap=dir:" + directory.path()};
    arguments.insert(arguments.end(), bad.flags.begin(), bad.flags.end());
    ChildProcess server(arguments);
    EXPECT_EQ(server.Wait(), bad.exit_status) << bad.sentence;
    // Behind the progress that a slow machine shows.
    EXPECT_THAT(server.standard_error(), ContainsRegex("(^|\n)gossamer-memory: .*" + bad.sentence))
        << bad.sentence;
  }
}

TEST(ProgramFlags, FlagFileAndSwitches) {
  const TemporaryDirectory directory;
  const std::string file = directory.path() + "/flags";
  std::ofstream(file)
      << "# of the tests\n--memory=4MiB\n  --nohuge_pages\n--store=filed\n--bootstrap=dir:"
      << directory.path() << "\n";
  ChildProcess server({Program(), "--flagfile", file, "-chunk_bytes", "512KiB"});
  ASSERT_TRUE(server.WaitForOutput("\n")) << server.standard_error();
  EXPECT_THAT(server.standard_output(), AllOf(HasSubstr("store filed"), HasSubstr("chunks 512 KiB"),
                                              HasSubstr("(4 KB pages)")));
}

TEST(ProgramFlags, HelpIsShortAndItsOwn) {
  ChildProcess help({Program(), "--help"});
  EXPECT_EQ(help.Wait(), 0);
  EXPECT_THAT(help.standard_output(),
              AllOf(HasSubstr("Usage: gossamer-memory --memory=SIZE"),
                    HasSubstr("--max_key_bytes=250"), HasSubstr("--[no]huge_pages")));
  EXPECT_THAT(help.standard_output(), ::testing::Not(HasSubstr("minloglevel")));
  ChildProcess version({Program(), "--version"});
  EXPECT_EQ(version.Wait(), 0);
  EXPECT_THAT(version.standard_output(), ContainsRegex("^gossamer-memory [0-9]+\\.[0-9]+"));
}

}  // namespace
}  // namespace gossamer
