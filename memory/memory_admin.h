// What the admin endpoint of a memory server's program shows while it serves.
#pragma once

#include "common/admin/program_admin.h"
#include "memory/memory_server.h"

namespace gossamer {

// `server` outlives what is returned. A request takes the control service's mutex for as long as it
// takes to copy its figures; verbs of clients do not need it.
ProgramAdmin::Served ServedBy(const MemoryServer& server);

}  // namespace gossamer
