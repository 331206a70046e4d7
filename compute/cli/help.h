// The texts of `gossamer help` and `--help`.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "compute/cli/command.h"

namespace gossamer::cli {

// What the program is for and its commands; ends where the list of flags may follow.
std::string HelpOverview();

// One command. `describe_flag` tells what a flag is for.
std::string HelpCommand(const Command& command,
                        const std::function<std::string(std::string_view flag)>& describe_flag);

// The command of that name, or null.
const Command* CommandByName(std::string_view name);

}  // namespace gossamer::cli
