// Gets: one READ of one group, in the usual case.
#include <algorithm>
#include <array>
#include <cstring>
#include <string>

#include "common/mutants.h"
#include "compute/node/unit_buffers.h"
#include "compute/tree/tree.h"

namespace gossamer {
Task<Result<std::string>> Tree::Get(KeyView key) {
  Operation operation;
  Result<std::string> value = co_await GetIn(operation, key);
  while (!value) {
    const bool again = co_await ShouldRetry(operation, value.error());
    if (!again) break;
    value = co_await GetIn(operation, key);
  }
  Finish(operation, OperationClass::kRead, value ? nullptr : &value.error());
  co_return value;
}

// 1 RT: home group, with the overflow group in the same batch when hinted. Without the hint, 2 RT for a key in
// the overflow group; a value block costs 1 RT more; a stale path 2 RT more (rule W7).
Task<Result<std::string>> Tree::GetIn(Operation& operation, KeyView key) {
  const Status valid = CheckKey(key);
  if (!valid) co_return valid.error();
  const LeafGeometry& geometry = shared_.geometry;
  const uint64_t hash = KeyHash(key);
  const uint32_t unit = geometry.GroupOf(hash);
  // Without two-level versions the leaf is one unit: all of it is read.
  const bool by_groups = shared_.options.techniques.two_level_versions;
  Result<BufferLease> lease =
      Buffer(by_groups ? UnitBuffers::kBytes
                       : std::max<size_t>(UnitBuffers::kBytes, geometry.node_bytes()));
  if (!lease) co_return lease.error();
  const BufferLease& buffers = lease.value();
  const size_t home_at = by_groups ? UnitBuffers::kHome : geometry.unit_offset(unit);
  const size_t overflow_at =
      by_groups ? UnitBuffers::kOverflow : geometry.unit_offset(geometry.overflow_unit());
  const std::span<const std::byte> home_bytes(buffers.data() + home_at, geometry.unit_bytes());
  const std::span<const std::byte> overflow_bytes(buffers.data() + overflow_at,
                                                  geometry.unit_bytes());
  Step path;
  bool has_path = false;
  bool afresh = false;
  for (uint32_t reread = 0; reread <= kMaxRereads;) {
    if (!has_path) {
      const Result<Step> found = co_await FindLeaf(operation, key);
      if (!found) co_return found.error();
      path = found.value();
    }
    const RemotePtr leaf = path.node;
    const Status in_bounds = CheckPointer(leaf, geometry.node_bytes());
    if (!in_bounds) co_return in_bounds.error();
    const bool want_overflow = !by_groups || LeafHint(path.hint).MayHaveOverflowed(hash, unit);
    const Verb read_overflow =
        Verb::Read(leaf.offset() + geometry.unit_offset(geometry.overflow_unit()),
                   geometry.unit_bytes(), buffers.address(overflow_at));
    InlineBatch<2> batch(leaf.server());
    if (by_groups) {
      batch.Add(Verb::Read(leaf.offset() + geometry.unit_offset(unit), geometry.unit_bytes(),
                           buffers.address(home_at)));
      if (want_overflow) batch.Add(read_overflow);
    } else {
      batch.Add(Verb::Read(leaf.offset(), geometry.node_bytes(), buffers.address()));
    }
    co_await Execute(operation, batch);
    if (batch.status() != VerbStatus::kSuccess) co_return Unreachable(operation, batch);

    if (IsBroken(Mutant::kR1)) {
      internal::Seal({buffers.data() + home_at, geometry.unit_bytes()}, leaf, unit);
    }
    const std::optional<GroupView> home = GroupView::Parse(home_bytes, leaf, unit);
    if (home && !home->Admits(key)) {
      if (IsFarOff(path) && !afresh) {
        afresh = true;
        ++counters_.cache.stale;
        const Result<Step> found =
            co_await Descend(operation, SearchGoal::Covering(key), 0, Trust::kNothing);
        if (!found) co_return found.error();
        path = found.value();
        has_path = true;
        continue;
      }
      const Result<bool> moved = co_await HopRight(operation, key, unit, path, buffers);
      if (!moved) co_return moved.error();
      has_path = moved.value();
      if (!has_path) ++reread;
      continue;
    }
    std::optional<Entry> entry;
    std::optional<GroupView> overflow;
    bool whole = home.has_value();
    if (whole) {
      entry = home->Find(key);
      if (!entry && home->overflowed()) {
        if (!want_overflow) {
          batch.Reset(leaf.server());
          batch.Add(read_overflow);
          co_await Execute(operation, batch);
          if (batch.status() != VerbStatus::kSuccess) co_return Unreachable(operation, batch);
        }
        overflow = GroupView::Parse(overflow_bytes, leaf, geometry.overflow_unit());
        // Rule R2.
        whole = overflow && (overflow->version() == home->version() || IsBroken(Mutant::kR2));
        if (whole) entry = overflow->Find(key);
      }
    }
    if (whole) {
      Learn(
          path, 1u << unit | (overflow ? 1u << geometry.overflow_unit() : 0),
          [&](uint32_t number) -> const GroupView& { return number == unit ? *home : *overflow; });
    }
    if (whole && !entry) co_return MakeError(Code::kNotFound);
    if (whole && !entry->is_block) co_return std::string(entry->stored);
    if (whole) {
      Result<std::optional<std::string>> value = co_await ReadBlock(operation, entry->block());
      if (!value) co_return value.error();
      if (value.value()) co_return std::move(*value.value());
      // The entry has changed since: read it again.
    }
    ++counters_.rereads;
    ++reread;
    co_await Pause(reread);
  }

  co_return co_await GetUnderLock(operation, key);
}

// 2 RT. What stays torn for too long: nobody writes while we hold the lock.
Task<Result<std::string>> Tree::GetUnderLock(Operation& operation, KeyView key) {
  LeafWrite sought;  // Nothing is written: it only says what to look for.
  sought.entry.key = key;
  sought.hash = KeyHash(key);
  sought.unit = shared_.geometry.GroupOf(sought.hash);
  LockedLeaf locked;
  const Result<bool> mine = co_await LockLeaf(operation, sought, false, nullptr, locked);
  if (!mine) co_return mine.error();
  Result<std::string> value = MakeError(Code::kNotFound);
  LeafEditor::Found found = locked.editor->Find(key, sought.unit);
  if (found.unread) {
    const Status read = co_await ReadOverflow(operation, locked);
    if (!read) {
      value = read.error();
    } else {
      found = locked.editor->Find(key, sought.unit);
    }
  }
  if (found.entry && !found.entry->is_block) value = std::string(found.entry->stored);
  if (found.entry && found.entry->is_block) {
    Result<std::optional<std::string>> block = co_await ReadBlock(operation, found.entry->block());
    if (!block) {
      value = block.error();
    } else if (block.value()) {
      value = std::move(*block.value());
    } else {
      const BlockPtr at = found.entry->block().ptr();
      value = CorruptNode(locked.leaf(), "a value block at server " +
                                             std::to_string(ToInteger(at.server())) + " offset " +
                                             std::to_string(at.offset()) +
                                             " that fails its checksum, of a key in the leaf");
    }
  }
  BOOST_OUTCOME_CO_TRYV(co_await Unlock(operation, locked));
  co_return value;
}

// 1 RT: group and trailer of one version (rule R3). False: they do not agree (yet): look again.
Task<Result<bool>> Tree::HopRight(Operation& operation, KeyView key, uint32_t unit, Step& path,
                                  const BufferLease& buffers) {
  const LeafGeometry& geometry = shared_.geometry;
  const RemotePtr leaf = path.node;
  InlineBatch<2> batch(leaf.server());
  batch.Add(Verb::Read(leaf.offset() + geometry.unit_offset(unit), geometry.unit_bytes(),
                       buffers.address(UnitBuffers::kHome)));
  batch.Add(Verb::Read(leaf.offset() + geometry.trailer_offset(), kTrailerBytes,
                       buffers.address(UnitBuffers::kTrailer)));
  co_await Execute(operation, batch);
  if (batch.status() != VerbStatus::kSuccess) co_return Unreachable(operation, batch);
  const std::optional<GroupView> home =
      GroupView::Parse({buffers.data() + UnitBuffers::kHome, geometry.unit_bytes()}, leaf, unit);
  const std::optional<TrailerView> trailer =
      ParseTrailer({buffers.data() + UnitBuffers::kTrailer, kTrailerBytes}, leaf);
  const bool is_one = home && trailer && home->version() == trailer->version();
  if (!home || !trailer || !(is_one || IsBroken(Mutant::kR3Trailer)) || home->Admits(key) ||
      trailer->sibling().is_null()) {
    co_return false;
  }
  ++counters_.cache.stale;
  ForgetPath(path);
  ScheduleRepair(leaf, 0);
  path = Step{trailer->sibling(), 0, RemotePtr(), 0, home->high().key};
  co_return true;
}

// Rule R1.
std::optional<TrailerView> Tree::ParseTrailer(std::span<const std::byte> bytes,
                                              RemotePtr leaf) const {
  if (!IsBroken(Mutant::kR1Trailer)) return TrailerView::Parse(bytes, leaf, shared_.geometry);
  std::array<std::byte, kTrailerBytes> sealed;
  std::copy_n(bytes.begin(), kTrailerBytes, sealed.begin());
  const uint32_t checksum = Crc32c(UnitSeed(leaf.word(), shared_.geometry.units()),
                                   std::span(sealed).subspan(sizeof(uint32_t)));
  std::memcpy(sealed.data(), &checksum, sizeof checksum);
  return TrailerView::Parse(sealed, leaf, shared_.geometry);
}

Task<Result<std::optional<std::string>>> Tree::ReadBlock(BlockRef block) {
  Operation operation;
  Result<std::optional<std::string>> value =
      co_await Retried(operation, [&] { return ReadBlock(operation, block); });
  co_return value;
}

Status Tree::CheckBlock(BlockRef block) {
  const RemotePtr place(block.ptr().server(), block.ptr().offset() & ~(kNodeAlignment - 1), 0);
  return CheckPointer(place, block.ptr().offset() - place.offset() + BlockReadBytes(block.length));
}

// Rule R1.
std::optional<std::string_view> Tree::ValueIn(const BlockRef& block,
                                              std::span<const std::byte> bytes) {
  if (!IsBroken(Mutant::kR1Generation)) return DecodeBlock(block, bytes);
  // As if neither the seed nor the entry told generations apart.
  BlockRef any = block;
  std::memcpy(&any.checksum, bytes.data(), sizeof any.checksum);
  std::optional<std::string_view> value;
  do {
    any.pointer = any.ptr().NextGeneration().word();
    value = DecodeBlock(any, bytes);
  } while (!value && any.pointer != block.pointer);
  return value;
}

// 1 RT.
Task<Result<std::optional<std::string>>> Tree::ReadBlock(Operation& operation, BlockRef block) {
  const uint32_t bytes = BlockReadBytes(block.length);
  BOOST_OUTCOME_CO_TRYV(CheckBlock(block));
  Result<BufferLease> buffer = Buffer(bytes);
  if (!buffer) co_return buffer.error();
  InlineBatch<1> batch(block.ptr().server());
  batch.Add(Verb::Read(block.ptr().offset(), bytes, buffer.value().address()));
  co_await Execute(operation, batch);
  if (batch.status() != VerbStatus::kSuccess) co_return Unreachable(operation, batch);
  const std::optional<std::string_view> value = ValueIn(block, {buffer.value().data(), bytes});
  if (!value) co_return std::optional<std::string>();
  co_return std::optional<std::string>(std::string(*value));
}

}  // namespace gossamer
