#include "compute/gateway/eviction/evictor.h"

#include <glog/logging.h>

#include <algorithm>
#include <cassert>
#include <utility>

#include "common/random_id.h"
#include "compute/gateway/eviction/victim_choice.h"

namespace gossamer::gateway {
namespace {

using std::chrono::milliseconds;

// Between two looks at the memory: while it fills up, and before that.
constexpr milliseconds kShortRest{10};
constexpr milliseconds kLongRest{100};
constexpr milliseconds kTendRest{1000};
// The thread begins to evict so much below the limit, so that writes need not.
constexpr uint64_t kMarginShare = 64;
// The memory fills up once so much of the limit is used: seven eighths.
constexpr uint64_t kFillingShare = 8;
// A compute server that evicts and does not write gives back more than this share of the limit,
// which others may need.
constexpr uint64_t kHoardShare = 32;
// So does each, where compute servers keep more than this share of the limit beyond it.
constexpr uint64_t kBeyondShare = 8;
// A write brings more than its value: its entry, and nodes that split. Evicted keys bring less than
// their bytes as long as their leaves are not merged.
constexpr uint64_t kEvictedPerWritten = 2;
constexpr int kMostCalls = 64;  // of one batch
// Of a refused write, before it is tried again.
constexpr uint64_t kLeastRoom = uint64_t{64} << 10;
constexpr std::chrono::microseconds kPause{500};
constexpr std::chrono::microseconds kLongPause{5000};
// More evictions are of little use once so much of the limit is not used: a third.
constexpr uint64_t kKeptShare = 3;
// What compute servers keep is of use for many sizes at once: to give it back costs others more.
constexpr int kTriesPerReturn = 8;

// Runs a task of a session that does nothing else.
template <typename T>
T RunOn(Session& session, Task<T> task) {
  std::optional<T> result;
  session.Spawn([](Task<T> own, std::optional<T>& to) -> Task<void> {
    to.emplace(co_await std::move(own));
  }(std::move(task), result));
  session.WaitAll();
  return std::move(*result);
}

}  // namespace

Result<std::unique_ptr<Evictor>> Evictor::Start(Store& store, EvictionFigures& figures) {
  assert(figures.options.policy != EvictionPolicy::kNone);
  std::unique_ptr<Evictor> evictor(new Evictor(figures));
  BOOST_OUTCOME_TRY(session, store.NewSession());
  evictor->session_ = std::move(session);
  BOOST_OUTCOME_TRYV(RunOn(*evictor->session_, evictor->Look(*evictor->session_)));
  if (figures.options.policy == EvictionPolicy::kLru) {
    evictor->heat_ = std::make_unique<KeyHeat>(KeyHeat::BytesFor(evictor->limit()), RandomId());
  }
  BOOST_OUTCOME_TRYV(evictor->thread_.Start("evict keys", [&own = *evictor] { own.Run(); }));
  return evictor;
}

Task<Status> Evictor::Look(Session& session) {
  BOOST_OUTCOME_CO_TRY(level, co_await session.AsyncMemoryLevel());
  figures_.limit_bytes.store(figures_.options.LimitOf(level.heap_bytes), std::memory_order_relaxed);
  figures_.used_bytes.store(static_cast<int64_t>(level.used_bytes()), std::memory_order_relaxed);
  compute_servers_.store(std::max(level.compute_servers, 1U), std::memory_order_relaxed);
  kept_bytes_ = level.kept_bytes;
  handed_out_bytes_ = level.heap_bytes - level.free_bytes;
  co_return Ok();
}

Task<uint64_t> Evictor::Evict(Session& session, std::span<const uint64_t> wanted_blocks) {
  VictimChoice choice(heat_.get(), recent_,
                      {.now_ms = session.StoreTimeMs(),
                       .compute_servers = compute_servers_.load(std::memory_order_relaxed),
                       .wanted_blocks = wanted_blocks},
                      next_seed_.fetch_add(1, std::memory_order_relaxed));
  const Result<EvictedKeys> evicted = co_await session.AsyncEvict(choice);
  if (!evicted) {
    LOG_EVERY_T(WARNING, 10) << "keys cannot be evicted now: " << evicted.error().ToString();
    in_vain_.fetch_add(1, std::memory_order_relaxed);
    co_return 0;
  }
  const EvictedKeys& done = evicted.value();
  if (done.deleted != 0) {
    in_vain_.store(0, std::memory_order_relaxed);
  } else {
    in_vain_.fetch_add(1, std::memory_order_relaxed);
  }
  figures_.evicted_keys.fetch_add(done.deleted, std::memory_order_relaxed);
  figures_.evicted_bytes.fetch_add(done.bytes, std::memory_order_relaxed);
  figures_.used_bytes.fetch_sub(static_cast<int64_t>(done.bytes), std::memory_order_relaxed);
  if (done.keys_in_store > 0) {
    // An average of the last dozens of estimates.
    constexpr double kNews = 1.0 / 32;
    const auto known = static_cast<double>(keys_in_store());
    const double average =
        known == 0 ? done.keys_in_store : known + kNews * (done.keys_in_store - known);
    figures_.keys_in_store.store(static_cast<uint64_t>(average) + 1, std::memory_order_relaxed);
  }
  co_return done.bytes;
}

Task<void> Evictor::MakeRoom(Session& session, uint64_t bytes) {
  if (IsInVain()) co_return;
  figures_.delayed_writes.fetch_add(1, std::memory_order_relaxed);
  uint64_t freed = 0;
  for (int calls = 0; calls < kMostCalls && freed < kEvictedPerWritten * bytes; ++calls) {
    const int64_t used = figures_.used_bytes.load(std::memory_order_relaxed);
    if (used <= static_cast<int64_t>(limit()) || IsInVain()) co_return;
    freed += co_await Evict(session, {});
  }
}

Task<bool> Evictor::MakeRoomFor(Session& session, Refusal& refusal) {
  std::ranges::sort(refusal.wanted_blocks);
  // Where much is evicted already, what is free is kept by compute servers, or in gaps: the memory
  // servers join those of what is given back.
  const int64_t used = figures_.used_bytes.load(std::memory_order_relaxed);
  const bool is_kept = used < static_cast<int64_t>(limit() - limit() / kKeptShare);
  const uint64_t wanted = is_kept ? 1 : std::max(refusal.bytes, kLeastRoom);
  uint64_t freed = 0;
  uint64_t in_vain = 0;
  while (freed < wanted) {
    if (in_vain >= kMostInVain || Clock::now() >= refusal.until) co_return false;
    const uint64_t bytes = co_await Evict(session, refusal.wanted_blocks);
    freed += bytes;
    in_vain = bytes == 0 ? in_vain + 1 : 0;
  }
  if (++refusal.tries % kTriesPerReturn == 0) co_await session.AsyncGiveBackMemory();
  // Freed blocks have their grace, and sparse leaves are merged by another thread.
  co_await session.AsyncSleep(is_kept ? kLongPause : kPause);
  co_return true;
}

void Evictor::Run() {
  milliseconds rest{0};
  while (thread_.Rest(rest)) rest = RunOn(*session_, RunOnce());
}

Task<milliseconds> Evictor::RunOnce() {
  const Status seen = co_await Look(*session_);
  if (!seen) co_return kLongRest;
  const auto limit_bytes = static_cast<int64_t>(limit());
  const int64_t margin = limit_bytes / static_cast<int64_t>(kMarginShare);
  const auto used = [this] { return figures_.used_bytes.load(std::memory_order_relaxed); };
  const int64_t before = used();
  const uint64_t written = written_bytes_.exchange(0, std::memory_order_relaxed);
  // Where others do not evict what they write, as one does that has ended, this one does, slowly.
  uint64_t most = has_others() ? kEvictedPerWritten * written : static_cast<uint64_t>(margin);
  if (const Clock::time_point now = Clock::now(); now - tended_ >= kTendRest) {
    tended_ = now;
    most = std::max(most, static_cast<uint64_t>(margin) / 4);
    if (heat_ != nullptr) {
      heat_->Tend();
      figures_.half_life.store(heat_->half_life(), std::memory_order_relaxed);
    }
    in_vain_.store(0, std::memory_order_relaxed);
    const bool is_hoard = kept_bytes_ > limit() / kHoardShare;
    const bool is_of_no_use = has_others() && written == 0;
    const bool is_beyond = handed_out_bytes_ > limit() + limit() / kBeyondShare;
    if (is_hoard && (is_of_no_use || is_beyond)) co_await session_->AsyncGiveBackMemory();
  }
  uint64_t freed = 0;
  while (used() > limit_bytes - margin && freed < most && !IsInVain()) {
    freed += co_await Evict(*session_, {});
  }
  if (freed != 0) co_return milliseconds(1);
  const int64_t filling = limit_bytes - limit_bytes / static_cast<int64_t>(kFillingShare);
  co_return before > filling ? kShortRest : kLongRest;
}

}  // namespace gossamer::gateway
