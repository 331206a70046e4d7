// Restoring: how the memory servers of a store go back together to what they have saved.
//
// A store of which all servers were down comes back as it was if each of them has its last state.
// Otherwise it goes back to the newest set (requests.h) that all of them have: files of one set are
// of one moment, so only they may be together. Some may have a newer set that others have not, if a
// save was cut short; they have the set before that, too.
//
//   the record                               a server with files of sets
//   names the life that its last file is of  comes back (rejoin.h); if no other server lives, the
//                                            record *awaits* all others that have saved
//   is lost, or of servers that are dead     begins with its newest set, and puts up a record with
//                                            that set, a new store id, and the other servers that
//                                            the set is of as awaited
//   awaits it, and has a set of which it     begins with that set, and takes its place
//   has a file
//   awaits it, and has another set           begins with its newest set of which all that have come
//                                            have a file, and puts up a record with that one in
//                                            place of it; those servers then begin again
//   awaits it not                            refuses
//
// A store is *open* if its record awaits no server. While it is not, no client gets in (FindStore),
// so nothing can be written; no server saves; and what a server has begun with may be dropped, as
// its files have it. A server whose region has outlived it has what its files have not: it names no
// sets, and the store does not go back from what it holds.
//
// Why a server does not wait for the others before it begins: scripts, Ansible and Kubernetes start
// servers one by one, each once the one before it is ready. A server that waited for the next one
// would wait for ever. So it is ready at once, and what it has begun with is provisional.
//
// Why that is the newest set: let C be the newest one that all have. A server that takes its newest
// set takes C or a newer one; so does one that takes the newest of its own which all that have come
// have, as C is one of these. So the record never has an older set than C, and a record that awaits
// nobody any more has a set that all have. Each change is to an older set, so there is an end.
//
// A server that ends before the store is open is awaited again: each that comes asks the others
// whether they live. One that will not come back: JoinOptions::forget_dead.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/bootstrap/membership.h"
#include "common/status.h"
#include "proto/store_record.h"

namespace gossamer {

// The record, which awaits those of its servers that do not live, too, if it is not open.
StoreRecord AwaitTheSilent(StoreRecord record, const LivenessProbe& probe);

// The record for a server that comes back with its last state, which it has loaded from a file of
// `set`: it awaits all others that have saved, unless one of them lives.
// Requires: `record` is open, and has no entry of that server; `set` is not 0.
StoreRecord AwaitIfAllWereDown(StoreRecord record, uint64_t set, const LivenessProbe& probe);

// The set that a server begins with which has files of `sets`, the newest first. `record`: as
// AwaitTheSilent has it.
// Errors: InvalidArgument if the record does not await the server, or if no set will do.
// Requires: `record` is not open, `sets` is not empty.
Result<uint64_t> ChooseSet(const StoreRecord& record, ServerId self,
                           const std::vector<uint64_t>& sets, const Bootstrap& bootstrap);

// Errors: InvalidArgument if the record awaits server 0, which has the root.
Status CheckMayForget(const StoreRecord& record, const Bootstrap& bootstrap);
// Opens a store without the servers that it awaits, if any: what they held is lost. Logs that.
// Requires: CheckMayForget.
void ForgetAwaited(StoreRecord& record, const Bootstrap& bootstrap);

// Takes a server out of the record of a store that is not open, which awaits it again; if that has
// no other entry, removes the record. Returns the record of the server's store as it was before; an
// empty one if there is none that names the server.
// Errors: those of ReadRecord; Contended when the record keeps changing.
Result<StoreRecord> LeaveUnopened(Bootstrap& bootstrap, const std::string& store,
                                  const MemberIdentity& self);

// "store 's' at … comes back from saved files (set …), and opens once server 1 is there: …"
std::string NotOpen(const StoreRecord& record, const Bootstrap& bootstrap);

}  // namespace gossamer
