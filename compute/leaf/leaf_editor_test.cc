#include "compute/leaf/leaf_editor.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "common/random.h"
#include "common/testing/seed.h"
#include "compute/leaf/leaf_hint.h"
#include "compute/leaf/leaf_packer.h"
#include "proto/testing/rounds.h"

namespace gossamer {
namespace {

using Applied = LeafEditor::Applied;

const RemotePtr kLeaf(ServerId{0}, 8192, 0);
constexpr uint32_t kNodeBytes = 512;
// All keys of a test are in between. The leaf stores them without the prefix that these share.
constexpr KeyView kLow = "key";
constexpr KeyView kHigh = "kez";

// A leaf in local memory, all of it known.
class LeafEditorTest : public ::testing::Test {
 protected:
  LeafEditorTest() {
    const LeafContent empty{NodeVersion{1}, kLow, HighFence::At(kHigh), RemotePtr(), {}};
    EXPECT_TRUE(EncodeLeaf(image_, kLeaf, geometry_, empty));
    for (uint32_t unit = 0; unit < geometry_.units(); ++unit) EXPECT_TRUE(editor_.Accept(unit));
  }
  Applied Apply(WriteMode mode, const std::string& key, const std::string& value = {},
                Expiry expiry = {}) {
    last_ = LeafWrite();
    last_.mode = mode;
    last_.hash = KeyHash(key);
    last_.unit = geometry_.GroupOf(last_.hash);
    last_.entry = {key, value};
    last_.expiry = expiry;
    return editor_.Apply(last_);
  }
  // What a reader of the image finds.
  std::map<std::string, std::string> Content() const {
    const std::optional<LeafView> leaf = LeafView::Parse(image_, kLeaf, geometry_, kLow);
    EXPECT_TRUE(leaf);
    std::vector<Entry> entries;
    KeyArena keys;
    if (leaf) leaf->AppendTo(entries, keys);
    std::map<std::string, std::string> content;
    for (const Entry& entry : entries) {
      EXPECT_TRUE(content.emplace(entry.key, entry.stored).second) << "a key in two units";
    }
    return content;
  }
  static std::string Key(uint64_t number) { return fmt::format("key{}", number); }

  const LeafGeometry geometry_{kNodeBytes};
  std::vector<std::byte> image_ = std::vector<std::byte>(kNodeBytes);
  struct ManualClock final : ExpiryClock {
    uint64_t LatestMs() const override { return now_ms; }
    uint64_t now_ms = 1000;
  };
  ManualClock clock_;
  LeafEditor editor_{image_, kLeaf, geometry_, kLow, clock_};
  LeafWrite last_;
};

TEST_F(LeafEditorTest, EachModeSaysWhatItFound) {
  EXPECT_EQ(Apply(WriteMode::kUpdate, "keya", "1"), Applied::kRefused);
  EXPECT_EQ(last_.status.error().code, Code::kNotFound);
  EXPECT_EQ(Apply(WriteMode::kDelete, "keya"), Applied::kRefused);
  EXPECT_EQ(editor_.changed(), 0U) << "nothing to write";
  EXPECT_EQ(Apply(WriteMode::kInsert, "keya", "1"), Applied::kChanged);
  EXPECT_EQ(Apply(WriteMode::kInsert, "keya", "2"), Applied::kRefused);
  EXPECT_EQ(last_.status.error().code, Code::kAlreadyExists);
  EXPECT_EQ(Apply(WriteMode::kPut, "keya", "3"), Applied::kChanged);
  EXPECT_EQ(last_.kind, OperationClass::kUpdate);
  EXPECT_EQ(Apply(WriteMode::kPut, "keyb", "longer"), Applied::kChanged);
  EXPECT_EQ(last_.kind, OperationClass::kInsert);
  EXPECT_EQ(Content(), (std::map<std::string, std::string>{{"keya", "3"}, {"keyb", "longer"}}));
}

TEST_F(LeafEditorTest, OverwritesValuesOfOneLength) {
  std::map<std::string, std::string> expected;
  const auto overwrite = [this](const std::string& key, const std::string& value) {
    return editor_.Overwrite({key, value}, geometry_.GroupOf(KeyHash(key)));
  };
  // Until some are in the overflow group.
  for (uint64_t i = 0; Apply(WriteMode::kPut, Key(i), "abcd") == Applied::kChanged; ++i) {
    expected[Key(i)] = "abcd";
  }
  editor_.ForgetChanges();
  EXPECT_FALSE(overwrite("another", "abcd"));
  EXPECT_FALSE(overwrite(Key(0), "abc"));
  EXPECT_FALSE(overwrite(Key(0), "abcde"));
  EXPECT_EQ(editor_.changed(), 0U);
  for (auto& [key, value] : expected) {
    value = "efgh";
    EXPECT_TRUE(overwrite(key, "zzzz"));
    EXPECT_TRUE(overwrite(key, value));
  }
  EXPECT_EQ(editor_.changed(), editor_.known());
  EXPECT_FALSE(LeafView::Parse(image_, kLeaf, geometry_, kLow)) << "not sealed yet";
  editor_.SealOverwritten();
  EXPECT_EQ(Content(), expected);
}

TEST_F(LeafEditorTest, WhatHasExpiredIsAbsentAndGoes) {
  const auto put = [&](WriteMode mode, const std::string& key, const std::string& value,
                       Expiry expiry) {
    const Applied applied = Apply(mode, key, value, expiry);
    editor_.ForgetChanges();
    return applied;
  };
  EXPECT_EQ(put(WriteMode::kPut, "keya", "1", Expiry::At(1500)), Applied::kChanged);
  EXPECT_EQ(put(WriteMode::kPut, "keyb", "1", Expiry::After(std::chrono::milliseconds(200))),
            Applied::kChanged);
  EXPECT_EQ(put(WriteMode::kInsert, "keya", "2", {}), Applied::kRefused);
  EXPECT_EQ(Content().size(), 2U);
  clock_.now_ms = 1200;
  EXPECT_EQ(put(WriteMode::kPut, "keyb", "2", Expiry::At(2000)), Applied::kChanged);
  EXPECT_EQ(last_.kind, OperationClass::kInsert);
  clock_.now_ms = 1500;
  EXPECT_EQ(put(WriteMode::kUpdate, "keya", "2", {}), Applied::kRefused);
  EXPECT_EQ(last_.status.error().code, Code::kNotFound);
  EXPECT_EQ(Content(), (std::map<std::string, std::string>{{"keyb", "2"}}))
      << "a write that is refused because a key has expired removes it";
  // A sweep removes what has expired, and nothing else.
  EXPECT_EQ(put(WriteMode::kExpire, "keyb", "", {}), Applied::kRefused);
  clock_.now_ms = 2000;
  EXPECT_EQ(put(WriteMode::kExpire, "keyb", "", {}), Applied::kChanged);
  EXPECT_EQ(last_.kind, OperationClass::kDelete);
  EXPECT_TRUE(Content().empty());
}

TEST_F(LeafEditorTest, AnOverwriteClearsOrKeepsTheTime) {
  const auto put = [&](const std::string& value, Expiry expiry) {
    EXPECT_EQ(Apply(WriteMode::kPut, "keya", value, expiry), Applied::kChanged);
    return last_.entry.expires_at;
  };
  EXPECT_EQ(put("1", Expiry::At(1500)), 1500U);
  EXPECT_EQ(put("2", Expiry::Keep()), 1500U);
  EXPECT_EQ(put("longer", Expiry::Keep()), 1500U);
  EXPECT_EQ(put("3", Expiry::Never()), 0U);
  EXPECT_EQ(put("4", Expiry::Keep()), 0U);
  EXPECT_EQ(put("5", Expiry::At(1100)), 1100U);
  clock_.now_ms = 1100;
  EXPECT_EQ(put("6", Expiry::Keep()), 0U) << "there was nothing to keep";
}

// Rule W3: readers of single units must not see the key nowhere, or twice.
TEST_F(LeafEditorTest, AKeyThatWasRemovedComesBackAfterTheWriteOnly) {
  EXPECT_EQ(Apply(WriteMode::kInsert, "keya", "1"), Applied::kChanged);
  EXPECT_EQ(Apply(WriteMode::kDelete, "keya"), Applied::kChanged);
  EXPECT_EQ(Apply(WriteMode::kInsert, "keya", "2"), Applied::kLater);
  EXPECT_TRUE(Content().empty());
  editor_.ForgetChanges();
  EXPECT_EQ(Apply(WriteMode::kInsert, "keya", "2"), Applied::kChanged);
}

TEST_F(LeafEditorTest, WithoutTheOverflowGroupItAsksForIt) {
  LeafEditor part(image_, kLeaf, geometry_, kLow, clock_);
  LeafWrite write;
  write.hash = KeyHash("keya");
  write.unit = geometry_.GroupOf(write.hash);
  ASSERT_TRUE(part.Accept(write.unit));
  std::string key;
  Applied applied = Applied::kChanged;
  for (uint64_t number = 0; applied == Applied::kChanged; ++number) {
    key = Key(number);
    if (geometry_.GroupOf(KeyHash(key)) != write.unit) continue;
    write.hash = KeyHash(key);
    write.entry = {key, "value"};
    applied = part.Apply(write);
  }
  EXPECT_EQ(applied, Applied::kUnread);
  ASSERT_TRUE(part.Accept(geometry_.overflow_unit()));
  EXPECT_EQ(part.Apply(write), Applied::kChanged);
  EXPECT_TRUE(part.Unit(write.unit).overflowed());
  EXPECT_EQ(part.Find(key, write.unit).unit, geometry_.overflow_unit());
}

TEST_F(LeafEditorTest, UnitsOfAnotherVersionAreRefused) {
  std::vector<std::byte> newer(kNodeBytes);
  const LeafContent content{NodeVersion{2}, kLow, HighFence::At(kHigh), RemotePtr(), {}};
  ASSERT_TRUE(EncodeLeaf(newer, kLeaf, geometry_, content));
  const uint32_t at = geometry_.unit_offset(1);
  std::copy_n(newer.begin() + at, geometry_.unit_bytes(), image_.begin() + at);
  EXPECT_FALSE(editor_.Accept(1));
  EXPECT_FALSE(editor_.knows(1));
}

TEST_F(LeafEditorTest, DoesWhatAMapDoes) {
  Random random(TestSeed());
  std::map<std::string, std::string> model;
  for (int i = 0; i < Rounds(20'000); ++i) {
    const std::string key = Key(random.Below(20));
    const std::string value(random.Below(9), 'v');
    const bool is_there = model.count(key) != 0;
    const auto mode = static_cast<WriteMode>(random.Below(4));
    switch (Apply(mode, key, value)) {
      case Applied::kChanged:
        if (mode == WriteMode::kDelete) model.erase(key);
        if (mode != WriteMode::kDelete) model[key] = value;
        break;
      case Applied::kRefused: EXPECT_EQ(is_there, mode == WriteMode::kInsert); break;
      case Applied::kNoRoom: EXPECT_NE(mode, WriteMode::kDelete); break;
      case Applied::kLater: editor_.ForgetChanges(); break;
      case Applied::kUnread:
      case Applied::kUnknown:
      case Applied::kTooLong: FAIL() << "all units are known, and all keys short";
    }
    if (i % 64 == 0) {
      ASSERT_EQ(Content(), model);
    }
  }
}

// Both halves of a split together have what the leaf had, each within its fences.
TEST(EncodeSplit, DividesTheEntriesAtTheSeparator) {
  Random random(TestSeed());
  const LeafGeometry geometry(kNodeBytes);
  const RemotePtr sibling(ServerId{0}, 12288, 0);
  LeafPacker packer(geometry);
  for (int round = 0; round < 200; ++round) {
    std::map<std::string, std::string> content;
    for (uint64_t i = 2 + random.Below(16); i != 0; --i) {
      content[std::to_string(random.Below(1000))] = std::string(random.Below(9), 'v');
    }
    if (content.size() < 2) continue;
    std::vector<Entry> entries;
    for (const auto& [key, value] : content) entries.push_back({key, value});
    for (size_t i = entries.size(); i > 1; --i) std::swap(entries[i - 1], entries[random.Below(i)]);
    const size_t right_count = random.Below(entries.size());
    const LeafRewrite rewrite{kLeaf, sibling, {}, NodeVersion{2}, HighFence{}, RemotePtr()};
    std::vector<std::byte> left(kNodeBytes);
    std::vector<std::byte> right(kNodeBytes);
    const std::optional<LeafHalves> halves =
        EncodeSplit(packer, rewrite, entries, right_count, left, right);
    ASSERT_TRUE(halves);
    const KeyView separator = halves->separator;
    const std::optional<LeafView> low = LeafView::Parse(left, kLeaf, geometry, "");
    const std::optional<LeafView> high = LeafView::Parse(right, sibling, geometry, separator);
    ASSERT_TRUE(low && high);
    EXPECT_EQ(halves->left_hint, HintOf(*low, geometry));
    EXPECT_EQ(halves->right_hint, HintOf(*high, geometry));
    EXPECT_EQ(low->trailer().sibling(), sibling);
    EXPECT_EQ(low->high().key.view(), separator);
    EXPECT_TRUE(high->trailer().low().Matches(separator));
    EXPECT_TRUE(high->high().infinite);
    std::map<std::string, std::string> found;
    for (const LeafView* half : {&*low, &*high}) {
      std::vector<Entry> part;
      KeyArena keys;
      half->AppendTo(part, keys);
      EXPECT_FALSE(part.empty());
      for (const Entry& entry : part) {
        EXPECT_EQ(entry.key < separator, half == &*low);
        EXPECT_TRUE(found.emplace(entry.key, entry.stored).second);
      }
    }
    EXPECT_EQ(found, content);
  }
}

// The separator of a split of these keys, with a value of `value_bytes` each, between these fences.
std::string SeparatorOf(const std::vector<std::string>& keys, size_t value_bytes, KeyView low = {},
                        const HighFence& high = {}) {
  LeafPacker packer{LeafGeometry(kNodeBytes)};
  const std::string value(value_bytes, 'v');
  std::vector<Entry> entries;
  for (const std::string& key : keys) entries.push_back({key, value});
  const LeafRewrite rewrite{
      kLeaf, RemotePtr(ServerId{0}, 12288, 0), gossamer::Key(low), NodeVersion{2}, high, {}};
  std::vector<std::byte> left(kNodeBytes);
  std::vector<std::byte> right(kNodeBytes);
  const std::optional<LeafHalves> halves = EncodeSplit(packer, rewrite, entries, 0, left, right);
  return halves ? std::string(halves->separator.view()) : "none";
}

// Twelve keys, of which the first `ants` begin with another byte than the others.
std::vector<std::string> AntsAndBees(size_t ants) {
  std::vector<std::string> keys;
  for (size_t i = 0; i < 12; ++i) {
    keys.push_back(fmt::format("{}/{:02}", i < ants ? "ant" : "bee", i));
  }
  return keys;
}

TEST(EncodeSplit, CutsWhereThatSavesMost) {
  EXPECT_EQ(SeparatorOf(AntsAndBees(0), 1), "bee/06") << "nothing to choose";
  EXPECT_EQ(SeparatorOf(AntsAndBees(5), 1), "b") << "a short fence";
  EXPECT_EQ(SeparatorOf(AntsAndBees(8), 1), "b");
  EXPECT_EQ(SeparatorOf(AntsAndBees(8), 12), "ant/06") << "uneven halves of so much cost more";
  EXPECT_EQ(SeparatorOf(AntsAndBees(3), 0), "bee/06") << "too far from the middle";
}

TEST(EncodeSplit, OneEntryHasNone) { EXPECT_EQ(SeparatorOf({"ant"}, 1), "none"); }

// A short fence between the two directories would leave the keys of the second one in full. One
// behind its first key has the others share all but their numbers with both fences.
TEST(EncodeSplit, CutsWhereTheFencesShareMost) {
  std::vector<std::string> keys;
  for (size_t i = 0; i < 12; ++i) {
    keys.push_back(fmt::format("{}{:02}", i < 7 ? "a-" : "a/very/long/directory/", i));
  }
  EXPECT_EQ(SeparatorOf(keys, 1, "a", HighFence::At("a/very/long/directory/99")),
            "a/very/long/directory/08");
}

}  // namespace
}  // namespace gossamer
