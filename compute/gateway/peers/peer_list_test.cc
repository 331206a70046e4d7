#include "compute/gateway/peers/peer_list.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <string>

namespace gossamer::gateway {
namespace {

using std::chrono::seconds;

Peer PeerOf(uint64_t id) {
  return {id, "ant", "127.0.0.1:" + std::to_string(7400 + id), "t" + std::to_string(id), 0};
}

class PeerListTest : public testing::Test {
 protected:
  void SetUp() override {
    directory_ = testing::TempDir() + "peer_list_" + std::to_string(getpid());
    std::filesystem::create_directory(directory_);
    std::filesystem::permissions(directory_, std::filesystem::perms::owner_all);
    bootstrap_ = std::move(OpenBootstrap("dir:" + directory_).value());
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }
  std::optional<std::string> Note() { return bootstrap_->Get("peers+s").value(); }
  PeerList ListOf(uint64_t id) { return {*bootstrap_, "s", PeerOf(id)}; }

  std::string directory_;
  std::unique_ptr<Bootstrap> bootstrap_;
  PeerList::Clock::time_point now_{};
};

TEST_F(PeerListTest, ReadsWhatItWrites) {
  const std::vector<Peer> peers{PeerOf(1), PeerOf(uint64_t{1} << 63)};
  EXPECT_EQ(EncodePeers(peers),
            "gossamer-peers 1\n"
            "peer=0000000000000001 host=ant address=127.0.0.1:7401 token=t1 beat=0\n"
            "peer=8000000000000000 host=ant address=127.0.0.1:9223372036854783208 "
            "token=t9223372036854775808 beat=0\n");
  EXPECT_EQ(ParsePeers(EncodePeers(peers)), peers);
  EXPECT_EQ(ParsePeers("gossamer-peers 2\n"), std::nullopt);
  EXPECT_EQ(ParsePeers(""), std::nullopt);
  const std::string one = EncodePeers({PeerOf(1)});
  for (const char* const line :
       {"\n", "peer=1\n", "peer=x host=a address=b token=c beat=1\n",
        "peer=1 host= address=b token=c beat=1\n", "peer=1 host=a address=b token=c beat=-1\n"}) {
    EXPECT_EQ(ParsePeers(one + line), std::vector{PeerOf(1)}) << line;
  }
}

TEST_F(PeerListTest, FindsOthersUntilTheyLeave) {
  PeerList one = ListOf(1);
  PeerList two = ListOf(2);
  EXPECT_TRUE(one.Look(now_).value().empty());
  ASSERT_EQ(two.Look(now_).value().size(), 1u);
  EXPECT_EQ(one.Look(now_).value()[0].token, "t2");
  ASSERT_TRUE(two.Leave());
  EXPECT_TRUE(one.Look(now_).value().empty());
  ASSERT_TRUE(one.Leave());
  EXPECT_EQ(Note(), std::nullopt);
}

TEST_F(PeerListTest, WritesOnlyToStay) {
  PeerList one = ListOf(1);
  ASSERT_TRUE(one.Look(now_));
  const std::optional<std::string> note = Note();
  ASSERT_TRUE(one.Look(now_ + seconds(9)));
  EXPECT_EQ(Note(), note);
  ASSERT_TRUE(one.Look(now_ + seconds(10)));
  EXPECT_NE(Note(), note);
  PeerList looks(*bootstrap_, "s", {7, {}, {}, {}, 0});
  EXPECT_EQ(looks.Look(now_).value().size(), 1u);
  EXPECT_EQ(ParsePeers(*Note())->size(), 1u);
}

TEST_F(PeerListTest, ForgetsTheDead) {
  PeerList one = ListOf(1);
  PeerList dead = ListOf(2);
  ASSERT_TRUE(dead.Look(now_));
  for (int s = 0; s < 60; s += 5) {
    ASSERT_EQ(one.Look(now_ + seconds(s)).value().size(), 1u);
  }
  EXPECT_TRUE(one.Look(now_ + seconds(60)).value().empty());
  ASSERT_TRUE(one.Look(now_ + seconds(70)));
  EXPECT_EQ(ParsePeers(*Note())->size(), 1u);
  // It was only slow.
  ASSERT_TRUE(dead.Look(now_ + seconds(71)));
  EXPECT_EQ(one.Look(now_ + seconds(72)).value().size(), 1u);
}

TEST_F(PeerListTest, WritesALostNoteAgain) {
  PeerList one = ListOf(1);
  PeerList two = ListOf(2);
  ASSERT_TRUE(one.Look(now_));
  ASSERT_TRUE(two.Look(now_));
  ASSERT_TRUE(bootstrap_->CompareAndSwap("peers+s", Note(), std::nullopt).value());
  EXPECT_TRUE(one.Look(now_).value().empty());
  EXPECT_EQ(two.Look(now_).value().size(), 1u);
  EXPECT_EQ(one.Look(now_).value().size(), 1u);
}

TEST_F(PeerListTest, LeavesANoteOfAnotherVersion) {
  ASSERT_TRUE(bootstrap_->CompareAndSwap("peers+s", std::nullopt, "gossamer-peers 2\n").value());
  PeerList one = ListOf(1);
  const auto found = one.Look(now_);
  ASSERT_FALSE(found);
  EXPECT_NE(found.error().message.find("another version"), std::string::npos);
  EXPECT_EQ(Note(), "gossamer-peers 2\n");
}

}  // namespace
}  // namespace gossamer::gateway
