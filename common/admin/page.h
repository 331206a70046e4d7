// The live page of an admin endpoint: one HTML text with its style and script inside.
//
// page/ has the sources; CMake joins them into page.cc (page.cc.in). The page loads nothing but
// /state of the server that it came from, and shows strings of /state as text only.
// Thread-safety: constant.
#pragma once

#include <string_view>

namespace gossamer {

std::string_view PageHtml();

}  // namespace gossamer
