// Tree: one client thread of Sherman, a B-link tree that is written with one-sided verbs alone
// (Wang, Lu, Shu, SIGMOD 2022), as its paper has it. The bench and the simulator compare Gossamer
// with it, one technique after the other (design.h).
//
// Costs of the operations, if the parent of the leaf is cached and nothing else has the lock:
//
//   get      1 RT: READ of the leaf, 1,024 B
//   write    1 RT: CAS of the node's lock; none if another thread of this compute server hands it
//                  over
//            1 RT: READ of the leaf, 1,024 B
//            1 RT: WRITE of the entry, 18 B (of the leaf, 1,024 B, without two-level versions), and
//                  of the released lock, 1 B, in one batch (1 RT more without combined commands)
//   split    the WRITE of the new sibling joins that batch if both are on one memory server, and
//            has a round trip of its own otherwise; then the parent is written likewise
//   delete   as a write: the entry is marked unused. Leaves are not merged; no memory is freed.
//   scan     1 RT for up to 32 leaves of one parent, READ in parallel. Each leaf is read at its own
//            time, so that a scan is no snapshot.
//
// What the paper assumes, and the fabric's contract (common/fabric/CONTRACT.md) does not promise.
// Gossamer's PROTOCOL.md shows how to do without:
//
//   - A READ sees its bytes in the order of their addresses, and so does a WRITE. Front and rear
//     versions show a torn node only then. The contract allows any mixture (A3). Versions have 4
//     bits: 16 writes during one READ go unseen.
//   - A WRITE may change a word that atomics change: it releases a lock. A2 forbids that, as on
//     some NICs a CAS that fails writes the old word back, and the lock stays taken. The word is 1
//     or 0 here, and one byte of it is written, which the shm fabric stores once.
//   - Clients do not fail: the lock of a client that died stays taken, and waiters wait for good.
//     So does the lock of an operation that lost its connection. There are no leases and no
//     recovery.
//   - No part of a WRITE stays without the rest (D1 promises that up to the path's MTU).
//
// Its authors' source repository now refers to a later design, Deft, for correct synchronization.
//
// Thread-safety: none; one for each client thread. All of a compute server share its ComputeServer.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "common/fabric/scheduler.h"
#include "common/status.h"
#include "common/task.h"
#include "compute/research/sherman/compute_server.h"
#include "compute/research/sherman/node.h"
#include "gossamer/counters.h"

namespace gossamer::sherman {

struct Pair {
  Key key;
  Value value;
};

// What a put requires of its key.
enum class Condition : uint8_t { kNone, kAbsent, kPresent };

// Errors of all operations: NodeUnreachable if a memory server is lost; Exhausted if no memory
// server has memory for a node. Whether a write was done is not known then.
class Tree {
 public:
  Tree(ComputeServer& server, Scheduler& scheduler)
      : server_(server), scheduler_(scheduler), chunks_(server.servers().size()) {}

  // Errors: NotFound.
  Task<Result<Value>> Get(Key key);
  // Errors: AlreadyExists, NotFound, by `condition`.
  Task<Status> Put(Key key, Value value, Condition condition);
  // Errors: NotFound.
  Task<Status> Delete(Key key);
  // Appends pairs in the order of keys, from `from` on: about `most`, all that the leaves have that
  // were read. Returns where to go on; nullopt: there are no more.
  Task<Result<std::optional<Key>>> Scan(Key from, uint64_t most, std::vector<Pair>& pairs);

  Counters& counters() { return counters_; }
  const Counters& counters() const { return counters_; }

 private:
  // One operation: its buffers, and what it costs.
  class Operation;

  struct Place {
    RemotePtr node;
    bool is_from_cache = false;  // by a copy of its parent
  };
  struct Chunk {
    uint64_t next = 0;
    uint64_t end = 0;
  };

  static constexpr uint32_t kMostLeaves = 32;    // that a scan reads at a time
  static constexpr uint32_t kUsualEntries = 36;  // of a leaf, after inserts in random order
  // READs of one node that are torn, one after the other, before it is taken for damaged.
  static constexpr uint32_t kMostReads = 10'000;
  static constexpr uint64_t kTaken = 1;  // the word of a lock

  // Posts a batch and waits for it: 1 RT.
  Task<Status> Execute(Operation& op, Batch& batch);
  // Applies one atomic in the region of `server`. Returns the word before. 1 RT.
  Task<Result<uint64_t>> Apply(Operation& op, ServerId server, const Verb& atomic);

  // Where to look for `key` at `level`, at most the root's. A READ for each level without a copy.
  Task<Result<Place>> Find(Operation& op, Key key, uint32_t level);
  // Likewise after the node at `place`, as the operation read it, turned out not to cover the key.
  Task<Result<Place>> FindBeyond(Operation& op, Place place, Key key, uint32_t level);
  // READs a node of `level`, again while it is torn.
  Task<Status> ReadNode(Operation& op, RemotePtr node, uint32_t level);
  // READs the leaf that covers `key`.
  Task<Status> ReadLeaf(Operation& op, Key key);
  Task<Status> ReadRoot(Operation& op);

  // Takes the lock of a node.
  Task<Status> Lock(Operation& op, RemotePtr node);
  // Takes the lock of the node of `level` that covers `key`, and READs it. Returns the node.
  Task<Result<RemotePtr>> LockAndRead(Operation& op, Key key, uint32_t level);
  // Does `writes`, to the server of `node`, in this order, and releases the node's lock.
  Task<Status> WriteAndUnlock(Operation& op, RemotePtr node, std::span<const Verb> writes);
  Task<Status> WriteNode(Operation& op, RemotePtr node);
  Task<Status> WriteEntry(Operation& op, RemotePtr leaf, const LeafEntry& entry);
  // Writes a split node and its new sibling.
  Task<Status> WriteSplit(Operation& op, RemotePtr node, RemotePtr sibling);
  // Memory for a node.
  Task<Result<RemotePtr>> Allocate(Operation& op);

  Task<Status> SplitLeaf(Operation& op, RemotePtr node, Key key, Value value);
  // Makes `right`, the new sibling of `left`, known to their parent at `level`.
  Task<Status> InsertSeparator(Operation& op, RemotePtr left, Key separator, RemotePtr right,
                               uint32_t level);
  // Likewise by a new root at `level`. Returns false if `left` is not the root.
  Task<Result<bool>> MakeRoot(Operation& op, RemotePtr left, Key separator, RemotePtr right,
                              uint32_t level);

  // READs leaves side by side into `into`.
  Task<Status> ReadLeaves(Operation& op, std::span<const RemotePtr> leaves, LocalAddress into);

  ComputeServer& server_;
  Scheduler& scheduler_;
  Counters counters_;
  std::vector<std::vector<Chunk>> chunks_;  // by server; nodes are made in the last one
  size_t last_server_ = 0;                  // that a node was made on
};

}  // namespace gossamer::sherman
