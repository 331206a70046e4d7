#include "compute/gateway/commands/command_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <string>

namespace gossamer::gateway {
namespace {

TEST(CommandTable, FindsEachCommandInAnyCase) {
  for (const Command& command : Commands()) {
    std::string capitals(command.name);
    std::ranges::transform(capitals, capitals.begin(),
                           [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
    EXPECT_EQ(FindCommand(command.name), &command);
    EXPECT_EQ(FindCommand(capitals), &command);
    EXPECT_EQ(FindCommand(capitals.substr(0, 1) + std::string(command.name.substr(1))), &command);
  }
}

TEST(CommandTable, FindsNothingElse) {
  for (const Command& command : Commands()) {
    const std::string name(command.name);
    EXPECT_EQ(FindCommand(name + "x"), nullptr);
    EXPECT_EQ(FindCommand(name + std::string(1, '\0')), nullptr);
    std::string other = name;
    other[0] ^= '\x40';  // no letter: its other bits are those of one
    EXPECT_EQ(FindCommand(other), nullptr);
  }
  EXPECT_EQ(FindCommand(""), nullptr);
  EXPECT_EQ(FindCommand(std::string(1000, 'g')), nullptr);
}

}  // namespace
}  // namespace gossamer::gateway
