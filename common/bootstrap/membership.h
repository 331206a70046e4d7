// Membership: how memory servers form a store, and how clients find it. Works on any Bootstrap.
//
// A memory server joins in this order, alone among those that join the same store
// (Bootstrap::LockForJoin): read the record, decide the server id, initialise the region and start
// serving (`BringUp`), publish by compare-and-swap. No server is named before it answers,
// so one that dies on the way leaves at most a note behind (below); and should the lock have passed
// to another meanwhile (a process that was stopped for long), the compare-and-swap fails and so does
// the join.
//
// The DRAM of a memory server dies with it. So a record is judged by its servers:
//   - server 0, which holds the root, is dead or has left: the store is lost. A memory server that
//     joins creates a new, empty store in its place, with a new store id and its own parameters,
//     and says so on the log.
//   - server 0 neither answers nor is known to be dead (another machine that cannot be reached):
//     refused, as the store may live; `JoinOptions::replace_store` (--replace_store) overrules.
//     Nobody is advised to overrule where the process of server 0 is known to run.
//   - another server is dead: refused, as some keys are lost for good and joining would hide that;
//     `JoinOptions::forget_dead` (--forget_dead) overrules, and takes it out of the record.
//
// A bootstrap may lose the record of a store that lives, at any time and more than once. So a server
// creates a store, or takes an id, only in the place of a text
//   - that was never lost: a record without `restored` of a store that lives; or
//   - that has stood unchanged for Bootstrap::republish_wait(). All members that live have looked
//     meanwhile, and would have changed it (member.h). A record with `restored` is such a text.
// Where there is no record, or that of a lost store, the server itself puts such a text there: a
// note, which is a record without servers and with `restored`, or the record of the lost store with
// `restored` drawn anew. Each of these texts has its own `restored`, and none comes back. So what
// stands at the end of the wait has stood all the time, and a loss of any kind, up to the
// compare-and-swap that publishes, is noticed: a wait starts anew, or the publication fails. A join
// that never sees a text stand for its time ends with Contended.
// Nobody is asked where people decide (CreateMode::kNew), or where the bootstrap knows that no
// member lives (Bootstrap::MayHaveMembers).
//
// A server that stops cleanly takes itself out of the record; the last one removes the record.
// Server ids are never used again in a store, and a store gives kMaxMemoryServers of them. A server
// that fails before it publishes uses up none. A record that is lost before a member has seen that
// another one left may be put back with that one, which is then a dead server: nothing tells it from
// one that was killed with its keys. People do (JoinOptions::forget_dead).
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "common/bootstrap/bootstrap.h"
#include "common/status.h"
#include "proto/store_record.h"

namespace gossamer {

enum class Liveness : uint8_t {
  kAlive,        // Answers, with the recorded incarnation.
  kDead,         // Its process is gone, or another server answers in its place.
  kSilent,       // Does not answer; may still run.
  kUnreachable,  // Its process runs on this machine, but does not answer at the recorded address.
};

// Whether the server that `member` describes still serves the store. FabricProbe
// (common/bootstrap/server_probe.h) asks it.
using LivenessProbe =
    std::function<Liveness(const StoreRecord& record, const MemberRecord& member)>;

// What a server does that finds no store that lives.
enum class CreateMode : uint8_t {
  kAuto,  // Waits whether a lost record comes back, then creates one.
  kNew,   // Creates one at once. Refuses to join one that lives.
  kJoin,  // Never creates one. Waits some seconds for one to join.
};

// "auto", "new" or "join"; InvalidArgument for anything else.
Result<CreateMode> ParseCreateMode(std::string_view name);

struct JoinOptions {
  std::string store = "default";
  std::string fabric;  // "shm" or "verbs"
  StoreParameters parameters;
  bool replace_store = false;  // Treat a server 0 that does not answer as dead.
  bool forget_dead = false;    // Take other servers out of the record that are dead.
  CreateMode create = CreateMode::kAuto;
  // Instead of Bootstrap::republish_wait(), or of the time that kJoin waits. 0: waits for nobody.
  std::optional<std::chrono::milliseconds> patience;
  // Asked while it waits for a record; true ends that with Contended.
  std::function<bool()> is_to_stop = {};
};

// What a joining server is told; it goes into the region header.
struct MemberIdentity {
  uint64_t store_id = 0;
  uint64_t incarnation = 0;
  ServerId server{0};
  bool creates_store = false;
};

// Initialises the region, starts serving, and returns the address for clients.
using BringUp = std::function<Result<std::string>(const MemberIdentity&)>;

struct Joined {
  MemberIdentity identity;
  StoreRecord record;  // as published
};

// Errors: InvalidArgument when the store exists with other parameters or on another fabric (names
// the first that differs, and both values); NodeUnreachable for a bootstrap or a store that is not
// whole, or is none that kJoin may join (NotFound: there is none); Exhausted for a store that has given all its
// server ids; Contended when the record was changed or lost while this server started, or is lost
// again and again; InvalidArgument for an address that a record cannot hold; and whatever `bring_up`
// returns.
Result<Joined> JoinStore(Bootstrap& bootstrap, const JoinOptions& options,
                         const LivenessProbe& probe, const BringUp& bring_up);

// Takes a server out of the record; the last one removes it. Does nothing when the record is no
// longer its store's. Where the record was lost, `known` without the server is put back: other
// members would put it back with it.
Status LeaveStore(Bootstrap& bootstrap, const StoreRecord& known, const MemberIdentity& identity);

struct FindOptions {
  std::string store = "default";
  // How long to wait for a store that is not there yet, as when both sides are started together.
  std::chrono::milliseconds patience{0};
  // When set, every server is asked first, and NodeUnreachable names one that is not alive.
  LivenessProbe probe;
};

// Errors: NotFound (names the store, the bootstrap, and the command that starts a memory server);
// NodeUnreachable; Corruption when the record cannot be understood.
Result<StoreRecord> FindStore(Bootstrap& bootstrap, const FindOptions& options);

// The sentence of NodeUnreachable for a recorded server that cannot be reached.
Error ServerUnreachable(const StoreRecord& record, const MemberRecord& member, Liveness liveness,
                        const Bootstrap& bootstrap);

// Judges a server that did not answer by its process identity: kDead when it is known to be gone,
// kUnreachable when it is known to run. On shm all servers run on this machine, so that another
// boot is death too.
Liveness JudgeSilence(const StoreRecord& record, const MemberRecord& member);

}  // namespace gossamer
