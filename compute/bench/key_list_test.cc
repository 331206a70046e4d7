#include "compute/bench/key_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <fstream>
#include <set>

#include "compute/bench/key_list_test_support.h"

namespace gossamer::bench {
namespace {

using testing::HasSubstr;

TEST(KeyListTest, LinesAreTakenAsTheyAre) {
  const KeyFile file(std::string("b\n a \r\n\\t\0\xff\nb!\nlast", 19));
  const KeyList list = KeyList::Read(file.options()).value();
  ASSERT_EQ(list.size(), 5u);
  EXPECT_EQ(list.line(0), "b");
  EXPECT_EQ(list.line(1), " a \r");
  EXPECT_EQ(list.line(2), std::string_view("\\t\0\xff", 4));
  EXPECT_EQ(list.line(3), "b!");
  EXPECT_EQ(list.line(4), "last") << "without a newline";
  EXPECT_EQ(list.longest(), 4u);
  EXPECT_EQ(list.bytes(), 1u + 4 + 4 + 2 + 4);
  EXPECT_EQ(list.path(), file.options().path);
}

TEST(KeyListTest, NoMoreLinesThanAskedForAreRead) {
  const KeyFile file("one\ntwo\n\nthree is far too long\n");
  KeyListOptions options = file.options();
  options.most_bytes = 3;
  options.most_lines = 2;
  EXPECT_EQ(KeyList::Read(options).value().size(), 2u);
  options.most_lines = 3;
  EXPECT_FALSE(KeyList::Read(options));
}

TEST(KeyListTest, FilesOfManyChunksAreReadWhole) {
  std::string text;
  for (int i = 0; i < 300'000; ++i) text += "key " + std::to_string(i) + "\n";
  ASSERT_GT(text.size(), 3u << 20);
  const KeyList list = KeyList::Read(KeyFile(text).options()).value();
  ASSERT_EQ(list.size(), 300'000u);
  for (int i = 0; i < 300'000; ++i) ASSERT_EQ(list.line(i), "key " + std::to_string(i));
}

TEST(KeyListTest, AWrongFileIsASentenceWithTheLine) {
  struct Case {
    std::string text;
    std::string sentence;
  };
  for (const Case& wrong : {
           Case{"", " is empty: give one key on each line"},
           Case{"a\n\nb\n", "line 2 of "},
           Case{"a\n\nb\n", " is empty: give one key on each line"},
           Case{"a\nb\n" + std::string(250, 'x') + "\n", "line 3 of "},
           Case{std::string(250, 'x'), " is too long for a key: give at most 249 bytes"},
           Case{std::string(5 << 20, 'x'), "line 1 of "},
           Case{"a\nb\nc\nb\na\n", "line 4 of "},
           Case{"a\nb\nc\nb\na\n", " is the same as line 2: give each key once"},
       }) {
    const KeyFile file(wrong.text);
    KeyListOptions options = file.options();
    options.most_bytes = 249;
    const Result<KeyList> list = KeyList::Read(options);
    ASSERT_FALSE(list) << wrong.sentence;
    EXPECT_EQ(list.error().code, Code::kInvalidArgument);
    EXPECT_THAT(list.error().message, HasSubstr(wrong.sentence));
    EXPECT_THAT(list.error().message, HasSubstr(options.path));
  }
}

TEST(KeyListTest, AFileThatCannotBeReadIsASentence) {
  EXPECT_EQ(KeyList::Read({.path = "/absent/keys"}).error().message,
            "cannot read /absent/keys: No such file or directory");
  EXPECT_EQ(KeyList::Read({.path = "/"}).error().message, "cannot read /: Is a directory");
}

TEST(KeyListTest, ShufflesWhatIsLoadedAndTheRestByThemselves) {
  std::string text;
  for (int i = 0; i < 1'000; ++i) text += std::to_string(1'000 + i) + "\n";
  const KeyFile file(text);
  KeyList list = KeyList::Read(file.options()).value();
  list.Shuffle(700);
  std::set<std::string_view> loaded;
  uint64_t ascents = 0;
  for (uint64_t id = 0; id < 1'000; ++id) {
    EXPECT_EQ(list.line(id) < "1700", id < 700) << id;
    loaded.insert(list.line(id));
    ascents += id > 0 && list.line(id) > list.line(id - 1);
  }
  EXPECT_EQ(loaded.size(), 1'000u);
  EXPECT_NEAR(static_cast<double>(ascents), 500, 100);
  KeyList again = KeyList::Read(file.options()).value();
  again.Shuffle(700);
  for (uint64_t id = 0; id < 1'000; ++id) EXPECT_EQ(again.line(id), list.line(id));
}

}  // namespace
}  // namespace gossamer::bench
