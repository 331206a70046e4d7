#include "common/bootstrap/bootstrap.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <atomic>
#include <fstream>
#include <thread>

#include "common/bootstrap/membership.h"
#include "common/bootstrap/test_support.h"
#include "common/bootstrap/testing/memory_bootstrap.h"

namespace gossamer {
namespace {

using std::chrono::milliseconds;
using ::testing::AllOf;
using ::testing::HasSubstr;
using Text = std::optional<std::string>;

class BootstrapTest : public BothBootstraps {
 protected:
  Text Get(const std::string& store) { return bootstrap_->Get(store).value(); }
  bool Swap(const std::string& store, const Text& expected, const Text& desired) {
    const auto swapped = bootstrap_->CompareAndSwap(store, expected, desired);
    EXPECT_TRUE(swapped) << swapped.error().ToString();
    return swapped && swapped.value();
  }
};
INSTANTIATE_TEST_SUITE_P(All, BootstrapTest, ::testing::Values("dir", "memcached"),
                         [](const auto& kind) { return kind.param; });

TEST_P(BootstrapTest, SwapsOnlyWhatWasExpected) {
  EXPECT_EQ(Get("s"), std::nullopt);
  EXPECT_FALSE(Swap("s", "other", "new"));
  EXPECT_FALSE(Swap("s", "other", std::nullopt));
  EXPECT_TRUE(Swap("s", std::nullopt, "one"));
  EXPECT_FALSE(Swap("s", std::nullopt, "two"));
  EXPECT_EQ(Get("s"), "one");
  EXPECT_FALSE(Swap("s", "two", "three"));
  EXPECT_TRUE(Swap("s", "one", "two"));
  EXPECT_FALSE(Swap("s", "one", std::nullopt));
  EXPECT_EQ(Get("s"), "two");
  EXPECT_EQ(Get("t"), std::nullopt);
}

TEST_P(BootstrapTest, RemovedCanBeAddedAtOnce) {
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(Swap("s", std::nullopt, "one"));
    EXPECT_TRUE(Swap("s", "one", std::nullopt));
    EXPECT_EQ(Get("s"), std::nullopt);
  }
}

TEST_P(BootstrapTest, ANoteIsNoStore) {
  const std::string note = NoteName("bench", "s");
  EXPECT_TRUE(Swap(note, std::nullopt, "note"));
  EXPECT_EQ(Get("s"), std::nullopt);
  EXPECT_TRUE(Swap("s", std::nullopt, "record"));
  EXPECT_EQ(Get(note), "note");
  EXPECT_TRUE(Swap(NoteName(note, "1"), std::nullopt, "another"));
  EXPECT_TRUE(Swap(note, "note", std::nullopt));
  EXPECT_EQ(Get("s"), "record");
  EXPECT_EQ(Get(NoteName(note, "1")), "another");
  for (const char* wrong : {"+", "+s", "s+", "a++b", "a/b+c"}) {
    EXPECT_EQ(bootstrap_->Get(wrong).error().code, Code::kInvalidArgument) << wrong;
  }
  // What only stores have takes no note.
  EXPECT_EQ(bootstrap_->LockForJoin(note, milliseconds(0)).error().code, Code::kInvalidArgument);
  EXPECT_EQ(FindStore(*bootstrap_, {.store = note, .patience = milliseconds(0), .probe = {}})
                .error()
                .code,
            Code::kInvalidArgument);
}

TEST_P(BootstrapTest, KeepsAnyBytes) {
  std::string bytes("\0\r\nEND\r\n", 8);
  bytes += std::string(300'000, '\xff');
  EXPECT_TRUE(Swap("s", std::nullopt, bytes));
  EXPECT_EQ(Get("s"), bytes);
}

TEST_P(BootstrapTest, LongestName) {
  const std::string name(64, 'x');
  EXPECT_TRUE(Swap(name, std::nullopt, "text"));
  EXPECT_EQ(Get(name), "text");
}

TEST_P(BootstrapTest, RefusesNamesThatAreNone) {
  for (const std::string& name :
       {std::string(), std::string("a b"), std::string("../a"), std::string(65, 'x')}) {
    EXPECT_EQ(bootstrap_->Get(name).error().code, Code::kInvalidArgument);
    EXPECT_EQ(bootstrap_->CompareAndSwap(name, {}, "t").error().code, Code::kInvalidArgument);
    EXPECT_EQ(bootstrap_->LockForJoin(name, milliseconds(0)).error().code, Code::kInvalidArgument);
  }
}

// Every increment by a thread is one successful swap: none is lost.
TEST_P(BootstrapTest, ThreadsThatRaceLoseNothing) {
  constexpr int kThreads = 4;
  constexpr int kIncrements = 25;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([this] {
      const auto bootstrap = Open();
      for (int done = 0; done < kIncrements;) {
        const Text text = bootstrap->Get("counter").value();
        const int count = text ? std::stoi(*text) : 0;
        if (bootstrap->CompareAndSwap("counter", text, std::to_string(count + 1)).value()) ++done;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(Get("counter"), std::to_string(kThreads * kIncrements));
}

TEST_P(BootstrapTest, OneJoinsAtATime) {
  auto lock = bootstrap_->LockForJoin("s", milliseconds(0));
  ASSERT_TRUE(lock);
  EXPECT_TRUE(bootstrap_->LockForJoin("t", milliseconds(0)));
  const auto second = bootstrap_->LockForJoin("s", milliseconds(100));
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, Code::kContended);
  lock.value().reset();
  EXPECT_TRUE(bootstrap_->LockForJoin("s", milliseconds(0)));
}

TEST_P(BootstrapTest, JoinLockExcludesThreads) {
  std::atomic<int> inside{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      const auto bootstrap = Open();
      for (int round = 0; round < 3; ++round) {
        const auto lock = bootstrap->LockForJoin("s", std::chrono::seconds(30));
        ASSERT_TRUE(lock) << lock.error().ToString();
        EXPECT_EQ(inside.fetch_add(1), 0);
        inside.fetch_sub(1);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

using Call = MemoryBootstrap::Call;

TEST(FaultyBootstrap, LosesAndOverwrites) {
  MemoryBootstrap bootstrap;
  ASSERT_TRUE(bootstrap.CompareAndSwap("s", {}, "one").value());
  bootstrap.Overwrite("s", "two");
  EXPECT_FALSE(bootstrap.CompareAndSwap("s", "one", "three").value());
  EXPECT_EQ(bootstrap.Get("s").value(), "two");
  bootstrap.Lose("s");
  EXPECT_EQ(bootstrap.Get("s").value(), std::nullopt);
  EXPECT_EQ(bootstrap.calls(Call::kGet), 2u);
}

TEST(FaultyBootstrap, FlushFreesTheJoinLockForAnother) {
  MemoryBootstrap bootstrap;
  auto first = bootstrap.LockForJoin("s", milliseconds(0)).value();
  bootstrap.LoseAll();
  const auto second = bootstrap.LockForJoin("s", milliseconds(0));
  ASSERT_TRUE(second);
  first.reset();  // A lock from before the flush frees nothing.
  EXPECT_EQ(bootstrap.LockForJoin("s", milliseconds(0)).error().code, Code::kContended);
}

TEST(FaultyBootstrap, StaleReadsEnd) {
  MemoryBootstrap bootstrap;
  ASSERT_TRUE(bootstrap.CompareAndSwap("s", {}, "one").value());
  ASSERT_TRUE(bootstrap.CompareAndSwap("s", "one", "two").value());
  bootstrap.ServeStale("s", 1);
  EXPECT_EQ(bootstrap.Get("s").value(), "one");
  EXPECT_EQ(bootstrap.Get("s").value(), "two");
}

TEST(FaultyBootstrap, FailsBeforeOrAfterTheChange) {
  MemoryBootstrap bootstrap;
  bootstrap.Fail(Call::kCompareAndSwap, 1);
  EXPECT_EQ(bootstrap.CompareAndSwap("s", {}, "one").error().code, Code::kNodeUnreachable);
  EXPECT_EQ(bootstrap.Get("s").value(), std::nullopt);
  bootstrap.Fail(Call::kCompareAndSwap, 1, MemoryBootstrap::Failure::kAfter);
  EXPECT_EQ(bootstrap.CompareAndSwap("s", {}, "one").error().code, Code::kNodeUnreachable);
  EXPECT_EQ(bootstrap.Get("s").value(), "one");
}

TEST(FaultyBootstrap, OvertakesACall) {
  MemoryBootstrap bootstrap;
  bootstrap.set_before([&](Call call, const std::string& store) {
    if (call == Call::kCompareAndSwap) bootstrap.Overwrite(store, "quicker");
  });
  EXPECT_FALSE(bootstrap.CompareAndSwap("s", {}, "one").value());
  EXPECT_EQ(bootstrap.Get("s").value(), "quicker");
}

// The live servers distinguish a lost file from a store that never existed.
TEST(DirectoryBootstrap, KnowsWhetherMembersLive) {
  const TemporaryDirectory directory;
  const auto bootstrap = OpenBootstrap("dir:" + directory.path()).value();
  EXPECT_FALSE(bootstrap->MayHaveMembers("s").value());
  auto member = bootstrap->Announce("s").value();
  auto second = bootstrap->Announce("s").value();
  EXPECT_TRUE(bootstrap->MayHaveMembers("s").value());
  member.reset();
  EXPECT_TRUE(bootstrap->MayHaveMembers("s").value());
  second.reset();
  EXPECT_FALSE(bootstrap->MayHaveMembers("s").value());
  std::filesystem::remove_all(directory.path());
  EXPECT_TRUE(bootstrap->MayHaveMembers("s").value()) << "it may have been removed under them";
  EXPECT_FALSE(std::filesystem::exists(directory.path()));
}

// Regression: the second server's join lock made the directory anew, which then looked as if no
// server had ever used it, and the server created a second store.
TEST(DirectoryBootstrap, OneThatAServerHasMadeMayHaveMembersUntilTheyHaveLooked) {
  const TemporaryDirectory directory;
  const std::string path = directory.path() + "/stores";
  const auto bootstrap = OpenBootstrap("dir:" + path).value();
  const auto member = bootstrap->Announce("s").value();
  std::filesystem::remove_all(path);
  const auto joining = OpenBootstrap("dir:" + path).value();
  const auto lock = joining->LockForJoin("s", milliseconds(0)).value();
  EXPECT_TRUE(joining->MayHaveMembers("s").value());
  EXPECT_TRUE(bootstrap->MayHaveMembers("s").value());
  const auto made = std::filesystem::last_write_time(path + "/made");
  std::filesystem::last_write_time(path + "/made", made - joining->republish_wait());
  EXPECT_FALSE(joining->MayHaveMembers("s").value());
  const auto again = bootstrap->Announce("s").value();
  EXPECT_TRUE(joining->MayHaveMembers("s").value());
}

// Regression: every server that started waited, until the clock came to that time again.
TEST(DirectoryBootstrap, OneThatWasMadeBeforeTheClockWasSetBackIsNotMadeAnewUntilThen) {
  const TemporaryDirectory directory;
  const std::string made = directory.path() + "/stores/made";
  const auto bootstrap = OpenBootstrap("dir:" + directory.path() + "/stores").value();
  ASSERT_TRUE(bootstrap->LockForJoin("s", milliseconds(0)));
  using std::filesystem::last_write_time;
  last_write_time(made, last_write_time(made) + std::chrono::years(1));
  EXPECT_TRUE(bootstrap->MayHaveMembers("s").value());
  EXPECT_LE(last_write_time(made), std::filesystem::file_time_type::clock::now());
  last_write_time(made, last_write_time(made) - bootstrap->republish_wait());
  EXPECT_FALSE(bootstrap->MayHaveMembers("s").value());
}

TEST(DirectoryBootstrap, ManyMakeOne) {
  const TemporaryDirectory directory;
  const std::string path = directory.path() + "/a/stores";
  for (int round = 0; round < 20; ++round) {
    std::atomic<int> swapped = 0;
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&] {
        const auto bootstrap = OpenBootstrap("dir:" + path).value();
        if (bootstrap->CompareAndSwap("s", {}, "text").value()) ++swapped;
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(swapped, 1);
    const auto places = std::filesystem::directory_iterator(directory.path() + "/a");
    EXPECT_EQ(std::distance(begin(places), end(places)), 1) << "left behind";
    std::filesystem::remove_all(path);
  }
}

TEST(MemcachedBootstrap, KilledInMidUseIsUnreachable) {
  MemcachedProcess memcached;
  ASSERT_TRUE(memcached.running());
  const auto bootstrap = OpenBootstrap(memcached.url()).value();
  auto lock = bootstrap->LockForJoin("s", milliseconds(0));
  ASSERT_TRUE(lock);
  ASSERT_TRUE(bootstrap->CompareAndSwap("s", {}, "text").value());
  memcached.Kill();
  const auto text = bootstrap->Get("s");
  ASSERT_FALSE(text);
  EXPECT_EQ(text.error().code, Code::kNodeUnreachable);
  EXPECT_THAT(text.error().message, AllOf(HasSubstr("host 127.0.0.1 port "),
                                          HasSubstr("start it there"), HasSubstr("--bootstrap=")));
  EXPECT_EQ(bootstrap->CompareAndSwap("s", "text", "new").error().code, Code::kNodeUnreachable);
  EXPECT_EQ(bootstrap->LockForJoin("t", milliseconds(0)).error().code, Code::kNodeUnreachable);
}

TEST(MemcachedBootstrap, StoppedIsUnreachableInTime) {
  MemcachedProcess memcached;
  ASSERT_TRUE(memcached.running());
  const auto bootstrap = OpenBootstrap(memcached.url()).value();
  memcached.Signal(SIGSTOP);
  const auto text = bootstrap->Get("s");
  ASSERT_FALSE(text);
  EXPECT_EQ(text.error().code, Code::kNodeUnreachable);
  memcached.Signal(SIGCONT);
}

TEST(DirectoryBootstrap, MakesItsDirectoryForItsOwnerOnly) {
  const TemporaryDirectory parent;
  const std::string path = parent.path() + "/deep/er";
  ASSERT_TRUE(OpenBootstrap("dir:" + path).value()->CompareAndSwap("s", {}, "text").value());
  struct stat info{};
  ASSERT_EQ(stat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700u);
  ASSERT_EQ(stat((path + "/s.store").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
}

TEST(DirectoryBootstrap, SaysWhenItCannotWrite) {
  const TemporaryDirectory directory;
  const auto bootstrap = OpenBootstrap("dir:" + directory.path()).value();
  chmod(directory.path().c_str(), 0500);
  const uid_t user = geteuid();
  constexpr uid_t kNobody = 65534;
  ASSERT_TRUE(user != 0 || seteuid(kNobody) == 0);  // Root may write anywhere.
  const auto swapped = bootstrap->CompareAndSwap("s", {}, "text");
  ASSERT_TRUE(user != 0 || seteuid(user) == 0);
  chmod(directory.path().c_str(), 0700);
  ASSERT_FALSE(swapped);
  EXPECT_EQ(swapped.error().code, Code::kNodeUnreachable);
  EXPECT_THAT(swapped.error().message,
              AllOf(HasSubstr(directory.path()), HasSubstr("may write to")));
}

// A live server puts its record back.
TEST(DirectoryBootstrap, MakesItsDirectoryAgain) {
  const TemporaryDirectory directory;
  const auto bootstrap = OpenBootstrap("dir:" + directory.path()).value();
  ASSERT_TRUE(bootstrap->CompareAndSwap("s", {}, "text").value());
  std::filesystem::remove_all(directory.path());
  EXPECT_EQ(bootstrap->Get("s").value(), std::nullopt);
  EXPECT_FALSE(bootstrap->CompareAndSwap("s", "text", "new").value());
  EXPECT_TRUE(bootstrap->CompareAndSwap("s", {}, "text").value());
  EXPECT_EQ(bootstrap->Get("s").value(), "text");
}

TEST(DirectoryBootstrap, ReadingLeavesNothingBehind) {
  const TemporaryDirectory parent;
  const std::string path = parent.path() + "/none";
  const auto bootstrap = OpenBootstrap("dir:" + path).value();
  EXPECT_EQ(bootstrap->Get("s").value(), std::nullopt);
  EXPECT_TRUE(bootstrap->CompareAndSwap("s", {}, {}).value());
  EXPECT_FALSE(bootstrap->CompareAndSwap("s", "text", {}).value());
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(DirectoryBootstrap, RefusesWhatIsNoDirectory) {
  const TemporaryDirectory directory;
  std::ofstream(directory.path() + "/file") << "x";
  EXPECT_THAT(OpenBootstrap("dir:" + directory.path() + "/file").error().message,
              HasSubstr("is not a directory"));
  EXPECT_THAT(OpenBootstrap("dir:" + directory.path() + "/file/below").error().message,
              HasSubstr("Not a directory; give --bootstrap=dir:PATH with another one"));
}

TEST(DirectoryBootstrap, DefaultIsPrivate) {
  const TemporaryDirectory directory;
  setenv("XDG_RUNTIME_DIR", directory.path().c_str(), 1);
  EXPECT_EQ(DefaultBootstrapUrl(), "dir:" + directory.path() + "/gossamer");
  const auto before = OpenBootstrap("").value();
  ASSERT_TRUE(before->CompareAndSwap("s", {}, "text").value());
  chmod((directory.path() + "/gossamer").c_str(), 0755);
  const auto open = OpenBootstrap("");
  ASSERT_FALSE(open);
  EXPECT_THAT(open.error().message, HasSubstr("open to others"));
  EXPECT_THAT(before->Get("s").error().message, HasSubstr("open to others"));
  unsetenv("XDG_RUNTIME_DIR");
  EXPECT_EQ(DefaultBootstrapUrl(), fmt::format("dir:/tmp/gossamer-{}", geteuid()));
}

// Another user of a shared /tmp may point the name of the default directory anywhere.
TEST(DirectoryBootstrap, DefaultIsNoLink) {
  const TemporaryDirectory directory;
  const TemporaryDirectory private_one;
  setenv("XDG_RUNTIME_DIR", directory.path().c_str(), 1);
  const std::string name = directory.path() + "/gossamer";
  const auto before = OpenBootstrap("").value();
  ASSERT_TRUE(before->CompareAndSwap("s", {}, "text").value());
  std::filesystem::rename(name, directory.path() + "/away");
  std::filesystem::create_directory_symlink(private_one.path(), name);
  const auto open = OpenBootstrap("");
  EXPECT_THAT(before->CompareAndSwap("s", {}, "text").error().message,
              HasSubstr("is a symbolic link"));
  unsetenv("XDG_RUNTIME_DIR");
  ASSERT_FALSE(open);
  EXPECT_EQ(open.error().code, Code::kNodeUnreachable);
  EXPECT_THAT(open.error().message, HasSubstr(name + " is a symbolic link"));
  EXPECT_TRUE(std::filesystem::is_empty(private_one.path()));
  // A directory that the user names may be a link.
  EXPECT_TRUE(OpenBootstrap("dir:" + name).value()->CompareAndSwap("s", {}, "text").value());
}

TEST(BootstrapUrl, SaysWhatIsWrong) {
  for (const char* url :
       {"dir:", "memcached://", "memcached://host:", "memcached://host:0", "memcached://host:65536",
        "memcached://host:11x", "memcached://a/b", "redis://host"}) {
    const auto bootstrap = OpenBootstrap(url);
    ASSERT_FALSE(bootstrap) << url;
    EXPECT_EQ(bootstrap.error().code, Code::kInvalidArgument);
    EXPECT_THAT(bootstrap.error().message, HasSubstr("--bootstrap=memcached://HOST:PORT"));
  }
  EXPECT_EQ(OpenBootstrap("memcached://host").value()->url(), "memcached://host:11211");
  EXPECT_EQ(OpenBootstrap("memcached://[::1]:99").value()->url(), "memcached://[::1]:99");
}

}  // namespace
}  // namespace gossamer
