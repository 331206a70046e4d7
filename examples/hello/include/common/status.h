// What this program says when something fails. The name is its own: Gossamer's headers are all
// <gossamer/NAME.h>.
#pragma once

#include <gossamer/status.h>

#include <cstdlib>
#include <iostream>
#include <string_view>

inline int Fail(std::string_view what, const gossamer::Error& error) {
  std::cerr << what << ": " << error.ToString() << '\n';
  return EXIT_FAILURE;
}
