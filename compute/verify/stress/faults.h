// What a stress run does to processes, and which errors of clients that explains.
//
// An error counts as explained by a fault only if the fault can have that effect on that call, if their times overlap,
// and if the error names no other memory server than the fault's. A client that is killed explains nothing: others take
// its locks and notice nothing.
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
  kRestart,           // of a memory server
  kStop,              // a memory server stops, and goes on later
  kFlush,             // of memcached
  kMemcachedRestart,  // likewise empty
  kLoss,              // of one connection of a client
};

std::string_view FaultName(FaultKind kind);

struct Fault {
  FaultKind kind = FaultKind::kRestart;
  std::optional<uint32_t> server;  // its id in the store of that era
  std::optional<uint32_t> client;  // whose connection was lost
  // In nanoseconds of the clock that all processes share. A process is there up to some time from `from` to `gone`; another
  // has taken its place at `back`; nothing of it is to be noticed after `until`.
  int64_t from = 0;
  int64_t gone = 0;
  int64_t back = 0;
  int64_t until = 0;
};

bool Explains(const Fault& fault, const FailedCall& failed);

// What the faults of a run have led to.
class FaultTable {
 public:
  // Of `failures`, each is the effect of one of `faults`, or is unexplained.
  void Judge(std::span<const Fault> faults, std::span<const FailedCall> failures);

  uint64_t unexplained() const { return unexplained_; }
  // The first of them, as sentences.
  const std::vector<std::string>& examples() const { return examples_; }
  // One line for each kind of fault and of error.
  std::string ToString() const;

 private:
  struct Row {
    std::optional<FaultKind> fault;  // none: unexplained
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
