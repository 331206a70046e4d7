#include "memory/memory_admin.h"

#include <nlohmann/json.hpp>

#include "memory/memory_metrics.h"

namespace gossamer {

ProgramAdmin::Served ServedBy(const MemoryServer& server) {
  const auto figures = [&server] { return MemoryFigures{server.Stat(), server.Clients()}; };
  return {.families = [&server, figures] { return MemoryFamilies(server.Facts(), figures()); },
          .state = [&server, figures] { return MemoryState(server.Facts(), figures()); }};
}

}  // namespace gossamer
