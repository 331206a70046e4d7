// Scans that end at a bookmark, and go on at another compute server of the store.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <iostream>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "compute/store/testing/protocol_fixture.h"
#include "compute/tree/read/scan_bookmark.h"
#include "compute/tree/tree.h"

namespace gossamer {
namespace {

class BookmarkTest : public ProtocolTest {
 protected:
  struct Page {
    std::vector<std::string> keys;
    std::optional<ScanBookmark> next;
  };
  // Some of what `session` finds behind the bookmark.
  static Page Read(Session& session, uint64_t limit, uint64_t resume_at = 0,
                   ScanOptions options = {}) {
    options.limit = limit;
    options.to_bookmark = true;
    options.resume_at = resume_at;
    const std::unique_ptr<ScanCursor> cursor = session.Scan(options);
    Page page;
    while (cursor->Next()) page.keys.emplace_back(cursor->key());
    EXPECT_TRUE(cursor->status()) << cursor->status().error().ToString();
    page.next = cursor->bookmark();
    return page;
  }
  void Put(const std::string& key) {
    ASSERT_TRUE(session_->Put(key, std::string(random_() % 12, 'v')));
    model_[key] = "";
  }
  std::string RandomText(size_t bytes) {
    std::string text;
    while (text.size() < bytes) text.push_back(static_cast<char>(random_()));
    return text;
  }
  // Keys of a kind, which decides where bookmarks can be.
  std::string KeyOf(int kind, uint64_t number) {
    switch (kind) {
      case 0: return NumberKey(number);
      case 1: return fmt::format("user:{:010}", number);  // fences that a leaf's mark holds
      case 2: return fmt::format("/a/prefix/that/all/of/them/have/{:010}", number);  // and others
      case 3:
        return fmt::format("{:06}", number % 997) + std::string(180, '-') +
               fmt::format("{:06}", number);  // long keys
      default:
        return fmt::format("{:x}", number * 0x9e3779b97f4a7c15) + std::string(number % 60, '.');
    }
  }
  static constexpr int kKinds = 5;

  // Merges all that is noted at `client`.
  static void Merge(TestClient& client, OpenSession& session) {
    while (const std::optional<MergeQueue::Request> request = client.shared().merges.Take()) {
      session
          .RunToEnd([](OpenSession& over, MergeQueue::Request one) -> Task<Status> {
            co_await over.tree().merger().Run(one);
            co_return Ok();
          }(session, *request))
          .value();
    }
  }
};

TEST(Bookmark, NamesANodeInLessThan63Bits) {
  const RemotePtr node(ServerId{255}, kMaxOffset & ~uint64_t{255}, 255);
  const uint64_t number = bookmark::Of(node, "a key");
  EXPECT_EQ(bookmark::NodeOf(number), node);
  EXPECT_TRUE(bookmark::IsPossible(number));
  EXPECT_EQ(number >> 63, 0u);
  EXPECT_NE(number, bookmark::Of(node, "another key"));
  for (const uint64_t wrong : {uint64_t{0}, uint64_t{77}, uint64_t{1} << 63, ~uint64_t{0}}) {
    EXPECT_FALSE(bookmark::IsPossible(wrong)) << wrong;
  }
}

TEST_F(BookmarkTest, EachPageMayComeFromAnotherComputeServer) {
  for (const uint32_t node_bytes : {512, 1024, 4096}) {
    for (int kind = 0; kind < kKinds; ++kind) {
      SCOPED_TRACE(fmt::format("nodes of {} B, keys of kind {}", node_bytes, kind));
      model_.clear();
      ASSERT_NO_FATAL_FAILURE(Open({node_bytes, 250, 8}, 2));
      for (uint64_t i = 0; i < 4000; ++i)
        ASSERT_NO_FATAL_FAILURE(Put(KeyOf(kind, random_() % 100'000)));
      TestClient other(*cluster_);
      const std::unique_ptr<OpenSession> others = other.NewSession();
      std::vector<std::string> found;
      uint64_t resume_at = 0;
      size_t pages = 0;
      do {
        const uint64_t limit = 1 + random_() % 60;
        const Page page = Read(pages++ % 2 == 0 ? *session_ : *others, limit, resume_at);
        if (page.next) {
          EXPECT_GE(page.keys.size(), limit);
          EXPECT_GT(page.next->key, page.keys.back());
        }
        found.insert(found.end(), page.keys.begin(), page.keys.end());
        resume_at = page.next ? page.next->number : 0;
        ASSERT_LE(found.size(), model_.size());
      } while (resume_at != 0);
      std::vector<std::string> expected;
      for (const auto& [key, value] : model_) expected.push_back(key);
      EXPECT_EQ(found, expected);
      // Pages of a leaf or two each. Of kind 2, of all leaves of one parent, which may be the only
      // one.
      if (kind < 2) {
        EXPECT_GE(pages, model_.size() / (node_bytes == 4096 ? 400 : 160));
      }
    }
  }
}

TEST_F(BookmarkTest, ARangeAndItsEndAreKept) {
  ASSERT_NO_FATAL_FAILURE(Open({1024, 250, 8}));
  for (uint64_t i = 0; i < 3000; ++i) ASSERT_NO_FATAL_FAILURE(Put(KeyOf(1, i)));
  ScanOptions range;
  range.prefix = "user:00000010";
  size_t found = 0;
  uint64_t resume_at = 0;
  do {
    const Page page = Read(*session_, 10, resume_at, range);
    for (const std::string& key : page.keys) EXPECT_TRUE(key.starts_with(range.prefix));
    found += page.keys.size();
    resume_at = page.next ? page.next->number : 0;
  } while (resume_at != 0);
  EXPECT_EQ(found, 100u);
  // A bookmark behind the range, and one before it.
  const Page first = Read(*session_, 10);
  const Page most = Read(*session_, 2000);
  EXPECT_TRUE(Read(*session_, 10, most.next->number, range).keys.empty());
  EXPECT_EQ(Read(*session_, 10, first.next->number, range).keys.front(), "user:0000001000");
  range.reverse = true;
  range.resume_at = first.next->number;
  EXPECT_EQ(session_->Scan(range)->status().error().code, Code::kInvalidArgument);
  ScanOptions wrong;
  wrong.resume_at = 77;
  EXPECT_EQ(session_->Scan(wrong)->status().error().code, Code::kInvalidArgument);
}

TEST_F(BookmarkTest, CostsOneMoreRoundTrip) {
  ASSERT_NO_FATAL_FAILURE(Open({1024, 8, 8}));
  ASSERT_NO_FATAL_FAILURE(Load(3000));
  const Page first = Read(*session_, 10);
  const WireCounts page =
      CostOf(*session_, OperationClass::kScan, [&] { Read(*session_, 10, first.next->number); });
  EXPECT_EQ(page.round_trips, 2u);
}

// The leaf at the bookmark is merged into its left neighbour, and then its memory is another's.
TEST_F(BookmarkTest, ALostBookmarkBeginsAnew) {
  ASSERT_NO_FATAL_FAILURE(Open({256, 8, 8}));
  ASSERT_NO_FATAL_FAILURE(Load(2000));
  Page before;
  RemotePtr node;
  const auto is_there = [&] {
    const LeafGeometry& geometry = client_->shared().geometry;
    const std::vector<std::byte> image = client_->LeafBytes(node);
    return TrailerView::Parse(std::span(image).subspan(geometry.trailer_offset()), node, geometry);
  };
  // Of some leaves, the right neighbour is merged into them instead.
  bool is_merged = false;
  for (uint64_t limit = 200; !is_merged && limit < 1800; limit += 60) {
    before = Read(*session_, limit);
    node = bookmark::NodeOf(before.next->number);
    ASSERT_TRUE(is_there());
    const auto gone = model_.lower_bound(before.next->key);
    for (auto key = std::prev(gone, 30); key != gone; key = model_.erase(key)) {
      ASSERT_TRUE(session_->Delete(key->first));
    }
    Merge(*client_, *session_);
    is_merged = is_there() && is_there()->frozen();
  }
  ASSERT_TRUE(is_merged);
  const uint64_t bookmark = before.next->number;
  // Frozen, it still tells where it started.
  EXPECT_EQ(Read(*session_, 1, bookmark).keys.front(), model_.lower_bound(before.next->key)->first);
  // Until the memory is used again.
  for (uint64_t i = 0; is_there(); ++i) {
    ASSERT_LT(i, 20'000u);
    ASSERT_NO_FATAL_FAILURE(Put(NumberKey(1'000'000 + i)));
  }
  const Page again = Read(*session_, 1, bookmark);
  EXPECT_EQ(again.keys.front(), model_.begin()->first);
}

// Other keys come and go while two compute servers read page after page, in turn.
TEST_F(BookmarkTest, NoKeyIsLeftOutBesideSplitsAndMerges) {
  uint64_t restarts = 0;
  for (int round = 0; round < 2 * kKinds; ++round) {
    const int kind = round % kKinds;
    SCOPED_TRACE(fmt::format("round {}, keys of kind {}", round, kind));
    model_.clear();
    const StoreParameters parameters =
        round % 2 == 0 ? StoreParameters{1024, 250, 8} : StoreParameters{512, 250, 8};
    ASSERT_NO_FATAL_FAILURE(Open(parameters, 2));
    constexpr uint64_t kNumbers = 3000;
    // Every seventh stays.
    for (uint64_t i = 0; i < kNumbers; ++i) {
      if (i % 7 == 0 || random_() % 2 == 0) {
        ASSERT_TRUE(session_->Put(KeyOf(kind, i), "v"));
      }
      if (i % 7 == 0) model_[KeyOf(kind, i)] = "";
    }
    TestClient other(*cluster_);
    const std::unique_ptr<OpenSession> others = other.NewSession();
    // A block of keys goes, and another one comes.
    const auto change = [&](TestClient& client, OpenSession& session) {
      for (const bool is_deletion : {true, false}) {
        const uint64_t first = random_() % kNumbers;
        const uint64_t last = std::min(first + random_() % 200, kNumbers);
        for (uint64_t i = first; i < last; ++i) {
          if (i % 7 == 0) continue;
          if (is_deletion) {
            const Status deleted = session.Delete(KeyOf(kind, i));
            ASSERT_TRUE(deleted || deleted.error().code == Code::kNotFound);
          } else {
            ASSERT_TRUE(session.Put(KeyOf(kind, i), "w"));
          }
        }
        Merge(client, session);
      }
    };
    std::set<std::string> found;
    uint64_t resume_at = 0;
    std::string position;
    size_t pages = 0;
    do {
      const Page page = Read(pages % 2 == 0 ? *session_ : *others, 1 + random_() % 20, resume_at);
      if (!page.keys.empty() && page.keys.front() < position) ++restarts;
      found.insert(page.keys.begin(), page.keys.end());
      resume_at = page.next ? page.next->number : 0;
      position = page.next ? page.next->key : "";
      if (++pages < 400) {
        if (random_() % 2 == 0) {
          ASSERT_NO_FATAL_FAILURE(change(*client_, *session_));
        } else {
          ASSERT_NO_FATAL_FAILURE(change(other, *others));
        }
      }
      ASSERT_LT(pages, 2000u) << "does not end";
    } while (resume_at != 0);
    for (const auto& [key, value] : model_) ASSERT_TRUE(found.contains(key)) << key;
  }
  std::cout << restarts << " pages began anew\n";
}

// The same with threads, and with the stores' own upkeep.
TEST_F(BookmarkTest, NoKeyIsLeftOutBesideOtherThreads) {
  ASSERT_NO_FATAL_FAILURE(Open({1024, 250, 8}));
  constexpr uint64_t kNumbers = 4000;
  for (int kind = 1; kind < 3; ++kind) {
    for (uint64_t i = 0; i < kNumbers; ++i) ASSERT_NO_FATAL_FAILURE(Put(KeyOf(kind, i)));
  }
  const std::unique_ptr<Store> stores[] = {cluster_->OpenStore(), cluster_->OpenStore()};
  std::atomic<bool> ends = false;
  std::vector<std::thread> threads;
  for (const std::unique_ptr<Store>& store : stores) {
    threads.emplace_back([&, seed = random_()] {
      std::mt19937_64 random(seed);
      const std::unique_ptr<Session> session = std::move(store->NewSession().value());
      while (!ends) {
        const int kind = 1 + static_cast<int>(random() % 2);
        const uint64_t first = random() % kNumbers;
        for (uint64_t i = first; i < std::min(first + 300, kNumbers) && !ends; ++i) {
          if (i % 7 == 0) continue;
          const std::string key = KeyOf(kind, i);
          ASSERT_TRUE(session->Put(key + "x", "v"));
          static_cast<void>(session->Delete(key));
        }
        for (uint64_t i = first; i < std::min(first + 300, kNumbers) && !ends; ++i) {
          if (i % 7 == 0) continue;
          static_cast<void>(session->Delete(KeyOf(kind, i) + "x"));
        }
      }
    });
  }
  std::vector<std::unique_ptr<Session>> sessions;
  for (const std::unique_ptr<Store>& store : stores) {
    sessions.push_back(std::move(store->NewSession().value()));
  }
  for (int round = 0; round < 5; ++round) {
    std::set<std::string> found;
    uint64_t resume_at = 0;
    size_t pages = 0;
    do {
      const Page page = Read(*sessions[pages % 2], 10, resume_at);
      found.insert(page.keys.begin(), page.keys.end());
      resume_at = page.next ? page.next->number : 0;
      if (++pages == 5000) ends = true;
    } while (resume_at != 0 && pages < 10'000);
    EXPECT_EQ(resume_at, 0u) << "does not end";
    for (int kind = 1; kind < 3; ++kind) {
      for (uint64_t i = 0; i < kNumbers; i += 7) EXPECT_TRUE(found.contains(KeyOf(kind, i))) << i;
    }
  }
  ends = true;
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace gossamer
