// Leaves with a prefix of their own: random operations, with keys that give leaves such prefixes
// and take them away again, against a model.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <iostream>
#include <iterator>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "common/testing/seed.h"
#include "compute/store/testing/test_cluster.h"
#include "gossamer/values.h"
#include "proto/testing/rounds.h"

namespace gossamer {
namespace {

struct PrefixShape {
  std::string name;
  StoreParameters parameters;
  size_t servers = 1;

  friend void PrintTo(const PrefixShape& shape, std::ostream* out) { *out << shape.name; }
};

// What a modification makes of a value, here and in the model.
class Edit final : public ValueModifier {
 public:
  Edit(Kind kind, std::string piece) : kind_(kind), piece_(std::move(piece)) {}
  Change Modify(std::optional<std::string_view> value, Expiry /*expiry*/) override {
    // Other lengths: some values stay in the leaf, and some go to a block.
    result_ = piece_ + std::string(value.value_or("").substr(0, piece_.size()));
    return {kind_, result_};
  }

 private:
  Kind kind_;
  std::string piece_;
  std::string result_;
};

class PrefixModelTest : public testing::TestWithParam<PrefixShape> {
 protected:
  static constexpr size_t kMostKeys = 6000;

  static const StoreParameters& parameters() { return GetParam().parameters; }
  uint64_t Below(uint64_t limit) { return random_() % limit; }
  bool OneIn(uint64_t n) { return Below(n) == 0; }
  char Byte() {
    constexpr std::string_view kBytes("\0\1abyz\xfe\xff", 8);
    return kBytes[Below(kBytes.size())];
  }
  std::string Bytes(size_t count) {
    std::string bytes(count, 'x');
    for (char& byte : bytes) byte = Byte();
    return bytes;
  }

  // ---- Keys

  // Keys that begin with `stem` and go on with a number. New ones come behind the last, or in front
  // of the first.
  struct Series {
    std::string stem;
    size_t digits = 0;
    size_t tail = 0;  // longest part behind the number
    int64_t last = 0;
    int64_t first = 0;
  };
  void MakeSeries() {
    const size_t most = parameters().max_key_bytes;
    constexpr size_t kUsual[] = {0,  4,  15,  16,  17,  20,  31,  33, 60,
                                 90, 97, 110, 130, 150, 180, 200, 230};
    series_.clear();
    const size_t count = 1 + Below(6);
    while (series_.size() < count) {
      Series one;
      const size_t bytes = std::min<size_t>(kUsual[Below(std::size(kUsual))], most - 5);
      if (!series_.empty() && !OneIn(3)) {
        // It shares a part with another one.
        const std::string& other = series_[Below(series_.size())].stem;
        one.stem = other.substr(0, Below(other.size() + 1));
      }
      if (one.stem.size() < bytes) one.stem += Bytes(bytes - one.stem.size());
      one.stem.resize(bytes);
      one.digits = std::min<size_t>(4 + Below(6), most - bytes);
      const size_t left = most - bytes - one.digits;
      one.tail = OneIn(2) ? 0 : Below(std::min<size_t>(left, OneIn(2) ? 8 : 140) + 1);
      one.last = one.first = 5000;
      series_.push_back(std::move(one));
    }
  }
  std::string KeyOf(const Series& series, int64_t number) {
    std::string digits = fmt::format("{:0{}}", std::clamp<int64_t>(number, 0, 9999), series.digits);
    std::string key = series.stem + digits;
    // The tail depends on the number alone, so that a key comes again.
    if (series.tail != 0) key.append(static_cast<size_t>(number * 7) % (series.tail + 1), 't');
    return key;
  }
  // Keys between others: fences are like that. Often not there.
  std::string Outlier() {
    std::string key =
        model_.empty() || OneIn(8) ? KeyOf(series_[Below(series_.size())], 5000) : PresentKey();
    if (model_.size() > 1 && OneIn(3)) {
      auto next = model_.lower_bound(key);
      if (next != model_.end() && next != model_.begin()) {
        return std::string(Separator(std::prev(next)->first, next->first));
      }
    }
    switch (Below(5)) {
      case 0: key.resize(Below(key.size() + 1)); break;
      case 1: key += Bytes(1 + Below(20)); break;
      case 2:
        if (!key.empty()) key[Below(key.size())] = Byte();
        break;
      case 3:
        key.resize(Below(key.size() + 1));
        key += Bytes(Below(parameters().max_key_bytes -
                           std::min<size_t>(key.size(), parameters().max_key_bytes) + 1));
        break;
      default:
        if (!key.empty()) key.back() = static_cast<char>(key.back() + (OneIn(2) ? 1 : -1));
        break;
    }
    if (key.size() > parameters().max_key_bytes) key.resize(parameters().max_key_bytes);
    return key;
  }
  const std::string& PresentKey() {
    const Series& series = series_[Below(series_.size())];
    const int64_t reach = series.last - series.first + 1;
    auto at = model_.lower_bound(
        KeyOf(series, series.first + static_cast<int64_t>(Below(static_cast<uint64_t>(reach)))));
    if (at == model_.end()) at = model_.begin();
    return at->first;
  }
  enum class Order : uint8_t { kAscending, kDescending, kInterleaved, kInterleavedDown, kAny };
  // New keys, in the order in which they come.
  std::vector<std::string> NewKeys(size_t count) {
    std::vector<std::string> keys;
    const auto order = static_cast<Order>(Below(5));
    Series* series = &series_[Below(series_.size())];
    const bool is_mixed = OneIn(4);
    for (size_t i = 0; i < count; ++i) {
      if (order == Order::kInterleaved || order == Order::kInterleavedDown) {
        series = &series_[i % series_.size()];
      }
      if (is_mixed && OneIn(12)) {
        keys.push_back(Outlier());
        continue;
      }
      const bool descends = order == Order::kDescending || order == Order::kInterleavedDown;
      keys.push_back(KeyOf(*series, descends ? --series->first : ++series->last));
    }
    if (order == Order::kAny) std::ranges::shuffle(keys, random_);
    return keys;
  }
  // Keys that are there, or are not; near each other or anywhere.
  std::vector<std::string> OldKeys(size_t count) {
    std::vector<std::string> keys;
    if (model_.empty()) return {Outlier()};
    auto at = model_.lower_bound(PresentKey());
    const bool is_run = OneIn(2);
    for (size_t i = 0; i < count; ++i) {
      if (OneIn(10)) {
        keys.push_back(Outlier());
      } else if (is_run && at != model_.end()) {
        keys.push_back(at->first);
        ++at;
      } else {
        keys.push_back(PresentKey());
      }
    }
    if (OneIn(2)) std::ranges::shuffle(keys, random_);
    return keys;
  }
  size_t Count() { return OneIn(6) ? 1 + Below(700) : 1 + Below(60); }
  std::string Value() {
    const size_t most = parameters().inline_value_bytes;
    if (OneIn(40)) return std::string(most + 1 + Below(100), 'B');
    const size_t bytes = value_bytes_ ? *value_bytes_ : Below(most + 1);
    return std::string(bytes, static_cast<char>('a' + Below(26)));
  }

  // ---- Operations

  void PutSingly() {
    for (const std::string& key : OneIn(3) ? OldKeys(Count()) : NewKeys(Count())) {
      const std::string value = Value();
      const bool is_there = model_.contains(key);
      const uint64_t mode = Below(6);
      Status status = Ok();
      if (mode == 0) {
        status = session().Insert(key, value);
        ASSERT_EQ(status.has_value(), !is_there) << testing::PrintToString(key);
      } else if (mode == 1) {
        status = session().Update(key, value);
        ASSERT_EQ(status.has_value(), is_there) << testing::PrintToString(key);
      } else {
        status = session().Put(key, value);
        ASSERT_TRUE(status) << status.error().ToString();
      }
      if (status) model_[key] = value;
    }
  }
  void PutMany() {
    std::vector<KeyValue> pairs;
    for (std::string& key : OneIn(3) ? OldKeys(Count()) : NewKeys(Count())) {
      pairs.push_back({std::move(key), Value()});
    }
    const std::vector<Status> results = session().MultiPut(pairs);
    for (size_t i = 0; i < pairs.size(); ++i) {
      ASSERT_TRUE(results[i]) << results[i].error().ToString();
      model_[pairs[i].key] = pairs[i].value;
    }
  }
  void LoadSorted() {
    std::vector<std::string> keys = NewKeys(Count());
    std::ranges::sort(keys);
    std::vector<std::string> values;
    for (size_t i = 0; i < keys.size(); ++i) values.push_back(Value());
    std::vector<KeyValueView> pairs;
    for (size_t i = 0; i < keys.size(); ++i) {
      pairs.push_back({keys[i], values[i]});
      model_[keys[i]] = values[i];
    }
    const SortedLoad load = session().LoadSorted(pairs, OneIn(2) ? 1.0 : 0.6);
    ASSERT_TRUE(load.status) << load.status.error().ToString();
    ASSERT_EQ(load.loaded, pairs.size());
  }
  void DeleteSingly() {
    for (const std::string& key : OldKeys(Count())) {
      const Status status = session().Delete(key);
      ASSERT_EQ(status.has_value(), model_.erase(key) != 0) << testing::PrintToString(key);
    }
  }
  void DeleteMany() {
    const std::vector<std::string> keys = OldKeys(Count());
    const std::vector<std::string_view> views(keys.begin(), keys.end());
    const std::vector<Status> results = session().MultiDelete(views);
    for (size_t i = 0; i < keys.size(); ++i) {
      ASSERT_EQ(results[i].has_value(), model_.erase(keys[i]) != 0)
          << testing::PrintToString(keys[i]);
    }
  }
  void DeleteRange() {
    std::string from = Outlier();
    std::string to = Outlier();
    if (to < from) std::swap(from, to);
    if (OneIn(2) && !model_.empty()) {
      // A few hundred at most: others are to stay.
      auto end = model_.lower_bound(from);
      for (size_t i = Below(300); i != 0 && end != model_.end(); --i) ++end;
      to = end == model_.end() ? from + "\xff" : end->first;
    }
    const auto begin = model_.lower_bound(from);
    const auto end = model_.lower_bound(to);
    const auto count = static_cast<uint64_t>(std::distance(begin, end));
    if (count > kMostKeys / 2 && !OneIn(4)) return;
    const RangeDeletion done = session().DeleteRange(KeyRange(from, to), {});
    ASSERT_TRUE(done.status) << done.status.error().ToString();
    ASSERT_EQ(done.deleted, count);
    model_.erase(begin, end);
  }
  void Modify() {
    const std::vector<std::string> keys = OneIn(3) ? NewKeys(Count()) : OldKeys(Count());
    std::vector<std::unique_ptr<Edit>> edits;
    std::vector<KeyModifier> modifiers;
    for (const std::string& key : keys) {
      const ValueModifier::Kind kind =
          OneIn(4) ? ValueModifier::Kind::kDelete : ValueModifier::Kind::kPut;
      const std::string piece = Value();
      edits.push_back(std::make_unique<Edit>(kind, piece));
      modifiers.push_back({key, edits.back().get()});
      const auto old = model_.find(key);
      if (kind == ValueModifier::Kind::kDelete) {
        if (old != model_.end()) model_.erase(old);
        continue;
      }
      Edit twin(kind, piece);
      std::optional<std::string_view> before;
      if (old != model_.end()) before = old->second;
      std::string after(twin.Modify(before, {}).value);
      model_[key] = std::move(after);
    }
    if (OneIn(2)) {
      std::vector<Status> results(keys.size(), Ok());
      session().MultiModify(modifiers, results);
      for (const Status& result : results) ASSERT_TRUE(result) << result.error().ToString();
      return;
    }
    for (const KeyModifier& one : modifiers) {
      const Status status = session().Modify(one.key, *one.modifier);
      ASSERT_TRUE(status) << status.error().ToString();
    }
  }
  void Operate() {
    // A phase of a few kinds of operations.
    switch (Below(12)) {
      case 0: return DeleteSingly();
      case 1: return DeleteMany();
      case 2: return DeleteRange();
      case 3: return Modify();
      case 4:
      case 5: return LoadSorted();
      case 6:
      case 7:
      case 8: return PutMany();
      default: return PutSingly();
    }
  }

  // ---- Comparison

  void ExpectScan(const ScanOptions& options) {
    std::vector<std::map<std::string, std::string>::const_iterator> expected;
    auto at = model_.lower_bound(options.from);
    const auto end = options.to ? model_.lower_bound(*options.to) : model_.end();
    if (options.to && *options.to <= options.from) at = end;
    for (; at != end; ++at) {
      if (at->first.starts_with(options.prefix)) expected.push_back(at);
    }
    if (options.reverse) std::ranges::reverse(expected);
    if (expected.size() > options.limit) expected.resize(options.limit);
    const std::unique_ptr<ScanCursor> cursor = session().Scan(options);
    size_t i = 0;
    for (; cursor->Next(); ++i) {
      ASSERT_LT(i, expected.size()) << testing::PrintToString(std::string(cursor->key()));
      ASSERT_EQ(cursor->key(), expected[i]->first) << i;
      ASSERT_EQ(cursor->value(), expected[i]->second) << i;
    }
    ASSERT_TRUE(cursor->status()) << cursor->status().error().ToString();
    ASSERT_EQ(i, expected.size());
  }
  void ExpectGet(const std::string& key, const Result<std::string>& value) {
    const auto found = model_.find(key);
    ASSERT_EQ(value.has_value(), found != model_.end()) << testing::PrintToString(key);
    if (value) {
      ASSERT_EQ(value.value(), found->second) << testing::PrintToString(key);
    } else {
      ASSERT_EQ(value.error().code, Code::kNotFound) << value.error().ToString();
    }
  }
  void ExpectSame() {
    ASSERT_NO_FATAL_FAILURE(ExpectScan({}));
    ScanOptions down;
    down.reverse = true;
    ASSERT_NO_FATAL_FAILURE(ExpectScan(down));
    for (int i = 0; i < 4; ++i) {
      ScanOptions options;
      options.from = Outlier();
      options.limit = 1 + Below(200);
      options.reverse = OneIn(2);
      if (OneIn(2)) options.to = Outlier();
      if (OneIn(3)) options.prefix = Outlier().substr(0, 1 + Below(30));
      ASSERT_NO_FATAL_FAILURE(ExpectScan(options));
    }
    std::vector<std::string> keys;
    for (int i = 0; i < 150; ++i) {
      keys.push_back(model_.empty() || OneIn(2) ? Outlier() : PresentKey());
    }
    for (size_t i = 0; i < 50; ++i) {
      ASSERT_NO_FATAL_FAILURE(ExpectGet(keys[i], session().Get(keys[i])));
    }
    const std::vector<std::string_view> views(keys.begin(), keys.end());
    const std::vector<Result<std::string>> values = session().MultiGet(views);
    for (size_t i = 0; i < keys.size(); ++i) {
      ASSERT_NO_FATAL_FAILURE(ExpectGet(keys[i], values[i]));
    }
  }
  void ExpectGetsOfAll() {
    for (const auto& [key, value] : model_) {
      ASSERT_NO_FATAL_FAILURE(ExpectGet(key, session().Get(key)));
    }
  }
  void ExpectValid(TestCluster& cluster) {
    const CheckReport report = cluster.Check();
    ASSERT_EQ(report.problem_count, 0u) << testing::PrintToString(report.problems);
    ASSERT_EQ(report.keys, model_.size());
  }
  // Counts leaves by what their prefix is a part of.
  void CountPrefixes(TestClient& client) {
    std::set<uint64_t> seen;
    for (int i = 0; i < 40 && !model_.empty(); ++i) {
      const RemotePtr leaf = client.LeafOf(PresentKey());
      if (!seen.insert(leaf.word()).second) continue;
      const auto flags = static_cast<uint8_t>(client.LeafBytes(leaf)[offsetof(GroupHeader, flags)]);
      ++leaves_of_[flags >> 1 & 3];
    }
  }

  // Another client does some of it: each meets leaves that its own cache knows as they were.
  OpenSession& session() { return *sessions_[Below(sessions_.size())]; }

  std::mt19937_64 random_{TestSeed()};
  std::map<std::string, std::string> model_;
  std::vector<Series> series_;
  std::optional<size_t> value_bytes_;
  std::vector<std::unique_ptr<OpenSession>> sessions_;
  static inline std::array<size_t, 4> leaves_of_{};
};

TEST_P(PrefixModelTest, EachOperationHasTheResultOfTheModel) {
  constexpr int kStores = 3;
  constexpr int kPhases = Rounds(5);
  constexpr int kOperations = 14;
  for (int store = 0; store < kStores; ++store) {
    model_.clear();
    ClusterOptions options;
    options.parameters = parameters();
    options.servers = GetParam().servers;
    options.memory_bytes = uint64_t{32} << 20;
    TestCluster cluster(options);
    TestClient client(cluster, {10'000, uint64_t{1} << 20});
    TestClient other(cluster, {10'000, uint64_t{1} << 20});
    sessions_.push_back(client.NewSession());
    if (store != 0) sessions_.push_back(other.NewSession());
    MakeSeries();
    for (int phase = 0; phase < kPhases; ++phase) {
      if (OneIn(3)) MakeSeries();
      value_bytes_.reset();
      if (!OneIn(3)) value_bytes_ = Below(parameters().inline_value_bytes + 1);
      for (int i = 0; i < kOperations; ++i) {
        ASSERT_NO_FATAL_FAILURE(Operate());
        // What has come last is looked at first.
        if (OneIn(3)) {
          ASSERT_NO_FATAL_FAILURE(ExpectSame());
        }
      }
      ASSERT_NO_FATAL_FAILURE(ExpectSame());
      ASSERT_NO_FATAL_FAILURE(ExpectGetsOfAll());
      CountPrefixes(client);
      ASSERT_NO_FATAL_FAILURE(ExpectValid(cluster));
    }
    sessions_.clear();
  }
  std::cout << "leaves with the prefix of both fences: " << leaves_of_[0]
            << ", of the low one: " << leaves_of_[1] << ", of the high one: " << leaves_of_[2]
            << "\n";
}

INSTANTIATE_TEST_SUITE_P(Shapes, PrefixModelTest,
                         testing::Values(PrefixShape{"SmallNodes", {256, 32, 8}},
                                         PrefixShape{"SmallNodesLongValues", {256, 32, 16}},
                                         PrefixShape{"Half", {512, 64, 8}, 2},
                                         PrefixShape{"HalfLongValues", {512, 250, 64}},
                                         PrefixShape{"Usual", {1024, 250, 16}, 2},
                                         PrefixShape{"LongValues", {1024, 250, 64}},
                                         PrefixShape{"ShortKeys", {1024, 32, 64}},
                                         PrefixShape{"LargeNodes", {4096, 250, 16}}),
                         [](const testing::TestParamInfo<PrefixShape>& param) {
                           return param.param.name;
                         });

}  // namespace
}  // namespace gossamer
