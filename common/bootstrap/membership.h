// Membership: how memory servers form a store, and how clients find it. Works on any Bootstrap.
//
// A memory server joins in this order, alone among the joiners of the same store
// (Bootstrap::LockForJoin): read the record, decide the server id, initialise the region and start
// serving (`BringUp`), publish by compare-and-swap. The record names a server only after it
// answers, so a server that dies on the way leaves at most a note (below). Joining servers write
// only under that lock, the note too, so servers that start together make one store, one after the
// other. If the lock passed to another server meanwhile (after a long stop of the process), the
// compare-and-swap fails, and so does the join.
//
// The DRAM of a memory server dies with it. So the servers of a record decide its state:
//   - Server 0, which holds the root, is dead or has left: the store is lost. A joining memory
//     server creates a new, empty store in its place, with a new store id and its own parameters,
//     and logs that.
//   - Server 0 neither answers nor is known to be dead (another machine that cannot be reached):
//     the join is refused, because the store may live; `JoinOptions::replace_store`
//     (--replace_store) overrules. The message does not suggest to overrule if the process of
//     server 0 is known to run.
//   - A dead server whose memory outlives its process (MemberRecord::region) comes back with it
//     (rejoin.h): if it is server 0, the join is refused, unless `replace_store` says that the data
//     may go; another one is as good as alive. One whose memory was with systemd may be the joining
//     server itself, where systemd has lost it: the join is refused, but for `replace_store` and
//     `forget_dead`.
//   - Another server is dead: the join is refused, because some keys are lost for good and joining
//     would hide that; `JoinOptions::forget_dead` (--forget_dead) overrules, and takes the dead
//     server out of the record. A server of a set of saved files that has not come back (rejoin.h)
//     stays away then, too.
//
// A bootstrap may lose the record of a live store, at any time and repeatedly. So a server creates
// a store, or takes an id, only in place of a text
//   - that was never lost: a record without `restored` of a live store; or
//   - that has stood unchanged for Bootstrap::republish_wait(). All live members have looked
//     meanwhile, and would have changed it (member.h). A record with `restored` is such a text.
// If there is no record, or that of a lost store, the server itself writes such a text: a note (a
// record without servers and with `restored`), or the lost store's record with a new random
// `restored`. Each of these texts has its own `restored`, and none comes back. So the text at the
// end of the wait has stood all the time. Any loss up to the publishing compare-and-swap is
// noticed: the wait starts again, or the publication fails. A join that never sees a text stand
// long enough ends with Contended. The server asks no members if the user decides
// (CreateMode::kNew), or if the bootstrap knows that no member lives (Bootstrap::MayHaveMembers).
//
// A server that stops cleanly takes itself out of the record; the last one removes the record. A
// store never reuses server ids, and has kMaxMemoryServers of them. A server that fails before it
// publishes uses up none. If a server leaves and the record is lost before another member has seen
// that, a member may put the record back with that server, then a dead one. It cannot be
// distinguished from a server that was killed with its keys; the user decides
// (JoinOptions::forget_dead).
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

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

// What a probe has found of a server.
struct Probed {
  Probed(Liveness found,
         std::optional<Error> error = std::nullopt)  // NOLINT(google-explicit-constructor)
      : liveness(found), why(std::move(error)) {}

  Liveness liveness;
  // Of kSilent and kUnreachable: why there is no answer (NodeUnreachable), why this process could
  // not ask (NoResources, InvalidArgument), or what is wrong with the answer (Corruption).
  std::optional<Error> why;
};

// Whether the server of `member` still serves the store. FabricProbe
// (common/bootstrap/server_probe.h) asks it.
using LivenessProbe = std::function<Probed(const StoreRecord& record, const MemberRecord& member)>;

// What a server does that finds no live store.
enum class CreateMode : uint8_t {
  kAuto,  // Waits for a lost record to come back, then creates a store.
  kNew,   // Creates one at once. Refuses to join a live one.
  kJoin,  // Never creates one. Waits some seconds for a store to join.
};

// Parses "auto", "new" or "join". Errors: InvalidArgument for anything else.
Result<CreateMode> ParseCreateMode(std::string_view name);

struct JoinOptions {
  std::string store = "default";
  std::string fabric;  // "shm" or "verbs"
  StoreParameters parameters;
  bool replace_store = false;  // Treat a server 0 that does not answer as dead.
  bool forget_dead = false;    // Take other servers that are dead out of the record.
  CreateMode create = CreateMode::kAuto;
  // Replaces Bootstrap::republish_wait(), or the time that kJoin waits. 0: no wait.
  std::optional<std::chrono::milliseconds> patience;
  std::string region = {};  // as in MemberRecord, as is the next
  std::optional<uint64_t> saved = {};
  // Polled while waiting for a record; true ends the wait with Contended.
  std::function<bool()> is_to_stop = {};
};

// Initialises the region of the server that joins under that name, starts serving, and returns the
// address for clients.
using BringUp = std::function<Result<std::string>(const MemberIdentity&)>;

struct Joined {
  MemberIdentity identity;  // server 0 creates the store
  StoreRecord record;       // as published
  // Incarnations that this server had before it came back: a record may still name one of them.
  std::vector<uint64_t> earlier = {};
};

// Errors:
//   - InvalidArgument when the store exists with other parameters or on another fabric (names the
//     first that differs, and both values), or for an address that a record cannot hold;
//   - NodeUnreachable for a bootstrap that does not answer, or a store that is not whole or that
//     kJoin may not join;
//   - the error of `probe` for server 0;
//   - NotFound when kJoin finds no store;
//   - Exhausted when the store has used up its server ids;
//   - Contended when the record was changed or lost while this server started, or is lost again;
//   - all errors of `bring_up`.
Result<Joined> JoinStore(Bootstrap& bootstrap, const JoinOptions& options,
                         const LivenessProbe& probe, const BringUp& bring_up);

struct FindOptions {
  std::string store = "default";
  // How long to wait for a store that does not exist yet, for example when both sides are started
  // together.
  std::chrono::milliseconds patience{0};
  // If set, every server is probed first, and the error of ServerUnreachable names one that is not
  // alive.
  LivenessProbe probe = {};
  // How long to wait for one that is not, if it is to come back with its memory.
  std::chrono::milliseconds return_patience{0};
};

// Errors: NotFound (names the store, the bootstrap, and the command that starts a memory server);
// NodeUnreachable, or the error of `probe`; Corruption when the record cannot be parsed.
Result<StoreRecord> FindStore(Bootstrap& bootstrap, const FindOptions& options);

// The error for a recorded server that is not alive: that of the probe with the server's name, or
// NodeUnreachable.
Error ServerUnreachable(const StoreRecord& record, const MemberRecord& member, const Probed& probed,
                        const Bootstrap& bootstrap);

// Whether a server that is dead may come back with its memory: that is in a file, and the file is
// there, as far as can be seen from here.
bool MayReturn(const MemberRecord& member);

// Judges an unresponsive server by its process identity: kDead when the process is known to be
// gone, kUnreachable when it is known to run. On shm all servers run on this machine, so another
// boot means death, too.
Liveness JudgeSilence(const StoreRecord& record, const MemberRecord& member);

}  // namespace gossamer
