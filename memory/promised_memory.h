// Memory that memory servers on this machine have promised to clients and not touched yet: the
// kernel still counts it as available, and each of two servers could take all of it for its own.
//
// Cost: looks at every open file of every process that this user may see; some milliseconds.
#pragma once

#include <sys/types.h>

#include <cstdint>

namespace gossamer {

enum class Promisers : uint8_t {
  kAll,    // this process, too
  kOlder,  // processes that started before this one: of two that are short, the younger gives up
};

// Of one process.
uint64_t PromisedBytesOf(pid_t process);

// Shared memory only (--fabric=shm), in pages that were not set aside. Servers of other users and
// containers are not seen.
uint64_t PromisedBytes(Promisers whose);

}  // namespace gossamer
