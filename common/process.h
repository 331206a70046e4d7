// Identifies a process, so that others on the same machine can tell whether it still runs.
//
// "BOOT/PIDNS/PID/START": the first 16 digits of the machine's boot id, the inode of the pid
// namespace, the pid, and the clock tick at which the process started. A reused pid has another
// start.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "proto/control.h"

namespace gossamer {

enum class ProcessState : uint8_t {
  kRunning,
  kGone,
  kOtherBoot,  // Another machine, or this one before a reboot.
  kUnknown,    // Another pid namespace, or an identity without information.
};

// The calling process's; "-" if /proc does not tell.
std::string OwnProcessIdentity();
// Of a process of this machine, by its id in this pid namespace; "-" if there is none.
std::string ProcessIdentity(pid_t pid);
ProcessState LookUpProcess(std::string_view identity);
// Waits until the process has ended, with all of its threads and their hold on memory, devices and
// files. Returns false if it still runs after `patience`; true if it cannot be seen from here.
bool AwaitEnd(std::string_view identity, std::chrono::milliseconds patience);
// The pid in an identity, "?" if it has none.
std::string ProcessIdOf(std::string_view identity);

std::string HostName();  // a word without blanks

// The name of a compute server in messages to people: the calling process and this host.
control::ProcessName OwnProcessName();
// "process 4711 on host ant", or "a process that did not say its name". Shows unprintable bytes as
// '?', because the name came from another machine.
std::string Describe(const control::ProcessName& process);

}  // namespace gossamer
