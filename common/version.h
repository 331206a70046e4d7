// How this program was built.
#pragma once

#include <string_view>

namespace gossamer {

std::string_view BuildVersion();   // "0.1.0"
std::string_view BuildCompiler();  // "g++ 12.2.0"
std::string_view BuildType();      // "RelWithDebInfo"

}  // namespace gossamer
