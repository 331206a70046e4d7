#include "common/program/out_of_memory.h"

#include <unistd.h>

#include <new>

#include "common/program/flags_main.h"

namespace gossamer {
namespace {

std::string_view explanation;

// Nothing here allocates: not the log either.
[[noreturn]] void Explain() {
  static_cast<void>(!write(STDERR_FILENO, explanation.data(), explanation.size()));
  _exit(kExitFailure);
}

}  // namespace

void ExplainOutOfMemory(std::string_view sentence) {
  explanation = sentence;
  std::set_new_handler(Explain);
}

}  // namespace gossamer
