// Memory that memory servers on this machine promised to clients but have not touched. The kernel
// still counts it as available, so that two servers could both count on it.
//
// Cost: some milliseconds. It looks at every open file of every process visible to this user.
#pragma once

#include <sys/types.h>

#include <cstdint>

namespace gossamer {

enum class Promisers : uint8_t {
  kAll,    // including this process
  kOlder,  // processes that started before this one: if two are short, the younger gives up
};

// Bytes promised by one process.
uint64_t PromisedBytesOf(pid_t process);

// Counts shared memory (--fabric=shm) outside the huge pages set aside. Servers of other users and
// containers are not visible.
uint64_t PromisedBytes(Promisers whose);

}  // namespace gossamer
