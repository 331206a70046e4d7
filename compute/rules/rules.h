// The rules of the protocol that a client's code decides about, each as a function that says what
// the rule asks for.
//
// The code of the tree asks these functions, and no other file outside the simulator knows that a
// rule can be broken: gossamer-sim-mutants breaks one at a time (common/mutants.h), to show that
// the simulator notices. In all that ships, each function is just its rule. Rules that only decide
// which verbs are posted, and in which order, have no function
// here: compute/verify/sim/broken_rule_port.h breaks them. PROTOCOL.md states and argues all rules.
//
// Only sources include this file, because each such source is compiled a second time for that
// program.
//
// Thread-safety: thread-safe. Cost: inline; that of the rule.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "common/fabric/verb.h"
#include "common/mutants.h"
#include "common/status.h"
#include "proto/leaf.h"
#include "proto/lock_word.h"
#include "proto/remote_ptr.h"
#include "proto/value_block.h"

namespace gossamer::rules {

// What the functions of the same names do where their rule is broken (compute/verify/sim).
namespace broken {

std::optional<GroupView> ParseUnit(std::span<const std::byte> bytes, RemotePtr leaf, uint32_t unit,
                                   KeyView within, KeyView sought);
std::optional<TrailerView> ParseTrailer(std::span<const std::byte> bytes, RemotePtr leaf,
                                        const LeafGeometry& geometry);
std::optional<std::string_view> ParseBlock(const BlockRef& block, std::span<const std::byte> bytes);
std::optional<std::string_view> ParseAlong(const BlockRef& named, const BlockRef& guess,
                                           std::span<const std::byte> bytes);

}  // namespace broken

// -- Reading

// R1: bytes that were read count only if their checksum fits them, their place and their
// generation. Returns nothing otherwise.
// `within`: as for GroupView::Parse; the unit's prefix is taken from it, and not from the key that
// is `sought`.
inline std::optional<GroupView> ParseUnit(std::span<const std::byte> bytes, RemotePtr leaf,
                                          uint32_t unit, KeyView within,
                                          [[maybe_unused]] KeyView sought) {
  if constexpr (kHasMutants) return broken::ParseUnit(bytes, leaf, unit, within, sought);
  return GroupView::Parse(bytes, leaf, unit, within);
}
// R1, of a trailer.
inline std::optional<TrailerView> ParseTrailer(std::span<const std::byte> bytes, RemotePtr leaf,
                                               const LeafGeometry& geometry) {
  if constexpr (kHasMutants) return broken::ParseTrailer(bytes, leaf, geometry);
  return TrailerView::Parse(bytes, leaf, geometry);
}
// R1: memory of a node is used again under the next generation.
inline RemotePtr NextUse(RemotePtr node) {
  return IsBroken(Mutant::kR1Reuse) ? node : node.NextGeneration();
}
// R1, of a value block.
inline std::optional<std::string_view> ParseBlock(const BlockRef& block,
                                                  std::span<const std::byte> bytes) {
  if constexpr (kHasMutants) return broken::ParseBlock(block, bytes);
  return DecodeBlock(block, bytes);
}

// R10: a block that was READ along with a group, at `guess`, counts only if the group has named it.
// (Of `guess`, the checksum is not known.)
inline std::optional<std::string_view> ParseAlong(const BlockRef& named, const BlockRef& guess,
                                                  std::span<const std::byte> bytes) {
  if constexpr (kHasMutants) return broken::ParseAlong(named, guess, bytes);
  const bool is_named = named.pointer == guess.pointer && named.length == guess.length;
  return is_named ? DecodeBlock(named, bytes) : std::nullopt;
}

// R1, of the block of a long key: different keys may have one hash, and the block tells which one
// it is.
inline bool IsTheKey(bool is_equal) { return is_equal || IsBroken(Mutant::kR1Long); }

// R2: units are used together only if they are of one version of the node.
inline bool OfOneVersion(const GroupView& home, const GroupView& overflow) {
  return home.version() == overflow.version() || IsBroken(Mutant::kR2);
}

// R3: a sibling pointer is followed only from a fence of the same version of the node.
inline bool OfOneVersion(const GroupView& home, const TrailerView& trailer) {
  return home.version() == trailer.version() || IsBroken(Mutant::kR3Trailer);
}
// W4: a downlink is made only if, under the parent's lock, the child is there.
inline bool IsChildThere(bool child_matches) { return child_matches || IsBroken(Mutant::kW4Child); }

// W4: a node that is frozen gets no downlink: it vanishes soon.
inline bool MayLink(bool is_frozen) { return !is_frozen || IsBroken(Mutant::kW4); }

// R4: READs count only if they were posted with, and behind, the CAS that took the lock. So each
// try posts them.
inline bool ReadsWithTry(uint32_t tries) { return tries == 0 || !IsBroken(Mutant::kR4); }

// R4, of a first try, perhaps in a batch with those of other leaves: the READs of a leaf count only
// behind the CAS that took its own lock.
inline bool MayUse(bool is_held) { return is_held || IsBroken(Mutant::kR4Batch); }

// R8: a frozen node is read only by an operation that came over its left neighbour: by others that
// has taken over and changed its entries, perhaps.
inline bool MayReadFrozen(bool came_over_left) { return came_over_left || IsBroken(Mutant::kR8); }

// R9: pointers that were looked up under an earlier lease, or under none, are not used. Its mutant
// gives both of these up.
inline bool MayUsePast() { return IsBroken(Mutant::kR9); }
// R9: from which lease on pointers may be used that were looked up before.
inline uint64_t UsableSince(uint64_t since) { return IsBroken(Mutant::kR9) ? 0 : since; }
// R9: the cache is emptied for a new lease, and takes nothing from operations that began before.
inline bool ForgetsPointers() { return !IsBroken(Mutant::kR9Cache); }

// R5: a leaf that fails its checks under its lock is damaged only if it does so again, and the path
// to it is fresh.
inline bool IsDamaged(uint32_t failures, uint32_t most) {
  return failures >= most || (failures != 0 && IsBroken(Mutant::kR5));
}

// R6: a scan returns a key that it saw twice once.
inline bool IsSeenTwice(KeyView a, KeyView b) { return a == b && !IsBroken(Mutant::kR6); }

// -- Writing

// W3: a key that was removed, and not written yet, is not added again: it might move to another
// unit.
inline bool MayAdd(bool was_removed) { return !was_removed || IsBroken(Mutant::kW3); }

// W5: what was locked is left, turn and all, before another turn is waited for.
inline bool LeavesBeforeWaiting() { return !IsBroken(Mutant::kW5); }

// W8: the order of long keys is that of the whole keys, which are in their blocks.
inline bool OrdersByWholeKeys() { return !IsBroken(Mutant::kW8Long); }
// W8: a group's new keys are merged with those of the leaf in the order of keys, by which leaves
// are cut.
inline bool ComesBefore(const PrefixedKey& fresh, const PrefixedKey& old) {
  return fresh < old && !IsBroken(Mutant::kW8);
}

// W9: a node is frozen before its left neighbour takes over what it holds.
inline bool FreezesFirst() { return !IsBroken(Mutant::kW9); }

// W4: a root gets a second child only if that is there.
inline bool MayRaiseOver(bool child_is_there) {
  return child_is_there || IsBroken(Mutant::kW4Root);
}

// W1: a block is acknowledged before an entry that refers to it is posted.
inline bool MayRefer(bool is_written) { return is_written || IsBroken(Mutant::kW1Block); }

// W10: a root is frozen before the root word leads to its child.
inline bool FreezesRoot() { return !IsBroken(Mutant::kW10); }

// W11: what a modify has planned is written only if the leaf still stores what it was planned for.
inline bool MayWritePlanned(bool is_as_noted) { return is_as_noted || IsBroken(Mutant::kW11); }

// W12: a leaf takes over another one only if no client may still be making that live again.
inline bool MayTakeOver(bool is_undone) { return !is_undone || IsBroken(Mutant::kW12); }

// -- Locks

// L2: a lock word names the lease under which it is written; no lease's name is given twice.
inline LockWord WordFor(Lease lease, RemotePtr node) {
  return LockWord(IsBroken(Mutant::kL2) ? Lease{lease.compute, 1} : lease, node);
}

// L4: what is posted under a lock goes out on queue pairs of the lease under which the lock was
// taken.
inline bool IsOfEpoch(LockWord held, Lease lease) {
  return held.lease() == lease || IsBroken(Mutant::kL4) || IsBroken(Mutant::kL2);
}

// L5: an answer that was read under a lock counts only if the lock's release succeeded.
inline Status AnswerAfter(const Status& released) {
  return IsBroken(Mutant::kL5) ? Status(Ok()) : released;
}

// L6: a lock may be taken from its holder only after the holder's lease has ended.
inline bool MayTakeFrom(bool lease_has_ended) { return lease_has_ended || IsBroken(Mutant::kL6); }

// -- Unknown status

// U1: memory is used again only if no WRITE to it may still land.
inline bool MayReuse(VerbStatus written) {
  return written == VerbStatus::kSuccess || written == VerbStatus::kPending ||
         written == VerbStatus::kRemoteAccess || IsBroken(Mutant::kU1Block);
}

// U2: a commit of unknown status is repeated only if the lock word shows that it was not applied.
inline bool DecidesByLockWord() { return !IsBroken(Mutant::kU2); }

// U4: memory that was granted under a lease which has ended is not used, nor made reachable.
// `since`: which of all registrations gave the present lease; `confirmed`: how many there were when
// memory was last known to be ours.
inline bool IsGranted(uint64_t since, uint64_t confirmed) {
  return since <= confirmed || IsBroken(Mutant::kU4);
}
// U4: memory belongs to the lease that the reply names.
inline bool IsGrantedTo(bool is_present_lease) {
  return is_present_lease || IsBroken(Mutant::kU4Grant);
}
// U4, of memory that a batch is about to make reachable.
inline bool IsStillGranted(uint64_t since, uint64_t confirmed) {
  return IsGranted(since, confirmed) || IsBroken(Mutant::kU4Link);
}
// U4: a new lease forgets what was granted under the one before.
inline bool ForgetsOldGrants() { return !IsBroken(Mutant::kU4); }

// U5: a lock of unknown state is settled only after the queue pair that carried its last verb is
// destroyed.
inline uint64_t CarrierToDestroy(uint64_t carrier) { return IsBroken(Mutant::kU5) ? 0 : carrier; }
// U5: until then no coroutine of this compute server gets a turn at it.
inline bool KeepsTurn() { return !IsBroken(Mutant::kU5Turn); }

// -- Memory

// M1: what a write replaced is freed once, also if the write is done anew before it is posted.
inline bool ForgetsUndone() { return !IsBroken(Mutant::kM1Twice); }

// M3: a compute server acknowledges an epoch only once the operations have ended that began before.
inline bool HaveEnded(bool earlier_have_ended) {
  return earlier_have_ended || IsBroken(Mutant::kM3);
}

// G2: an epoch is acknowledged only once all that was removed before has been given back.
inline bool GivesBackFirst() { return !IsBroken(Mutant::kG2); }

// G3: a farewell is said only by a compute server that has given back all memory that is not in
// the tree.
inline bool MaySayFarewell(bool has_released_all) {
  return has_released_all || IsBroken(Mutant::kG3);
}

// S1: a sweep reads the tree once no owner of what it may take can link any of that.
inline bool AwaitsEpochBeforeTree() { return !IsBroken(Mutant::kS1); }
// S2: a sweep gives memory back only once no pointer to it is left, and nobody else gives it back.
inline bool AwaitsEpochBehindTree() { return !IsBroken(Mutant::kS2); }

// -- Repair of losses

// P1: what replaces a lost node ends where the next downlink is.
inline bool EndsAtNextDownlink() { return !IsBroken(Mutant::kP1); }
// P2: the left neighbour of a lost node leads to what replaced that.
inline bool MendsSiblings() { return !IsBroken(Mutant::kP2); }
// P3: a pointer is replaced only if it leads to a lost node when its own node is read behind the
// lock. The mutant goes by what was read before.
template <typename WasLost>
bool MayReplace(bool is_lost, const WasLost& was_lost) {
  return is_lost || (IsBroken(Mutant::kP3) && was_lost());
}
// P4: a repair changes nothing before an epoch has passed.
inline bool AwaitsEpochBeforeRepair() { return !IsBroken(Mutant::kP4); }

// -- Expiry

// X1: a reader takes a key for alive until its time may have come. That it has expired, only who
// holds the leaf's lock says, and removes it.
inline bool IgnoresExpiry() { return IsBroken(Mutant::kX1); }
inline bool SaysGoneWithoutLock() { return IsBroken(Mutant::kX1Gone); }
// X3: who overwrites a key keeps its time if the write says so.
inline bool LosesTime() { return IsBroken(Mutant::kX3); }
// X4: a sweep removes a key only if what is there under the lock has expired.
inline bool MayExpire(bool has_expired) { return has_expired || IsBroken(Mutant::kX4); }

}  // namespace gossamer::rules
