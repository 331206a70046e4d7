// A member's upkeep of its store's record: what a memory server does between joining and leaving.
//
// A bootstrap may lose a record while the store lives: memcached is flushed, restarted or short of
// memory, a file is removed; and another store may then take the name. So every member looks at the
// record each Bootstrap::kLookInterval, remembers it, and acts:
//
//   it finds                                          it does
//   its own entry in its store's record               nothing
//   no record, or the note of a server that asks      puts back what it remembers, with a new
//   for one (membership.h)                            `restored`
//   its store's record without its entry, or with a   adds itself, raises next_server; all other
//   smaller next_server than it remembers             entries stay
//   its store's record with an incarnation of its   puts its present one in its place
//   own from before it came back (rejoin.h)
//   its store's record with another server under      changes nothing; reports that this server's
//   its id                                            data cannot be found any more
//   another store's record, whose server 0 is dead    replaces it by its own store's record
//   or has left, while its own server 0 lives
//   another store's record otherwise                  changes nothing; reports what must be stopped
//   a text that is no record, or no answer            changes nothing; reports it
//
// Every change is a compare-and-swap with what was just read: an outdated look changes nothing. A
// member that does not remember another one (which joined since its last look) may put back a
// record without it. The missing member adds itself at its own next look, before another server can
// get its id, because a joining server first lets a `restored` record stand for
// Bootstrap::republish_wait(). A member that leaves while there is no record puts back what it
// remembers without itself, so that no other member puts it back.
//
// Thread-safety: one thread at a time.
// Cost of a look: one read of the bootstrap. If another store has the name, the first and each
// tenth look also probe its server 0.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/bootstrap/membership.h"

namespace gossamer {

enum class Finding : uint8_t {
  kInPlace,      // the record names this server
  kPutBack,      // there was no record
  kMerged,       // this server or a part of what it knew was missing
  kTookBack,     // a dead store had the name
  kIdTaken,      // another server of the store has this one's id
  kOtherStore,   // another store has the name, and this server's store lives without it
  kStoreLost,    // another store has the name, and this server's own server 0 is dead or has left
  kUnreadable,   // not a record of this version
  kNoBootstrap,  // no answer
};

struct Look {
  Finding finding = Finding::kInPlace;
  std::string sentence;  // for the log; empty for kInPlace
};

class Member {
 public:
  // Requires (unchecked): `bootstrap` outlives it.
  Member(Bootstrap& bootstrap, const Joined& joined, LivenessProbe probe);

  // Looks once, and acts by the table above.
  Look LookAfterRecord();
  // Takes this server out of the record; the last one removes the record. Does nothing when the
  // record belongs to another store. If the record was lost, puts back what it remembers without
  // this server: other members would put it back with it.
  // Requires (unchecked): called once, with no look afterwards.
  Status Leave();
  // The record as last seen or put back.
  const StoreRecord& known() const { return known_; }

 private:
  // These return nullopt when the record changed meanwhile: look again.
  std::optional<Look> Publish(const std::optional<std::string>& expected, StoreRecord record,
                              Look done);
  std::optional<Look> PutBack(const std::optional<std::string>& note);
  std::optional<Look> Merge(const std::string& text, const StoreRecord& record);
  std::optional<Look> MeetOther(const std::string& text, const StoreRecord& other);
  void JudgeOther(const std::string& text, const StoreRecord& other);
  Liveness OwnRoot() const;

  Bootstrap& bootstrap_;
  const MemberRecord self_;
  const std::vector<uint64_t> earlier_;  // incarnations of this server
  const LivenessProbe probe_;
  StoreRecord known_;
  Held presence_;
  // The last judgement of another store, and for how many looks it still holds.
  std::string judged_text_;
  Liveness other_root_ = Liveness::kSilent;
  Liveness own_root_ = Liveness::kSilent;
  int judgement_looks_left_ = 0;
};

}  // namespace gossamer
