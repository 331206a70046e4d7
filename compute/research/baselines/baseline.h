// Stores under one load, for comparison: puts of records in random order, then gets of uniformly
// random ones, by one thread with `in_flight` operations in flight; then scans, one at a time.
//
// Each store is used as its authors advise for speed without durability: Gossamer's memory is not
// durable either. Gossamer itself is here for the scans: the same program then measures both sides.
//
// Thread-safety: none; one thread.
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
  // How the store is used, for the table: "pipelined over a unix socket".
  virtual std::string description() const = 0;
  // Puts and gets may still be in flight after these return, until the next call or `Finish`. The
  // bytes of the views must live as long.
  virtual Status Put(std::span<const Pair> pairs) = 0;
  virtual Status Get(std::span<const std::string_view> keys) = 0;
  // Reads keys and values in ascending order from `from` on, `length` at most. Returns their
  // number.
  // Errors: Unsupported by a store without an order.
  virtual Result<uint64_t> Scan(std::string_view from, uint64_t length) = 0;
  // Waits for all operations.
  virtual Status Finish() = 0;
  // Processor time used so far by the store and this program, in all their processes.
  virtual Result<double> CpuSeconds() = 0;
  // Values found by gets so far, all of the expected length.
  virtual uint64_t found() const = 0;
  // A sum over the bytes that scans returned, so that reading them is part of a scan.
  uint64_t scanned() const { return scanned_; }

 protected:
  void See(std::string_view key, std::string_view value) {
    scanned_ += static_cast<unsigned char>(key.back()) + value.size() +
                (value.empty() ? 0 : static_cast<unsigned char>(value.front()));
  }

 private:
  uint64_t scanned_ = 0;
};

// Processor time of this process.
double OwnCpuSeconds();

// A running redis-server at a unix socket. `in_flight` is pipelined in two halves, so that client
// and server work at the same time.
Result<std::unique_ptr<Baseline>> OpenRedis(const std::string& socket, size_t value_bytes);

// An LMDB environment without fsync in `directory` (a RAM file system, to exclude the disk). Each
// call of Put is a transaction, and each call of Get a snapshot.
Result<std::unique_ptr<Baseline>> OpenLmdb(const std::string& directory, uint64_t map_bytes,
                                           size_t value_bytes);

// A store of Gossamer in this process, over shared memory.
Result<std::unique_ptr<Baseline>> OpenGossamer(uint64_t memory_bytes, uint64_t key_bytes,
                                               uint64_t value_bytes);

}  // namespace gossamer::bench
