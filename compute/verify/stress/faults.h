// What a stress run does to processes, and which errors of clients it explains.
//
// A fault explains an error only if it can have that effect on that call, their times overlap, and
// the error names no other memory server than the fault's, unless it says that another store has
// the name. A killed client explains nothing: others take its locks and notice nothing.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "compute/verify/stress/failed_call.h"

namespace gossamer::stress {

enum class FaultKind : uint8_t {
  kRestart,           // of a memory server, without its memory
  kReturn,            // a memory server is killed, and comes back with its memory
  kStop,              // a memory server stops and resumes later
  kFlush,             // of memcached
  kMemcachedRestart,  // memcached comes back empty
  kLoss,              // of one connection of a client
};

std::string_view FaultName(FaultKind kind);

struct Fault {
  FaultKind kind = FaultKind::kRestart;
  std::optional<uint32_t> server;  // its id in the store of that era
  std::optional<uint32_t> client;  // the client whose connection was lost
  // In nanoseconds of the clock that all processes share. The process ended at some time in [from,
  // gone]. Another took its place at `back`. The fault has no effect after `until`.
  int64_t from = 0;
  int64_t gone = 0;
  int64_t back = 0;
  int64_t until = 0;
  // kReturn: on this fabric, the fate of what was posted when the server was killed is not known.
  bool leaves_doubt = false;
};

bool Explains(const Fault& fault, const FailedCall& failed);

// The effects of a run's faults.
class FaultTable {
 public:
  // Assigns each of `failures` to one of `faults`, or to none.
  void Judge(std::span<const Fault> faults, std::span<const FailedCall> failures);

  uint64_t unexplained() const { return unexplained_; }
  // The first unexplained failures, as sentences.
  const std::vector<std::string>& examples() const { return examples_; }
  // One line for each kind of fault and of error.
  std::string ToString() const;

 private:
  struct Row {
    std::optional<FaultKind> fault;  // nullopt: unexplained
    Code code;
    bool says_what_happened;
    Call call;
    auto operator<=>(const Row&) const = default;
  };
  struct Effect {
    uint64_t count = 0;
    std::string example;
  };

  std::map<Row, Effect> rows_;
  std::map<FaultKind, uint64_t> faults_;
  uint64_t unexplained_ = 0;
  std::vector<std::string> examples_;
};

}  // namespace gossamer::stress
