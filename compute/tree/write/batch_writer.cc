#include "compute/tree/write/batch_writer.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <ranges>
#include <utility>

#include "common/fabric/workers.h"

namespace gossamer {
namespace {

// Ranges that touch become one, which may be written as one group.
void AddTo(std::vector<WriteBatch::Range>& rest, WriteBatch::Range writes) {
  if (!rest.empty() && rest.back().end == writes.first) {
    rest.back().end = writes.end;
  } else {
    rest.push_back(writes);
  }
}

// Has what the pipeline leaves of `size` writes put into `rest`.
WritePipeline::Tell RestInto(std::vector<WriteBatch::Range>& rest, size_t size) {
  rest.clear();
  rest.reserve(size);
  return [&rest](WriteBatch::Range writes, bool are_left) {
    if (are_left) AddTo(rest, writes);
  };
}

}  // namespace

size_t BatchWriter::FindEnd(const WriteBatch& batch, size_t first, size_t limit,
                            const HighFence& fence) {
  // Steps that double: their number grows with the logarithm of the group.
  size_t inside = first;
  size_t step = 1;
  while (inside + step < limit && fence.Admits(batch.key(inside + step))) {
    inside += step;
    step *= 2;
  }
  const auto rest = std::views::iota(inside + 1, std::min(inside + step, limit));
  const auto end = std::ranges::partition_point(
      rest, [&](size_t position) { return fence.Admits(batch.key(position)); });
  return inside + 1 + static_cast<size_t>(end - rest.begin());
}

BatchWriter::Group BatchWriter::NextGroup(Call& call) {
  const WriteBatch& batch = call.batch;
  const InlineLimits& limits = context_.store.inline_limits;
  Group group;
  group.first = call.next;
  // Writes of one key stay together, in their order.
  group.end = batch.EndOfKey(group.first);
  if (batch.mode() == WriteMode::kModify) {
    call.next = group.end;
    return group;
  }
  const Moment began = context_.links.Now();
  HighFence fence;
  const std::optional<NodeCache::Step> path =
      context_.cache.FindLeaf(batch.key(group.first), &fence);
  const size_t end =
      path ? std::max(group.end, FindEnd(batch, group.first, call.end, fence)) : group.end;
  // Many writes to one leaf cut it into many, also where a long key needs it.
  const bool cuts = path && (batch.fill() != 0 || end - group.first > LeafJob::kFew);
  // A single write refuses a key that is too long for the store.
  const size_t longest = context_.store.parameters.max_key_bytes;
  const auto is_plain = [&](size_t position) {
    if (!cuts) return batch.IsShort(position, limits);
    return batch.key(position).size() <= longest &&
           batch.IsShortBehind(group.first, position, path->low, limits);
  };
  group.is_plain = std::ranges::all_of(std::views::iota(group.first, group.end), is_plain);
  if (group.is_plain && path) {
    group.path = *path;
    group.began = began;
    // Up to the first key with a write that is not plain.
    size_t plain_end = group.end;
    size_t bytes = 0;
    while (plain_end < end && bytes < kMostBytes && is_plain(plain_end)) {
      const size_t value_bytes = batch.value(plain_end++).size();
      if (value_bytes > limits.value_bytes) bytes += value_bytes;
    }
    while (plain_end < end && AreEqual(batch.key(plain_end - 1), batch.key(plain_end))) {
      --plain_end;
    }
    group.end = plain_end;
  }
  call.next = group.end;
  return group;
}

Task<void> BatchWriter::Put(std::span<const KeyValueView> pairs, std::span<Status> results) {
  const auto scratch = idle_.Take();
  WriteBatch batch(WriteMode::kPut, pairs, results);
  batch.Sort(scratch->order);
  co_await Write(batch, scratch->rest);
}

Task<void> BatchWriter::Remove(std::span<const std::string_view> keys, WriteMode mode,
                               std::span<Status> results) {
  assert(Removes(mode));
  const auto scratch = idle_.Take();
  scratch->pairs.clear();
  for (const std::string_view key : keys) scratch->pairs.push_back({key, {}, {}});
  WriteBatch batch(mode, scratch->pairs, results);
  batch.Sort(scratch->order);
  co_await Write(batch, scratch->rest);
}

Task<Status> BatchWriter::Expire(std::span<const std::string_view> keys) {
  std::vector<Status> results(keys.size(), Ok());
  co_await Remove(keys, WriteMode::kExpire, results);
  for (const Status& result : results) {
    if (result) ++context_.counters.expired;
    if (!result && result.error().code != Code::kNotFound) co_return result;
  }
  co_return Ok();
}

Task<void> BatchWriter::Modify(std::span<const KeyModifier> modifiers, std::span<Status> results) {
  // The memory of what is noted is nobody else's as long as this runs.
  const RunningOperations::Scope scope(context_.running);
  const auto scratch = idle_.Take();
  co_await ModifyTogether(modifiers, results, plans_at_once_, *scratch);
  if (scratch->undone.empty()) co_return;
  scratch->modifiers.clear();
  for (const size_t index : scratch->undone) scratch->modifiers.push_back(modifiers[index]);
  scratch->results.assign(scratch->undone.size(), Ok());
  const auto planned = idle_.Take();
  co_await ModifyTogether(scratch->modifiers, scratch->results, true, *planned);
  for (size_t i = 0; i < scratch->undone.size(); ++i) {
    results[scratch->undone[i]] = scratch->results[i];
  }
}

Task<void> BatchWriter::ModifyTogether(std::span<const KeyModifier> modifiers,
                                       std::span<Status> results, bool are_planned,
                                       Scratch& scratch) {
  scratch.pairs.clear();
  scratch.modifications.clear();
  scratch.undone.clear();
  const auto inline_bytes = static_cast<size_t>(context_.store.inline_limits.value_bytes);
  for (const KeyModifier& one : modifiers) {
    scratch.pairs.push_back({one.key, {}, {}});
    scratch.modifications.emplace_back(*one.modifier, inline_bytes);
  }
  WriteBatch batch(WriteMode::kModify, scratch.pairs, results);
  batch.set_modifications(scratch.modifications);
  batch.Sort(scratch.order);
  std::optional<Moment> began;
  if (are_planned) {
    began = context_.links.Now();
    Planning planning{batch, scratch.pairs};
    co_await PlanAll(planning);
    plans_at_once_ = 2 * planning.worth_it >= batch.size();
  }
  co_await pipeline_.Write(batch, RestInto(scratch.rest, batch.size()), began);
  if (!are_planned) {
    const auto is_kept = [](const Modification& one) {
      return one.state() == Modification::State::kKept && one.modifier().wants_value();
    };
    const auto kept = static_cast<size_t>(std::ranges::count_if(scratch.modifications, is_kept));
    ChooseUndone(batch, scratch);
    plans_at_once_ = 2 * (scratch.undone.size() + kept) >= batch.size();
  }
  co_await WriteRest(batch, scratch.rest);
}

void BatchWriter::ChooseUndone(const WriteBatch& batch, Scratch& scratch) {
  size_t noted = 0;
  std::vector<WriteBatch::Range> rest;
  for (const WriteBatch::Range& range : scratch.rest) {
    for (size_t position = range.first; position < range.end; ++position) {
      if (!batch.IsAlone(position)) {
        AddTo(rest, {position, position + 1});
        continue;
      }
      using State = Modification::State;
      noted += batch.modification(position)->state() == State::kNoted ? 1 : 0;
      scratch.undone.push_back(batch.IndexOf(position));
    }
  }
  if (noted > kFewUndone) {
    scratch.rest = std::move(rest);
  } else {
    scratch.undone.clear();
  }
}

Task<void> BatchWriter::PlanAll(Planning& planning) {
  Workers workers(context_.links.scheduler());
  while (planning.next < planning.batch.size() && workers.running() < kReadWindow) {
    workers.Start(PlanSome(planning));
  }
  co_await workers.Wait();
}

// 1 RT, and 1 RT more where values are in blocks, for kMaxKeys keys.
Task<void> BatchWriter::PlanSome(Planning& planning) {
  const auto chunk = idle_reads_.Take();
  std::array<KeyView, GetPipeline::kMaxKeys> storage;
  while (planning.next < planning.batch.size()) {
    const size_t first = planning.next;
    const size_t count = std::min(GetPipeline::kMaxKeys, planning.batch.size() - first);
    planning.next += count;
    for (size_t i = 0; i < count; ++i) storage[i] = planning.batch.key(first + i);
    const std::span<const KeyView> keys = std::span(storage).first(count);
    Op op = context_.links.Begin();
    co_await reader_.Get(op, keys, *chunk);
    GetPipeline::Part wanted;
    for (const uint8_t i : chunk->in_blocks().keys()) {
      if (planning.batch.modification(first + i)->modifier().wants_value()) wanted.Add(i);
    }
    if (wanted.count != 0) co_await reader_.GetBlocks(op, keys, *chunk, wanted);
    reader_.Count(op);
    for (size_t i = 0; i < count; ++i) PlanOne(planning, first + i, chunk->answer(i));
    chunk->GiveBuffersBack();
  }
}

void BatchWriter::PlanOne(Planning& planning, size_t position, const GetJob::Answer& answer) const {
  using Kind = Entry::Kind;
  using Verdict = GetJob::Verdict;
  const WriteBatch& batch = planning.batch;
  Modification& modification = *batch.modification(position);
  const bool wants_value = modification.modifier().wants_value();
  const bool has_unread_block = !wants_value && answer.verdict == Verdict::kBlock;
  if (!batch.IsAlone(position) || (!answer.is_plain() && !has_unread_block)) return;
  std::optional<std::string_view> value;
  std::optional<Modification::Stored> stored;
  if (answer.verdict != Verdict::kAbsent) {
    if (answer.kind == Kind::kLong) return;
    value = has_unread_block ? std::string_view() : answer.stored;
    const bool has_read_block = answer.kind == Kind::kBlock && !has_unread_block;
    const std::string_view bytes =
        has_read_block ? std::string_view(reinterpret_cast<const char*>(&answer.reference),
                                          sizeof answer.reference)
                       : answer.stored;
    stored.emplace(Modification::Stored{answer.kind, std::string(bytes), answer.expires_at});
  }
  modification.Note(std::move(stored));
  modification.Plan(value);
  const ValueModifier::Change& change = modification.change();
  // The value may have to be stored again, and nobody has read it.
  if (!wants_value && change.kind == ValueModifier::Kind::kTouch) return modification.Restart();
  KeyValueView& pair = planning.pairs[batch.IndexOf(position)];
  if (change.kind == ValueModifier::Kind::kPut) pair.value = change.value;
  const bool is_worth_it = answer.kind == Kind::kBlock || modification.is_kept_by_plan() ||
                           pair.value.size() > context_.store.inline_limits.value_bytes;
  planning.worth_it += is_worth_it ? 1 : 0;
}

Task<SortedLoad> BatchWriter::Load(std::span<const KeyValueView> pairs, double fill) {
  if (!(fill > 0 && fill <= 1)) {
    co_return SortedLoad{0, MakeError(Code::kInvalidArgument,
                                      fmt::format("leaves cannot be filled to {}: give a part "
                                                  "above 0 and at most 1",
                                                  fill))};
  }
  const auto scratch = idle_.Take();
  WriteBatch batch(WriteMode::kPut, pairs, {});
  const size_t unsorted = FindUnsorted(pairs);
  if (unsorted != pairs.size()) {
    co_return SortedLoad{0, MakeError(Code::kInvalidArgument,
                                      fmt::format("key {} of a sorted load is less than the one "
                                                  "before it: sort the keys, or put them",
                                                  unsorted))};
  }
  batch.set_fill(fill);
  co_await Write(batch, scratch->rest);
  co_return SortedLoad{batch.first_failed(),
                       batch.failed() == 0 ? Status(Ok()) : Status(batch.first_error()),
                       pairs.size() - batch.failed()};
}

Task<void> BatchWriter::Write(WriteBatch& batch, std::vector<WriteBatch::Range>& rest) {
  const RunningOperations::Scope scope(context_.running);
  co_await pipeline_.Write(batch, RestInto(rest, batch.size()));
  co_await WriteRest(batch, rest);
}

Task<void> BatchWriter::WriteRest(WriteBatch& batch, std::span<const WriteBatch::Range> rest) {
  Call call{batch, rest};
  Workers workers(context_.links.scheduler());
  while (StartRange(call) && workers.running() < kWindow) workers.Start(Work(call));
  co_await workers.Wait();
}

Task<void> BatchWriter::Work(Call& call) {
  OperationSequence sequence(call.critical_path);
  while (StartRange(call)) co_await WriteGroup(call.batch, NextGroup(call), sequence);
}

bool BatchWriter::StartRange(Call& call) {
  assert(call.next <= call.end);
  if (call.next != call.end) return true;
  if (call.next_range == call.ranges.size()) return false;
  const WriteBatch::Range range = call.ranges[call.next_range++];
  call.next = range.first;
  call.end = range.end;
  return true;
}

Task<void> BatchWriter::WriteSingly(WriteBatch& batch, size_t first, size_t end,
                                    OperationSequence& sequence, NodeCache::Step path,
                                    std::optional<Moment> began) {
  for (size_t position = first; position < end; ++position) {
    if (batch.mode() == WriteMode::kModify) {
      if (batch.modification(position)->is_kept_by_plan()) continue;
      const Status status = co_await writer_.ModifyUntilDone(
          batch.key(position), batch.modification(position)->modifier(), &sequence.patience());
      batch.SetResult(position, status);
      continue;
    }
    const LeafWriter::Part part{.path = std::exchange(path, {}),
                                .began = std::exchange(began, std::nullopt),
                                .sequence = &sequence,
                                .patience = &sequence.patience()};
    const Status status = co_await writer_.WriteUntilDone(
        batch.key(position), batch.value(position), batch.mode(), &part, batch.expiry(position));
    batch.SetResult(position, status);
  }
}

Task<void> BatchWriter::SettleMaybeApplied(WriteBatch& batch, size_t first, size_t end,
                                           const Status& status, OperationSequence& sequence) {
  for (size_t position = first; position < end; ++position) {
    const bool wrote_nothing = batch.keeps_results() && !batch.result(position);
    if (wrote_nothing) {
      co_await WriteSingly(batch, position, position + 1, sequence);
    } else {
      batch.SetResult(position, status);
    }
  }
}

Task<void> BatchWriter::WriteGroup(WriteBatch& batch, Group group, OperationSequence& sequence) {
  // A single write may also be done along with another operation's.
  if (!group.is_plain || group.end - group.first == 1) {
    co_return co_await WriteSingly(batch, group.first, group.end, sequence, group.path,
                                   group.began);
  }
  for (size_t first = group.first; first < group.end;) {
    // The parts of a large group one after the other: of an ascending load, each goes behind the
    // last.
    const bool is_large = group.end - first > kMostWrites;
    const size_t most = is_large ? batch.EndOfKey(first + kMostWrites - 1) : group.end;
    Op op = context_.links.Begin();
    op.began = std::exchange(group.began, std::nullopt).value_or(op.began);
    sequence.patience().Begin(op);
    WriteTally tally;
    size_t end = most;
    Status status = co_await writer_.WriteGroup(op, batch, first, end, group.path, tally);
    group.path = {};
    while (!status) {
      const bool again = co_await context_.links.RecoverFrom(op, status.error());
      if (!again) break;
      end = most;
      tally = {};
      status = co_await writer_.WriteGroup(op, batch, first, end, group.path, tally);
    }
    sequence.patience().End(op, status);
    if (op.passed_over) context_.memory.TendPassedOver(op);
    op.wire.round_trips = sequence.Extend(op.wire.round_trips);
    writer_.Count(op, batch.mode(), tally, status.has_value());
    const Code code = status ? Code::kNotFound : status.error().code;
    if (code == Code::kMaybeApplied) {
      co_await SettleMaybeApplied(batch, first, end, status, sequence);
    } else if (code == Code::kExhausted || code == Code::kNoResources ||
               code == Code::kCorruption) {
      // Nothing was written. Some of the writes may need no memory, or no unit that is damaged.
      co_await WriteSingly(batch, first, end, sequence);
    } else if (!status) {
      batch.SetResults(first, end, status);
    }
    first = end;
  }
}

}  // namespace gossamer
