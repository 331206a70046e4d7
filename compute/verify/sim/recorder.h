// The recorder of a run: what every coroutine of every client does, when, and what comes of it.
//
// Its clock counts: each begin and each end of an operation is one step, so that the order is exact where many of
// them share one instant of virtual time. A client that is killed leaves its operations open: a write of which nobody
// knows (history::Outcome::kUnknown), a read that never returned.
//
// Also folds everything into a hash: two runs that differ in anything differ in it.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

#include "common/fabric/sim/sim.h"
#include "compute/verify/history/history.h"
#include "compute/verify/history/scan.h"

namespace gossamer::simulator {

class Recorder {
 public:
  // A coroutine's place: which client's which session's which coroutine it is, and what it does at the moment.
  struct Lane {
    uint32_t client = 0;
    uint32_t session = 0;
    uint32_t coroutine = 0;
    bool is_busy = false;
    bool is_dead = false;  // its client was killed
    history::Event event;  // what is under way
    Endpoint::Clock::time_point since;
  };

  // With `trace`, prints each begin and end to it.
  explicit Recorder(const SimNetwork& network, std::ostream* trace)
      : network_(network), trace_(trace) {}

  // The lane's number. `client` counts lives: one that comes again after its death is another.
  uint32_t AddLane(uint32_t client, uint32_t session, uint32_t coroutine);
  const std::vector<Lane>& lanes() const { return lanes_; }

  // An operation begins. `value` is what a write writes.
  void Begin(uint32_t lane, history::OperationKind kind, uint32_t key, history::ValueId value);
  // It ends, and goes into the history. `value` is what a get saw. Nothing happens if the lane is dead.
  void End(uint32_t lane, history::Outcome outcome, history::ValueId value);
  // It ends, and has done nothing; whoever sees its value is wrong.
  void EndWithoutEffect(uint32_t lane, const Error& error);
  // A scan returned a row: the time of it.
  int64_t Row(uint32_t lane, uint32_t key, history::ValueId value);
  // A scan ends; `scan` has its rows and what was asked for. The sentence that says what is wrong with it.
  std::optional<std::string> EndScan(uint32_t lane, history::Scan& scan);
  // The client's operations stay as they are, forever.
  void Kill(uint32_t client);
  // A line of the trace, which the run depends on.
  void Note(const std::string& text);
  // A line of the trace, of somebody else's.
  void Tell(const std::string& text) { Print(text); }

  std::vector<history::Event>& events() { return events_; }
  uint64_t ended() const { return ended_; }
  uint64_t hash() const { return hash_; }
  // How much is under way, and the oldest of it, a line for each.
  std::string UnderWay() const;

 private:
  int64_t Tick() { return ++now_; }
  void Fold(uint64_t word);
  std::string Name(const Lane& lane) const;
  void Print(const std::string& text);

  const SimNetwork& network_;
  std::ostream* const trace_;
  std::vector<Lane> lanes_;
  std::vector<history::Event> events_;
  int64_t now_ = 0;
  uint64_t ended_ = 0;
  uint64_t hash_ = 0;
};

// "1.234567 s", to the nanosecond.
std::string TimeText(Endpoint::Clock::time_point time);

}  // namespace gossamer::simulator
