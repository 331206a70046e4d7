// The name of a compute server in messages to people: process and host.
#pragma once

#include <string>

#include "proto/control.h"

namespace gossamer {

// The calling process and this host.
control::ProcessName OwnProcessName();

// "process 4711 on host ant", or "a process that did not say its name". Shows unprintable bytes as
// '?', because the name came from another machine.
std::string Describe(const control::ProcessName& process);

}  // namespace gossamer
