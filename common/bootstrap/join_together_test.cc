// Servers that start at the same moment: in every order of their calls to the bootstrap, all of
// them end in one store.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>
#include <set>
#include <thread>

#include "common/bootstrap/member_test_support.h"
#include "common/random.h"
#include "common/testing/seed.h"

namespace gossamer {
namespace {

using std::chrono::milliseconds;
using Call = MemoryBootstrap::Call;

// Lets one thread at a time go on to its next call of the bootstrap, in an order that a seed
// decides.
class Turns {
 public:
  Turns(MemoryBootstrap& bootstrap, uint64_t seed) : bootstrap_(bootstrap), random_(seed) {
    bootstrap.set_before([this](Call call, const std::string&) { Await(call); });
    // A directory's answer is true as well while another server asks.
    bootstrap.set_may_have_members([this] { return random_.Below(2) == 0; });
  }

  // Runs `servers` in threads of their own, to their ends.
  void Run(const std::vector<std::function<void()>>& servers) {
    std::vector<std::thread> threads;
    running_ = servers.size();
    for (const auto& server : servers) {
      threads.emplace_back([this, &server] {
        server();
        const std::lock_guard guard(mutex_);
        --running_;
        changed_.notify_all();
      });
    }
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [&] { return running_ == 0; });
      if (waiting_.empty()) break;
      Choose();
    }
    lock.unlock();
    for (std::thread& thread : threads) thread.join();
  }

 private:
  struct Waiting {
    Call call;
    bool may_go = false;
  };

  void Await(Call call) {
    std::unique_lock lock(mutex_);
    Waiting self{call};
    waiting_.push_back(&self);
    --running_;
    changed_.notify_all();
    changed_.wait(lock, [&] { return self.may_go; });
  }

  // One that would wait for the lock within its call waits here.
  void Choose() {
    const bool is_locked = bootstrap_.IsLocked("s");
    size_t chosen;
    do {
      chosen = random_.Below(waiting_.size());
    } while (is_locked && waiting_[chosen]->call == Call::kLockForJoin);
    waiting_[chosen]->may_go = true;
    waiting_.erase(waiting_.begin() + static_cast<ptrdiff_t>(chosen));
    ++running_;
    changed_.notify_all();
  }

  MemoryBootstrap& bootstrap_;
  std::mutex mutex_;
  std::condition_variable changed_;
  Random random_;
  size_t running_ = 0;
  std::vector<Waiting*> waiting_;
};

class JoinTogetherTest : public MemberTest {
 protected:
  static constexpr size_t kServers = 4;

  // `before`: what stands in the bootstrap at first.
  void StartTogether(uint64_t seed, const std::optional<std::string>& before) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    bootstrap_.set_before(nullptr);
    bootstrap_.Overwrite("s", before);
    bootstrap_.set_republish_wait(milliseconds(1));
    std::vector<Result<Joined>> joined(kServers, MakeError(Code::kContended, ""));
    std::vector<std::function<void()>> servers;
    servers.reserve(kServers);
    for (Result<Joined>& each : joined) servers.emplace_back([&] { each = Join(); });
    Turns(bootstrap_, seed).Run(servers);
    std::set<uint64_t> stores;
    std::set<ServerId> ids;
    for (const Result<Joined>& each : joined) {
      ASSERT_TRUE(each) << each.error().ToString();
      stores.insert(each.value().identity.store_id);
      ids.insert(each.value().identity.server);
    }
    EXPECT_EQ(stores.size(), 1u);
    EXPECT_EQ(ids.size(), kServers);
    bootstrap_.set_before(nullptr);
    EXPECT_EQ(Record()->servers.size(), kServers);
  }

  // Texts that a new store may replace.
  std::vector<std::optional<std::string>> Beginnings() {
    constexpr uint64_t kDead = 7;
    states_[kDead] = Liveness::kDead;
    const StoreRecord note{"s", 5, "shm", {}, 0, {}, 9};
    const StoreRecord dead{"s", kDead, "shm", {}, 1, {{ServerId{0}, kDead, "h", "-", "a"}}};
    return {std::nullopt, EncodeStoreRecord(note), EncodeStoreRecord(dead)};
  }
};

TEST_F(JoinTogetherTest, AllEndInOneStore) {
  const uint64_t first = TestSeed();
  constexpr uint64_t kSeeds = 100;
  for (const auto& before : Beginnings()) {
    for (uint64_t seed = first; seed < first + kSeeds; ++seed) {
      StartTogether(seed, before);
      if (HasFailure()) return;
    }
  }
}

}  // namespace
}  // namespace gossamer
