#include "common/text/text_table.h"

#include <gtest/gtest.h>

namespace gossamer {
namespace {

TEST(TextTableTest, ColumnsAreAsWideAsTheirWidestCell) {
  const TextRows rows = {{"", "count", "p50"}, {"read", "12", "1.5 µs"}, {"a long name", "1,234"}};
  EXPECT_EQ(TextTable(rows),
            "                count      p50\n"
            "  read             12   1.5 µs\n"
            "  a long name   1,234\n");
}

TEST(TextTableTest, ChosenColumnsAreAlignedToTheLeft) {
  EXPECT_EQ(TextTable({{"1", "x", "2"}, {"10", "long", "20"}}, {1}),
            "   1   x       2\n"
            "  10   long   20\n");
  EXPECT_EQ(TextTable({}), "");
}

}  // namespace
}  // namespace gossamer
