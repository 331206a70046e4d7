#include "proto/front_coding.h"

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "proto/test_support.h"

namespace gossamer {
namespace {

using test::Bytes;

class FrontCodingTest : public test::SeededTest {
 protected:
  // In rising order: of few different bytes, so that they share much, and of all lengths.
  std::vector<std::string> RandomKeys() {
    const uint32_t longest = random.Between(1, random.OneIn(2) ? kMaxKeyBytes : 10);
    const uint32_t letters = random.Between(1, 4);
    const std::string stem = random.String(longest);
    std::set<std::string> keys;
    for (uint32_t i = random.Between(1, 60); i != 0; --i) {
      std::string key = stem.substr(0, random.OneIn(2) ? 0 : random.Below(longest + 1));
      const auto room = longest - static_cast<uint32_t>(key.size());
      for (uint32_t j = random.Below(room + 1); j != 0; --j) {
        key += static_cast<char>(random.OneIn(3) ? 0 : random.Below(letters));
      }
      keys.insert(key);
    }
    return {keys.begin(), keys.end()};
  }

  // All but the first, each with 8 bytes of 0xff behind it.
  Bytes Stored(const std::vector<std::string>& keys) {
    Bytes bytes(keys.size() * (kLengthsBytes + kMaxKeyBytes + kBehindKey), std::byte{0xff});
    std::byte* at = bytes.data();
    for (size_t i = 1; i < keys.size(); ++i) {
      const Key before(keys[i - 1]);
      const Key key(keys[i]);
      at = AppendFrontCoded(at, key, SharedBytes(before, key));
      at = std::fill_n(at, kBehindKey, std::byte{0xff});
    }
    bytes.resize(static_cast<size_t>(at - bytes.data()));
    return Bytes(bytes);
  }
};

TEST_F(FrontCodingTest, SharedBytesAreTheCommonBytes) {
  for (int i = 0; i < 2000; ++i) {
    const std::vector<std::string> keys = RandomKeys();
    for (size_t j = 1; j < keys.size(); ++j) {
      ASSERT_EQ(SharedBytes(Key(keys[j - 1]), Key(keys[j])), CommonBytes(keys[j - 1], keys[j]));
    }
  }
}

TEST_F(FrontCodingTest, KeysComeBack) {
  for (int i = 0; i < 2000; ++i) {
    const std::vector<std::string> keys = RandomKeys();
    const Bytes bytes = Stored(keys);
    const char* at = reinterpret_cast<const char*>(bytes.data());
    KeyRebuilder rebuilder(keys[0]);
    for (size_t j = 1; j < keys.size(); ++j) {
      const Suffix suffix = Suffix::At(at);
      ASSERT_EQ(suffix.shared, CommonBytes(keys[j - 1], keys[j]));
      ASSERT_EQ(suffix.view(), keys[j].substr(suffix.shared));
      ASSERT_EQ(suffix.prefix(), KeyPrefix(suffix.view()));
      ASSERT_EQ(rebuilder.Next(suffix), keys[j]);
      at = suffix.end() + kBehindKey;
    }
    ASSERT_EQ(at, reinterpret_cast<const char*>(bytes.data() + bytes.size()));
  }
}

// The place is that of lower_bound in a sorted vector, and its numbers are common bytes.
TEST_F(FrontCodingTest, APlaceIsThatInASortedVector) {
  for (int i = 0; i < 2000; ++i) {
    const std::vector<std::string> keys = RandomKeys();
    const Bytes bytes = Stored(keys);
    const char* const begin = reinterpret_cast<const char*>(bytes.data());
    std::vector<const char*> places{begin};
    for (size_t j = 1; j < keys.size(); ++j) {
      places.push_back(Suffix::At(places.back()).end() + kBehindKey);
    }
    std::vector<std::string> wanted = RandomKeys();
    for (const std::string& key : keys) {
      wanted.push_back(key);
      wanted.push_back(key + '\0');
      wanted.push_back(key.substr(0, random.Below(static_cast<uint32_t>(key.size()) + 1)) + 'x');
    }
    for (const std::string& key : wanted) {
      if (key <= keys[0] || key.size() > kMaxKeyBytes) continue;
      const auto index =
          static_cast<size_t>(std::ranges::lower_bound(keys, key) - keys.begin());  // at least 1
      const KeyPlace place = FindPlace(key, keys[0], begin, begin + bytes.size());
      ASSERT_EQ(place.at, places[index - 1]);
      ASSERT_EQ(place.shared, CommonBytes(keys[index - 1], key));
      if (index == keys.size()) {
        ASSERT_EQ(place.more, 0u);
      } else {
        const size_t of_next = CommonBytes(key, keys[index]);
        ASSERT_EQ(place.more, std::max<size_t>(of_next, place.shared) - place.shared);
      }
    }
  }
}

}  // namespace
}  // namespace gossamer
