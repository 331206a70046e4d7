#include "common/version.h"

namespace gossamer {

std::string_view BuildVersion() { return GOSSAMER_VERSION; }

std::string_view BuildCompiler() {
#ifdef __clang__
  return "clang++ " __clang_version__;
#else
  return "g++ " __VERSION__;
#endif
}

std::string_view BuildType() { return GOSSAMER_BUILD_TYPE; }

}  // namespace gossamer
