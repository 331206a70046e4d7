// The recorder of a run: what every coroutine of every client does, when, and with what result.
//
// Its clock counts steps: each begin and each end of an operation is one, so that the order is
// exact even at one instant of virtual time. The operations of a killed client stay open: a write
// of unknown outcome (history::Outcome::kUnknown), or a read that never returned.
//
// The recorder also folds everything into a hash. Runs that differ in anything differ in the hash.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "common/fabric/sim/sim.h"
#include "compute/verify/history/history.h"
#include "compute/verify/history/scan.h"

namespace gossamer::simulator {

class Recorder {
 public:
  // One coroutine of one session of one client, and its current operation.
  struct Lane {
    uint32_t client = 0;
    uint32_t session = 0;
    uint32_t coroutine = 0;
    bool is_busy = false;
    bool is_dead = false;  // its client was killed
    history::Event event;  // the operation under way
    Endpoint::Clock::time_point since;
  };

  // With `trace`, prints each begin and end to it.
  explicit Recorder(const SimNetwork& network, std::ostream* trace)
      : network_(network), trace_(trace) {}

  // Returns the lane's number. `client` counts lives: a client's replacement has another number.
  uint32_t AddLane(uint32_t client, uint32_t session, uint32_t coroutine);
  const std::vector<Lane>& lanes() const { return lanes_; }

  // An operation begins. `value`: what a write writes.
  void Begin(uint32_t lane, history::OperationKind kind, uint32_t key, history::ValueId value);
  // The function of a modify replaces `seen` by `value`. The last call counts.
  void Modifies(uint32_t lane, history::ValueId seen, history::ValueId value);
  // The operation ends and enters the history. `value`: what a get saw, or a write left. No effect
  // if the lane is dead.
  void End(uint32_t lane, history::Outcome outcome, history::ValueId value);
  // The operation ends without effect. A read of its value is then an error.
  void EndWithoutEffect(uint32_t lane, const Error& error);
  // A scan returned a row. Returns the row's time.
  int64_t Row(uint32_t lane, uint32_t key, history::ValueId value);
  // A scan ends. `scan` has its rows and its request. Returns a sentence if the scan is wrong.
  std::optional<std::string> EndScan(uint32_t lane, history::Scan& scan);
  // The operation under way on `lane` writes `value`, which expires at that time of the network. If
  // it is under way still by then, it leaves the key absent, but others that are combined with it
  // may see the value.
  void Expires(uint32_t lane, history::ValueId value, Endpoint::Clock::time_point at);
  // Whether the read on `lane`, under way, began after `value` had expired.
  bool BeganAfterExpiry(uint32_t lane, history::ValueId value) const;
  // No more operations follow.
  void EndExpiries();
  // The client's operations stay open for ever.
  void Kill(uint32_t client);
  // From now on, each of so many keys may be lost, once; and what the writes under way write, once
  // more.
  void MayLoseAll(uint32_t keys);
  // How many losses that has allowed so far. The first so many have happened by now, or never do.
  size_t losses() const { return losses_.size(); }
  void EndLosses(size_t first);
  // A line of the trace that enters the hash.
  void Note(const std::string& text);
  // A line of the trace from elsewhere, which does not enter the hash.
  void Tell(const std::string& text) { Print(text); }

  std::vector<history::Event>& events() { return events_; }
  uint64_t ended() const { return ended_; }
  // Whether an operation of the client is under way.
  bool IsBusy(uint32_t client) const;
  uint64_t hash() const { return hash_; }
  // The number of operations under way, and a line for each of the oldest.
  std::string UnderWay() const;

 private:
  int64_t Tick();
  void Fold(uint64_t word);
  std::string Name(const Lane& lane) const;
  void Print(const std::string& text);

  const SimNetwork& network_;
  std::ostream* const trace_;
  std::vector<Lane> lanes_;
  std::vector<history::Event> events_;
  struct Expiry {
    uint32_t lane;  // that writes the value
    history::Event event;
  };
  void EndExpiry(history::Event event, int64_t end);

  // Of values whose time has not come yet: by that time.
  std::multimap<Endpoint::Clock::time_point, Expiry> expiries_;
  std::vector<Expiry> late_;  // their time has come before their writes have ended
  std::unordered_map<history::ValueId, int64_t> expired_at_;
  std::vector<size_t> losses_;  // those of events_ that MayLoseAll has added
  int64_t now_ = 0;
  uint64_t ended_ = 0;
  uint64_t hash_ = 0;
};

// "1.234567 s", to the nanosecond.
std::string TimeText(Endpoint::Clock::time_point time);

}  // namespace gossamer::simulator
