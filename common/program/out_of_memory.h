// What a program says before it ends because it gets no memory.
#pragma once

#include <string_view>

namespace gossamer {

// From now on, when `new` gets no memory, the program writes `sentence` to stderr and ends with
// status 1. `sentence` says what to do, ends with a newline, and lives as long as the program.
// Thread-safety: call it before threads are started.
void ExplainOutOfMemory(std::string_view sentence);

}  // namespace gossamer
