// Other stores under the same load, for a yardstick: puts of records in random order, then gets of
// uniformly random ones, by one thread that may have `in_flight` operations under way.
//
// Each store is used as its authors advise for speed without durability, as Gossamer's memory is
// not durable either. Thread-safety: none; one thread.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "common/status.h"

namespace gossamer::bench {

struct Pair {
  std::string_view key;
  std::string_view value;
};

class Baseline {
 public:
  virtual ~Baseline() = default;
  virtual std::string version() const = 0;
  // How it was used, for the table: "pipelined over a unix socket".
  virtual std::string description() const = 0;
  // Puts and gets may still be under way when these return, until the next call or `Finish`. What
  // the views point to must live as long.
  virtual Status Put(std::span<const Pair> pairs) = 0;
  virtual Status Get(std::span<const std::string_view> keys) = 0;
  // Waits for all.
  virtual Status Finish() = 0;
  // Processor time that the store and this program have had so far, in whichever process.
  virtual Result<double> CpuSeconds() = 0;
  // Values that gets have found so far, all of the expected length.
  virtual uint64_t found() const = 0;
};

// Processor time of this process.
double OwnCpuSeconds();

// A running redis-server at a unix socket. Two halves of `in_flight` are pipelined, so that client
// and server work at the same time.
Result<std::unique_ptr<Baseline>> OpenRedis(const std::string& socket, size_t value_bytes);

// An LMDB environment in `directory` (a RAM file system, to leave the disk out), without fsync.
// Each call of Put is a transaction, each call of Get a snapshot.
Result<std::unique_ptr<Baseline>> OpenLmdb(const std::string& directory, uint64_t map_bytes,
                                           size_t value_bytes);

}  // namespace gossamer::bench
