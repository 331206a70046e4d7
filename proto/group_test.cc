#include "proto/leaf_test_support.h"

namespace gossamer {
namespace {

using std::string_literals::operator""s;
using test::Bytes;
using test::Content;
using test::ContentOf;
using test::ForEachBitFlip;
using test::ForEachMixture;
using test::RandomRange;
using test::Shape;
using test::Stored;
using test::StoredBlock;
using test::ToHex;
using test::ToHexTrimmed;
using test::UnitImage;

// ---- Golden bytes

TEST(Group, GoldenBytesOfUniformEntries) {
  const UnitImage unit{.overflowed = true, .range = {.high = HighFence::At("k9")}};
  EXPECT_EQ(ToHexTrimmed(unit.Encode({{"k1", {"one"}}, {"k2", {"two"}}})),
            "0d955f5ebfbbfa0e040302010280020300026b396b316f6e656b3274776f");
}

TEST(Group, GoldenBytesOfVariableEntries) {
  const UnitImage unit{.number = 0};
  const Content content{
      {"", {"x"}}, {"ab", {""}}, {"abc", StoredBlock(0x0003000000045649, 300, 0xcafef00d)}};
  EXPECT_EQ(ToHexTrimmed(unit.Encode(content)),
            "a78bdc6bc9f5cafd040302010301ffff00000001780200616203fe6162634956"
            "0400000003002c0100000df0feca");
}

TEST(Group, GoldenBytesOfTheMixedForms) {
  const UnitImage unit{
      .bytes = 108, .number = 1, .version = NodeVersion{1}, .range = {.high = HighFence::At("q")}};
  EXPECT_EQ(ToHexTrimmed(unit.Encode({{"a", {"11"}}, {"bc", {"22"}}})),
            "da4ce371686cd284010000000200ff02000171016131310262633232");
  EXPECT_EQ(ToHexTrimmed(unit.Encode({{"a", {"1"}}, {"b", {""}}})),
            "f922453abb8c5a0e01000000020001ff0001710161310062");
  const UnitImage empty{
      .bytes = 108, .number = 1, .version = NodeVersion{1}, .range = {.high = HighFence::At("")}};
  EXPECT_EQ(ToHexTrimmed(empty.Encode({})), "e1f804b76dfa0db201");
}

// Without the checksum.
TEST(Group, GoldenBytesOfPrefixesOfTheLeafsOwn) {
  const auto behind_sum = [](const test::Range& range) {
    const UnitImage unit{.range = range};
    return ToHexTrimmed(unit.Encode({{"abcd1", {"x"}}, {"abcd2", {"y"}}})).substr(16);
  };
  EXPECT_EQ(behind_sum({"abcd", HighFence::At("abz"), {PrefixOf::kLowFence, 4}}),
            "0403020102020101"
            "0401"
            "02"
            "7a"
            "3178"
            "3279");
  EXPECT_EQ(behind_sum({"abcd", {}, {PrefixOf::kLowFence, 4}}),
            "0403020102030101"
            "0400"
            "3178"
            "3279");
  EXPECT_EQ(behind_sum({"ab", HighFence::At("abcd9"), {PrefixOf::kHighFence, 4}}),
            "0403020102040101"
            "0405"
            "6162636439"
            "3178"
            "3279");
}

// A key in the range without the prefix is not there, and does not change where the range ends.
TEST(Group, KeysThatLackThePrefixAreInTheRange) {
  const Content content{{"abcd1", {"x"}}};
  for (const test::Range& range :
       {test::Range{"abcd", HighFence::At("abz"), {PrefixOf::kLowFence, 4}},
        test::Range{"ab", HighFence::At("abcd9"), {PrefixOf::kHighFence, 4}}}) {
    const UnitImage unit{.range = range};
    const Bytes image = unit.Encode(content);
    const auto view = unit.Parse(image);
    ASSERT_TRUE(view.has_value());
    EXPECT_EQ(view->prefix(), "abcd");
    EXPECT_EQ(view->high(), range.high);
    EXPECT_TRUE(view->Find("abcd1").has_value());
    const std::string_view lacking = range.own.of == PrefixOf::kLowFence ? "abx" : "abb";
    EXPECT_TRUE(view->Covers(lacking));
    EXPECT_FALSE(view->HasPrefix(lacking));
    EXPECT_FALSE(view->Find(lacking).has_value());
    EXPECT_FALSE(view->Covers("ac"));
    EXPECT_TRUE(view->EndsAt(range.high.key));
  }
}

// ---- Round trips

class GroupTest : public test::SeededTest {
 protected:
  // As many random entries as the unit takes.
  Content FillRandomly(const UnitImage& unit) {
    Shape shape = Shape::Any(random, {1024, kMaxKeyBytes, kMaxInlineValueBytes});
    const bool is_of_high = unit.range.own.of == PrefixOf::kHighFence;
    shape.prefix = is_of_high ? std::string(unit.range.bounds().prefix) : unit.range.low;
    Content content;
    const uint32_t wanted = random.OneIn(8) ? random.Below(3) : 200;
    for (uint32_t i = 0; i < wanted; ++i) {
      const std::string key = shape.Key(random);
      if (!unit.range.Has(key)) continue;
      Content larger = content;
      larger.insert_or_assign(key, shape.Value(random));
      const GroupSizer sizer = unit.SizerOf(larger);
      if (sizer.bytes() > unit.bytes || sizer.count() > GroupView::kMaxEntries) break;
      content = std::move(larger);
    }
    return content;
  }
  UnitImage RandomUnit() {
    return {.bytes = random.Between(27, 60) * 4,
            .leaf = RemotePtr::FromWord(random.Word()),
            .number = random.Below(kMaxUnits),
            .version = NodeVersion{static_cast<uint32_t>(random.Word())},
            .overflowed = random.OneIn(2),
            .range =
                random.OneIn(3) ? WithOwnPrefix(RandomRange(random), random) : RandomRange(random)};
  }
};

TEST_F(GroupTest, EverythingComesBack) {
  for (int i = 0; i < 5000; ++i) {
    const UnitImage unit = RandomUnit();
    const Content content = FillRandomly(unit);
    const Bytes image = unit.Encode(content);
    const auto view = unit.Parse(image);
    ASSERT_TRUE(view.has_value());
    ASSERT_EQ(view->version(), unit.version);
    ASSERT_EQ(view->overflowed(), unit.overflowed);
    ASSERT_EQ(view->high(), unit.range.high);
    ASSERT_EQ(view->count(), content.size());
    ASSERT_EQ(ContentOf(*view), content);
    for (const auto& [key, stored] : content) {
      const auto found = view->Find(key);
      ASSERT_TRUE(found.has_value());
      ASSERT_EQ(std::string(view->prefix()) + std::string(found->key), key);
      ASSERT_TRUE(view->Admits(key));
      ASSERT_EQ(found->stored, stored.bytes);
      ASSERT_EQ(found->kind, stored.kind);
      ASSERT_EQ(found->expires_at, stored.expires_at);
    }
    for (int j = 0; j < 20; ++j) {
      const auto room = static_cast<uint32_t>(kMaxKeyBytes - unit.range.low.size());
      std::string key = random.String(random.Below(kMaxKeyBytes + 1));
      if (random.OneIn(2) || key < unit.range.low) key = unit.range.low + random.String(room);
      ASSERT_EQ(view->Admits(key), unit.range.high.Admits(key));
      if (view->Admits(key)) {
        ASSERT_EQ(view->Find(key).has_value(), content.contains(key));
      }
      ASSERT_EQ(view->EndsAt(key), !unit.range.high.infinite && unit.range.high.key.view() == key);
    }
  }
}

// A change in place gives the same bytes as encoding again.
TEST_F(GroupTest, ChangesInPlaceAreEncodings) {
  size_t appended = 0;
  size_t overwritten = 0;
  for (int i = 0; i < 5000; ++i) {
    const UnitImage unit = RandomUnit();
    Content content = FillRandomly(unit);
    if (content.size() < 2) continue;
    // Remove the last key, then append it again.
    const auto [last_key, last_stored] = *content.rbegin();
    content.erase(last_key);
    Bytes image = unit.Encode(content);
    const Bytes before = image;
    const Entry last = last_stored.For(last_key);
    const Appended done = AppendInPlace(image, unit.leaf, unit.number, *unit.Parse(image), last);
    if (done == Appended::kDone) {
      ++appended;
      content.emplace(last_key, last_stored);
      ASSERT_EQ(image, unit.Encode(content));
    } else {
      // It was there a moment ago: there is room.
      ASSERT_EQ(done, Appended::kOtherLengths);
      ASSERT_EQ(image, before);
    }
    auto& [key, stored] = *content.begin();
    const std::optional<Entry> old = unit.Parse(image)->Find(key);
    ASSERT_TRUE(old.has_value());
    // Other bytes of the same number. A block stays unchanged, because Parse checks its length.
    if (stored.kind == Entry::Kind::kInline)
      stored.bytes = random.String(static_cast<uint32_t>(stored.bytes.size()));
    if (stored.expires_at != 0) ++stored.expires_at;
    OverwriteStored(image, unit.leaf, unit.number, unit.range.low, *old, stored.For(key));
    ++overwritten;
    ASSERT_EQ(image, unit.Encode(content));
    MarkOverflowed(image, unit.leaf, unit.number, *unit.Parse(image));
    UnitImage marked = unit;
    marked.overflowed = true;
    ASSERT_EQ(image, marked.Encode(content));
  }
  EXPECT_GT(appended, 300u);
  EXPECT_GT(overwritten, 3000u);
}

TEST_F(GroupTest, AnEntryFindsNoRoomInPlaceIfNoEncodingHasRoom) {
  size_t refused = 0;
  for (int i = 0; i < 5000; ++i) {
    const UnitImage unit = RandomUnit();
    Content content = FillRandomly(unit);
    if (content.empty()) continue;
    Bytes image = unit.Encode(content);
    // Of the first entry's lengths, which may be all entries' ones.
    const auto& [first_key, first_stored] = *content.begin();
    const size_t prefix = unit.range.bounds().prefix.size();
    const std::string key = first_key.substr(0, prefix) +
                            random.String(static_cast<uint32_t>(first_key.size() - prefix));
    if (content.contains(key)) continue;
    const Entry entry = first_stored.For(key);
    if (AppendInPlace(image, unit.leaf, unit.number, *unit.Parse(image), entry) !=
        Appended::kNoRoom) {
      continue;
    }
    ++refused;
    content.emplace(key, first_stored);
    const GroupSizer sizer = unit.SizerOf(content);
    ASSERT_TRUE(sizer.bytes() > image.size() || sizer.count() > GroupView::kMaxEntries);
  }
  EXPECT_GT(refused, 100u);
}

TEST_F(GroupTest, SizerTellsExactlyWhatFits) {
  for (int i = 0; i < 5000; ++i) {
    const UnitImage unit = RandomUnit();
    const auto content = FillRandomly(unit);
    const GroupSizer sizer = unit.SizerOf(content);
    ASSERT_EQ(sizer.count(), content.size());
    Bytes exact(sizer.bytes(), std::byte{0xee});
    ASSERT_TRUE(unit.TryEncode(exact, content));
    Bytes small(sizer.bytes() - 1, std::byte{0xee});
    ASSERT_FALSE(unit.TryEncode(small, content));
    ASSERT_EQ(small, Bytes(small.size(), std::byte{0xee})) << "wrote although it does not fit";
  }
}

// The sizer's count ends at the last byte of the last entry. The test uses an entry of 0xff bytes,
// which padding never is.
TEST_F(GroupTest, SizerCountsTheBytesInUse) {
  for (int i = 0; i < 1000; ++i) {
    const UnitImage unit = RandomUnit();
    Content content = FillRandomly(unit);
    if (content.empty() || content.rbegin()->second.kind != Entry::Kind::kInline) continue;
    auto& [key, stored] = *content.rbegin();
    if (stored.bytes.empty()) continue;
    stored.bytes.back() = '\xff';
    if (stored.expires_at != 0) stored.expires_at = kLatestExpiry;
    ASSERT_EQ(ToHexTrimmed(unit.Encode(content)).size(), 2 * unit.SizerOf(content).bytes());
  }
}

TEST(Group, EdgesOfKeysAndValues) {
  const UnitImage unit{.range = {.high = HighFence::At(std::string(kMaxFenceBytes, '\xff'))}};
  const Content content{{""s, {""}},
                        {"\0"s, {"\0"s}},
                        {"\0\0"s, {""}},
                        {std::string(32, '\0'), {std::string(kMaxInlineValueBytes, 'v')}}};
  const Bytes image = unit.Encode(content);
  const auto view = unit.Parse(image);
  ASSERT_TRUE(view.has_value());
  EXPECT_EQ(ContentOf(*view), content);
  EXPECT_EQ(view->Find("\0"s)->stored, "\0"s);
  EXPECT_FALSE(view->Find("\0\0\0"s).has_value());
}

// The times of entries that expire are behind what these store. Others have none.
TEST(Group, GoldenBytesOfEntriesThatExpire) {
  const UnitImage unit;
  const Content plain{{"k1", {"one"}}};
  const Content expiring{{"k1", {"one", Entry::Kind::kInline, 0x010203040506}}};
  const Content both{{"k1", {"one", Entry::Kind::kInline, 0x010203040506}}, {"k2", {"two"}}};
  const auto entries_of = [&](const Content& content) {
    return ToHexTrimmed(unit.Encode(content)).substr(2 * kGroupHeaderBytes);
  };
  EXPECT_EQ(entries_of(plain), "6b316f6e65");
  EXPECT_EQ(entries_of(expiring), "6b316f6e65060504030201");
  EXPECT_EQ(entries_of(both),
            "836b316f6e65060504030201"
            "036b3274776f");
  EXPECT_EQ(ToHex(Bytes{unit.Encode(expiring)[15]}), "83");
  // A block, and a long key.
  EXPECT_EQ(internal::ValueCode({"k", std::string(sizeof(BlockRef), 'r'), Entry::Kind::kBlock, 1}),
            0xfc);
  EXPECT_EQ(internal::ValueCode({"k", std::string(sizeof(LongRef), 'r'), Entry::Kind::kLong, 1}),
            0xfb);
}

TEST(Group, EachCodeSaysOneForm) {
  const auto expect = [](uint8_t code, Entry::Kind kind, uint32_t stored, bool expires) {
    EXPECT_EQ(internal::KindOf(code), kind) << int{code};
    EXPECT_EQ(internal::StoredBytes(code), stored) << int{code};
    EXPECT_EQ(internal::Expires(code), expires) << int{code};
    EXPECT_EQ(internal::StoredAndExpiryBytes(code), stored + (expires ? 6 : 0)) << int{code};
    const std::string bytes(stored, 'x');
    EXPECT_EQ(internal::ValueCode({"k", bytes, kind, expires ? 1u : 0u}), code);
  };
  for (uint8_t length = 0; length <= kMaxInlineValueBytes; ++length) {
    expect(length, Entry::Kind::kInline, length, false);
    expect(0x80 + length, Entry::Kind::kInline, length, true);
  }
  expect(0xfe, Entry::Kind::kBlock, 16, false);
  expect(0xfd, Entry::Kind::kLong, 24, false);
  expect(0xfc, Entry::Kind::kBlock, 16, true);
  expect(0xfb, Entry::Kind::kLong, 24, true);
}

// Entries of one length each, in a unit that is full: short ones are compared by 8 bytes, of which
// some are not theirs.
TEST(Group, FindsKeysOfAnyLengthInFullArrays) {
  for (size_t key_bytes = 1; key_bytes <= 20; ++key_bytes) {
    for (size_t value_bytes = 0; value_bytes <= 9; ++value_bytes) {
      const UnitImage unit;
      Content content;
      const auto key_at = [&](uint32_t i) {
        std::string key(key_bytes, 'k');
        key.back() = static_cast<char>(2 * i);
        return key;
      };
      for (uint32_t i = 0; i < 60; ++i) {
        Content more = content;
        more[key_at(i)] = {std::string(value_bytes, static_cast<char>(i))};
        if (unit.SizerOf(more).bytes() > unit.bytes) break;
        content = more;
      }
      const Bytes image = unit.Encode(content);
      const auto view = unit.Parse(image);
      ASSERT_TRUE(view.has_value());
      ASSERT_GE(content.size(), 4u);
      for (const auto& [key, stored] : content) {
        const auto found = view->Find(key);
        ASSERT_TRUE(found.has_value()) << key_bytes << " " << value_bytes;
        EXPECT_EQ(found->key, key);
        EXPECT_EQ(found->stored, stored.bytes);
        std::string other = key;
        ++other.back();
        EXPECT_FALSE(view->Find(other).has_value());
        other = key;
        ++other.front();
        EXPECT_EQ(view->Find(other).has_value(), content.contains(other));
        EXPECT_FALSE(view->Find(key + "x").has_value());
        EXPECT_FALSE(view->Find(key.substr(1)).has_value());
      }
    }
  }
}

TEST(Group, TakesViewsOfNothing) {
  const UnitImage unit;
  const std::vector<Entry> entries{Entry{}};
  Bytes image(unit.bytes);
  ASSERT_TRUE(
      EncodeGroup(image, unit.leaf, unit.number, unit.version, false, {}, entries, Keys::kWhole));
  const auto view = unit.Parse(image);
  ASSERT_TRUE(view.has_value());
  EXPECT_TRUE(view->Find(KeyView()).has_value());
  EXPECT_TRUE(view->Find("").has_value());
}

TEST(Group, BlockReferencesComeBack) {
  const UnitImage unit;
  const Bytes image = unit.Encode({{"k", StoredBlock(0x1234560, kMaxValueBytes, 0xcafe)}});
  const auto found = unit.Parse(image)->Find("k");
  ASSERT_TRUE(found && found->has_block());
  EXPECT_EQ(found->block().pointer, 0x1234560u);
  EXPECT_EQ(found->block().length, kMaxValueBytes);
  EXPECT_EQ(found->block().checksum, 0xcafeu);
}

// A long key is found by its hash and its first bytes; what else decides is asked.
TEST_F(GroupTest, LongKeysComeBack) {
  const std::string low(100, 'p');
  const UnitImage unit{.range = {low, HighFence::At(low + 'z')}};
  const std::string first = low + "abc" + random.String(140);
  const std::string second = low + "b" + std::string(20, 'b');
  const Content content{{low + "a", {"short"}},
                        {first, test::StoredLong(0x40, 7, 8, first)},
                        {second, test::StoredLong(0x80, 9, 10, second)}};
  const auto image = unit.Encode(content);
  const auto view = unit.Parse(image);
  ASSERT_TRUE(view.has_value());
  EXPECT_EQ(unit.SizerOf(content).bytes(),
            kGroupHeaderBytes + 1 + (1 + 1 + 1 + 5) + 2 * (2 + kLongHeadBytes + sizeof(LongRef)));
  for (const auto& [key, stored] : content) {
    const bool is_long = stored.kind == Entry::Kind::kLong;
    EXPECT_EQ(view->Find(key).has_value(), !is_long);
    std::vector<Entry> asked;
    const auto is_it = [&](const Entry& entry) {
      asked.push_back(entry);
      return true;
    };
    const auto found = view->FindLong(key, KeyHash(key), is_it);
    ASSERT_EQ(found.has_value(), is_long);
    EXPECT_EQ(asked.size(), is_long ? 1u : 0u);
    EXPECT_FALSE(view->FindLong(key, KeyHash(key) + 1, is_it).has_value());
    if (!is_long) continue;
    EXPECT_EQ(found->stored, stored.bytes);
    EXPECT_EQ(found->key, KeyView(key).substr(low.size(), kLongHeadBytes));
    EXPECT_FALSE(view->FindLong(low + "a", KeyHash(key), is_it).has_value()) << "first bytes";
    EXPECT_FALSE(view->FindLong(key, KeyHash(key), [](const Entry&) { return false; }).has_value());
  }
}

TEST(Group, HoldsAtMostMaxEntries) {
  Content content;
  for (int i = 0; i < 129; ++i) content[std::string(1, static_cast<char>(i))] = {""};
  Bytes image(168);
  const UnitImage unit{.bytes = 168};
  EXPECT_FALSE(unit.TryEncode(image, content));
  content.erase(content.begin());
  EXPECT_TRUE(unit.TryEncode(image, content));
  EXPECT_EQ(ContentOf(*unit.Parse(image)), content);
}

// ---- Rejection

TEST_F(GroupTest, RejectsEverySingleBitError) {
  for (int i = 0; i < 20; ++i) {
    const UnitImage unit = RandomUnit();
    ForEachBitFlip(unit.Encode(FillRandomly(unit)), [&](const Bytes& image, size_t bit) {
      ASSERT_FALSE(unit.Parse(image).has_value()) << bit;
    });
  }
}

TEST_F(GroupTest, RejectsAnotherPlace) {
  const UnitImage unit = RandomUnit();
  const Bytes image = unit.Encode(FillRandomly(unit));
  ASSERT_TRUE(unit.Parse(image).has_value());
  for (uint32_t number = 0; number <= kMaxUnits; ++number) {
    ASSERT_EQ(GroupView::Parse(image, unit.leaf, number, unit.range.low).has_value(),
              number == unit.number);
  }
  for (RemotePtr other = unit.leaf.NextGeneration(); other != unit.leaf;
       other = other.NextGeneration()) {
    ASSERT_FALSE(GroupView::Parse(image, other, unit.number, unit.range.low).has_value());
  }
  for (int bit = 0; bit < 64; ++bit) {  // another offset, another server
    const RemotePtr other = RemotePtr::FromWord(unit.leaf.word() ^ uint64_t{1} << bit);
    ASSERT_FALSE(GroupView::Parse(image, other, unit.number, unit.range.low).has_value());
  }
}

// A reader with another low fence in mind.
TEST_F(GroupTest, RejectsAnotherPrefix) {
  size_t with_prefix = 0;
  for (int i = 0; i < 2000; ++i) {
    const UnitImage unit = RandomUnit();
    const Bytes image = unit.Encode(FillRandomly(unit));
    const std::string prefix(unit.range.bounds().prefix);
    const auto parse = [&](KeyView within) {
      return GroupView::Parse(image, unit.leaf, unit.number, within).has_value();
    };
    ASSERT_TRUE(parse(prefix + random.String(random.Below(9)))) << "any key that has it will do";
    if (unit.range.own.of == PrefixOf::kHighFence) {
      ASSERT_TRUE(parse(random.String(random.Below(9)))) << "the unit has all of it";
      continue;
    }
    if (prefix.empty()) continue;
    ++with_prefix;
    ASSERT_FALSE(
        parse(KeyView(prefix).substr(0, random.Below(static_cast<uint32_t>(prefix.size())))));
    std::string other = prefix;
    other[random.Below(static_cast<uint32_t>(prefix.size()))] ^=
        static_cast<char>(1u << random.Below(8));
    ASSERT_FALSE(parse(other));
  }
  EXPECT_GT(with_prefix, 500u);
}

TEST_F(GroupTest, RejectsMemoryThatNobodyWrote) {
  for (int i = 0; i < 10000; ++i) {
    const RemotePtr leaf = RemotePtr::FromWord(random.Word());
    ASSERT_FALSE(GroupView::Parse(Bytes(164), leaf, random.Below(kMaxUnits), "abc").has_value());
  }
}

TEST_F(GroupTest, MixturesOfTwoWritesAreRejected) {
  for (int i = 0; i < 30; ++i) {
    UnitImage unit = RandomUnit();
    Content content = FillRandomly(unit);
    const Bytes before = unit.Encode(content);
    switch (random.Below(4)) {  // what clients do to a group
      case 0:                   // update
        if (!content.empty() && !content.begin()->second.bytes.empty()) {
          content.begin()->second.bytes[0] ^= 1;
        }
        break;
      case 1:  // delete
        if (!content.empty()) content.erase(content.begin());
        break;
      case 2:  // split
        unit.version = Next(unit.version);
        break;
      default: content = FillRandomly(unit);
    }
    const Bytes after = unit.Encode(content);
    ForEachMixture(before, after, random, 2000, [&](const Bytes& mixture) {
      ASSERT_EQ(unit.Parse(mixture).has_value(), mixture == before || mixture == after)
          << ToHex(mixture);
    });
  }
}

// ---- Hostile bytes under a valid checksum

// A malicious client can compute checksums, too. What a view accepts must be in bounds.
void ExpectInBounds(const GroupView& view, std::span<const std::byte> unit) {
  const auto* begin = reinterpret_cast<const char*>(unit.data());
  const char* end = begin + unit.size();
  uint32_t count = 0;
  view.ForEach([&](const Entry& entry) {
    ++count;
    ASSERT_LE(entry.key.size(), kMaxKeyBytes);
    ASSERT_GE(entry.key.data(), begin);
    ASSERT_LE(entry.key.data() + entry.key.size(), end);
    ASSERT_GE(entry.stored.data(), begin);
    ASSERT_LE(entry.stored.data() + entry.stored.size(), end);
    if (entry.has_block()) {
      ASSERT_EQ(entry.stored.size(), entry.is_long() ? sizeof(LongRef) : sizeof(BlockRef));
      ASSERT_LE(entry.block().length, kMaxContentBytes);
    }
    ASSERT_LE(view.prefix().size() + entry.key.size(), kMaxKeyBytes);
    const std::string key = std::string(view.prefix()) + std::string(entry.key);
    const auto found = entry.is_long()
                           ? view.FindLong(key, entry.key_hash(), [](const Entry&) { return true; })
                           : view.Find(key);
    ASSERT_TRUE(found.has_value());
  });
  ASSERT_EQ(count, view.count());
  ASSERT_LE(view.high().key.size(), kMaxKeyBytes);
}

TEST_F(GroupTest, HostileHeadersAreRejectedOrInBounds) {
  const UnitImage unit{.range = {.low = "a low fence of thirty-two bytes!"}};
  int accepted = 0;
  for (int i = 0; i < 200000; ++i) {
    // On the heap at its exact size, so that the address sanitizer detects every out-of-bounds
    // access.
    Bytes image(random.OneIn(2) ? 164 : 108);
    const std::string noise = random.String(static_cast<uint32_t>(image.size()));
    std::memcpy(image.data(), noise.data(), noise.size());
    for (const size_t field : {12u, 13u, 14u, 15u, 16u, 17u}) {
      constexpr uint8_t kTelling[] = {0, 1, 2, 16, 31, 32, 33, 62, 63, 127, 128, 253, 254, 255};
      if (random.OneIn(2)) image[field] = std::byte{kTelling[random.Below(std::size(kTelling))]};
    }
    SealUnit(image, unit.leaf, unit.number, unit.range.low);
    if (const auto view = unit.Parse(image)) {
      ++accepted;
      ExpectInBounds(*view, image);
    }
  }
  EXPECT_GT(accepted, 1000);  // else this test proves nothing
}

TEST_F(GroupTest, HostileLengthsOfEntriesAreRejectedOrInBounds) {
  for (int i = 0; i < 2000; ++i) {
    const UnitImage unit = RandomUnit();
    const Bytes whole = unit.Encode(FillRandomly(unit));
    for (int j = 0; j < 20; ++j) {
      Bytes image = whole;
      image[random.Between(12, static_cast<uint32_t>(image.size()) - 1)] = std::byte{
          static_cast<uint8_t>(random.OneIn(2) ? 255 - random.Below(4) : random.Below(256))};
      SealUnit(image, unit.leaf, unit.number, unit.range.low);
      if (const auto view = unit.Parse(image)) ExpectInBounds(*view, image);
    }
  }
}

// Cut anywhere, also between a value and the time behind it.
TEST_F(GroupTest, UnitsThatAreCutAreRejectedOrInBounds) {
  for (int i = 0; i < 200; ++i) {
    const UnitImage unit = RandomUnit();
    const Bytes whole = unit.Encode(FillRandomly(unit));
    for (size_t bytes = kGroupHeaderBytes; bytes < whole.size(); ++bytes) {
      Bytes image(whole.begin(), whole.begin() + static_cast<ptrdiff_t>(bytes));
      SealUnit(image, unit.leaf, unit.number, unit.range.low);
      if (const auto view = unit.Parse(image)) ExpectInBounds(*view, image);
    }
  }
}

// A client allocates as much for a value as its reference says.
TEST(Group, RejectsReferencesToValuesLongerThanThereAre) {
  const UnitImage unit;
  Content content{{"a", StoredBlock(64, kMaxContentBytes + 1, 0)}};
  EXPECT_FALSE(unit.Parse(unit.Encode(content)).has_value()) << "uniform";
  content["bc"] = {"inline"};
  EXPECT_FALSE(unit.Parse(unit.Encode(content)).has_value()) << "variable";
  content["a"] = StoredBlock(64, kMaxContentBytes, 0);
  EXPECT_TRUE(unit.Parse(unit.Encode(content)).has_value());
}

}  // namespace
}  // namespace gossamer
