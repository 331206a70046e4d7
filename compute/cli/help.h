// The texts of `gossamer help` and `--help`.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "compute/cli/command.h"

namespace gossamer::cli {

// The program's purpose and its commands; ends where a list of flags may follow.
std::string HelpOverview();

// Help for one command. `describe_flag` returns the description of a flag.
std::string HelpCommand(const Command& command,
                        const std::function<std::string(std::string_view flag)>& describe_flag);

}  // namespace gossamer::cli
