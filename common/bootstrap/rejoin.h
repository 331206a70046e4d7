// Rejoining: how a memory server comes back to its store with its memory.
//
// Its region has the store's id and its own. So it asks nobody: it takes its place in the record,
// with a new incarnation and address, once it serves (`BringUp`), alone among the joiners of that
// name (Bootstrap::LockForJoin):
//
//   the record                               it
//   names an incarnation that it has had     replaces its own entry
//   names it not                             adds its entry
//   names another one under its id           refuses: its region is not the last one
//   is lost, or a note                       puts back what its region has noted of it, with a new
//                                            `restored` (membership.h)
//   is another store's                       refuses, unless server 0 of that store is dead and its
//                                            memory gone: then it puts its own record back
//
// So does a server with a saved file of its last life. (It notes its lives beside its files:
// memory/saved_files.h.) What another file has may be old: the store may have gone on without it.
// Where no life is noted, a record that names an incarnation of the file's server says that it did
// not. Otherwise the
// store goes back to what was saved, and is another one, with a new id: clients of the one before
// must not go on with what they know of it. The saved files of one set are of one moment
// (requests.h), so only they may be together:
//
//   the record                               it
//   names an incarnation that it has had     replaces its own entry, as above, if no life is noted
//   awaits this server with that set         adds its entry, unless it has been back already, and
//                                            what it has held since is lost: then it refuses
//   is lost                                  puts up one with a new id, which awaits the others
//   is another one                           refuses, unless server 0 of that store is dead and its
//                                            memory gone: then it puts up one as well
//
// Others that were there when the file was saved are awaited with their files of the same set; who
// was awaited then, with those of before. Until all are there, no file of before is removed, and
// nothing is taken for lost.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "common/bootstrap/membership.h"
#include "proto/store_parameters.h"

namespace gossamer {

struct Returning {
  MemberIdentity identity;        // with a new incarnation
  std::vector<uint64_t> earlier;  // incarnations that a record may name
  StoreParameters parameters;     // that the region was made with
  std::string known;              // the text of the record, as the region has noted it; or empty
  uint64_t set = 0;               // of the saved file that the memory was loaded from; 0: of none
  bool is_of_last_life = false;   // that file: the server has not gone on without it
  uint64_t been_in = 0;           // the store that it was part of last; 0: not known
};

// Errors:
//   - InvalidArgument if the record has another server under this one's id, or other parameters, or
//     is that of another store; or for an address that a record cannot hold;
//   - NodeUnreachable for a bootstrap that does not answer;
//   - Contended when the record keeps changing;
//   - all errors of `bring_up`, which is called once.
Result<Joined> RejoinStore(Bootstrap& bootstrap, const JoinOptions& options,
                           const Returning& returning, const LivenessProbe& probe,
                           const BringUp& bring_up);

}  // namespace gossamer
