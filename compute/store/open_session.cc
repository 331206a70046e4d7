#include "compute/store/open_session.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "common/random_id.h"
#include "compute/session/control_client.h"
#include "compute/store/keeping/eviction.h"
#include "compute/store/scan_cursor.h"
#include "compute/tree/tree.h"

namespace gossamer {
namespace {

constexpr size_t kFew = 4;

}  // namespace

OpenSession::OpenSession(StoreState& shared, std::unique_ptr<Endpoint> endpoint)
    : shared_(shared),
      endpoint_(std::move(endpoint)),
      scheduler_(*endpoint_),
      tree_(std::make_unique<Tree>(shared, scheduler_)),
      random_(RandomId()) {
  shared_.counts.Add(tree_->figures());
}

// This may be the last session. Where a lease ends with its last queue pair, the store's own queue
// pair keeps it from here on.
OpenSession::~OpenSession() {
  scheduler_.RunUntil(0);  // Coroutines may scan.
  while (!cursors_.empty()) cursors_.back()->EndWithSession();
  shared_.counts.Remove(tree_->figures());
  shared_.events.TendLinks();
}

// A get that is alone in its session does not wait for others.
Task<Result<std::string>> OpenSession::AsyncGet(std::string_view key) {
  const bool is_alone = !tree_->gathered_gets().is_open() && scheduler_.running() <= 1;
  return is_alone ? tree_->getter().GetUntilDone(key) : tree_->gathered_gets().Get(key);
}

// Likewise a write that is one of few: a group has its own cost. (running() includes the session's
// background tasks.)
Task<Status> OpenSession::AsyncWrite(std::string_view key, std::string_view value, WriteMode mode,
                                     Expiry expiry) {
  const bool is_one_of_few = !tree_->gathered_puts().is_open(mode) && scheduler_.running() <= kFew;
  return is_one_of_few ? tree_->writer().WriteUntilDone(key, value, mode, nullptr, expiry)
                       : tree_->gathered_puts().Write(key, value, mode, expiry);
}

Task<Result<ExpiringValue>> OpenSession::AsyncGetWithExpiry(std::string_view key) {
  uint64_t expires_at = 0;
  BOOST_OUTCOME_CO_TRY(value, co_await tree_->getter().GetUntilDone(key, &expires_at));
  co_return ExpiringValue{std::move(value), Expiry::FromStored(expires_at)};
}

Task<Status> OpenSession::AsyncPut(std::string_view key, std::string_view value, Expiry expiry) {
  return AsyncWrite(key, value, WriteMode::kPut, expiry);
}

Task<Status> OpenSession::AsyncInsert(std::string_view key, std::string_view value, Expiry expiry) {
  return AsyncWrite(key, value, WriteMode::kInsert, expiry);
}

Task<Status> OpenSession::AsyncUpdate(std::string_view key, std::string_view value, Expiry expiry) {
  return AsyncWrite(key, value, WriteMode::kUpdate, expiry);
}

Task<Status> OpenSession::AsyncDelete(std::string_view key) {
  return AsyncWrite(key, {}, WriteMode::kDelete);
}

Task<Status> OpenSession::AsyncModify(std::string_view key, ValueModifier& modifier) {
  return tree_->writer().ModifyUntilDone(key, modifier);
}

Task<void> OpenSession::AsyncMultiModify(std::span<const KeyModifier> modifiers,
                                         std::span<Status> results) {
  assert(results.size() == modifiers.size());
  return tree_->batches().Modify(modifiers, results);
}

Task<void> OpenSession::AsyncMultiGet(std::span<const std::string_view> keys, Values& values) {
  return tree_->many_gets().Get(keys, values);
}

Task<void> OpenSession::AsyncMultiPut(std::span<const KeyValueView> pairs,
                                      std::span<Status> results) {
  assert(results.size() == pairs.size());
  return tree_->batches().Put(pairs, results);
}

Task<void> OpenSession::AsyncMultiDelete(std::span<const std::string_view> keys,
                                         std::span<Status> results) {
  assert(results.size() == keys.size());
  return tree_->batches().Remove(keys, WriteMode::kDelete, results);
}

Task<SortedLoad> OpenSession::AsyncLoadSorted(std::span<const KeyValueView> pairs, double fill) {
  return tree_->batches().Load(pairs, fill);
}

Task<RangeDeletion> OpenSession::AsyncDeleteRange(KeyRange range,
                                                  std::function<bool(uint64_t deleted)> progress) {
  return tree_->ranges().Delete(std::move(range), std::move(progress));
}

Task<RangeDeletion> OpenSession::AsyncDeleteExpired(
    std::function<bool(uint64_t deleted)> progress) {
  return tree_->ranges().Expire(std::move(progress));
}

Task<Result<EvictedKeys>> OpenSession::AsyncEvict(EvictionChoice& choice) {
  return EvictSome(*tree_, random_, choice);
}

Task<Result<MemoryLevel>> OpenSession::AsyncMemoryLevel() {
  MemoryLevel level;
  for (const ServerInfo* server : shared_.servers.All()) {
    BOOST_OUTCOME_CO_TRY(stat, co_await CallControl<control::StatReply>(*endpoint_, server->id,
                                                                        control::StatRequest{}));
    level.heap_bytes += stat.usage.heap_bytes;
    level.free_bytes += stat.usage.free_bytes + stat.waiting_bytes;
    level.compute_servers = std::max(level.compute_servers, stat.compute_servers);
  }
  level.kept_bytes = shared_.allocator.KeptBytes();
  co_return level;
}

Task<void> OpenSession::AsyncGiveBackMemory() {
  if (shared_.allocator.GiveUpUnused()) co_await shared_.allocator.GiveBackReturns(scheduler_);
}

Task<void> OpenSession::AsyncSleep(std::chrono::microseconds time) {
  co_await scheduler_.SleepFor(time);
}

std::unique_ptr<ScanCursor> OpenSession::Scan(const ScanOptions& options) {
  return std::make_unique<TreeCursor>(*this, options);
}

void OpenSession::RunUntilDone(std::coroutine_handle<> task) {
  if (!shared_.orphans.empty()) shared_.orphans.Tend();
  scheduler_.RunUntilDone(task);
  scheduler_.RunWhile([this] { return tree_->background() != 0; });
}

size_t OpenSession::Poll() {
  scheduler_.RunOnce();
  if (!shared_.orphans.empty()) shared_.orphans.Tend();
  return scheduler_.running();
}

uint64_t OpenSession::StoreTimeMs() const { return tree_->context().clock.LatestMs(); }

Counters OpenSession::counters() const {
  Counters counters = tree_->figures().counters.Read();
  counters.cache.bytes = shared_.cache.bytes();
  return counters;
}

}  // namespace gossamer
