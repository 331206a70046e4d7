// Where this build has its programs, and where the sources are that it was built from, for tests
// that run or read them.
//
// CMake writes the one source of this library (built_paths.cc.in). No other object depends on where
// a build is, so that a compiler cache serves every clone.
#pragma once

#include <string>

namespace gossamer {

// `path`: within the build directory, as bin/gossamer-memory.
std::string BuiltFile(const std::string& path);
// `path`: within the sources, as docs/bench.md.
std::string SourceFile(const std::string& path);

}  // namespace gossamer
