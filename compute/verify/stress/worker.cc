#include "compute/verify/stress/worker.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <iostream>
#include <limits>
#include <thread>

#include "common/text/escape.h"
#include "compute/verify/stress/now.h"

namespace gossamer::stress {
namespace {

constexpr uint64_t kMaxToldViolations = 5;
constexpr std::chrono::milliseconds kRest{1};
// Most operations of a session, if sessions are reopened.
constexpr uint64_t kMostOfASession = 4000;
// Bytes of a wrong key or value that a message shows.
constexpr size_t kShownBytes = 48;

}  // namespace

Worker::Worker(const StressOptions& options, uint32_t writer, uint32_t era, const Logs& logs,
               const RunBoard& board)
    : options_(options),
      keys_(options.keys()),
      values_(options.values()),
      writer_(writer),
      era_(era),
      history_(logs.history),
      failures_(logs.failures),
      report_(logs.report),
      board_(board),
      reopening_(options.seed, ~uint64_t{writer} << 8 | era),
      sequence_(FirstSequence(era)) {}

bool Worker::is_over() const {
  return board_.stop.load(std::memory_order_relaxed) ||
         board_.era.load(std::memory_order_relaxed) != era_;
}

Status Worker::Run(const NextStore& next_store, uint64_t operations) {
  operations_ = options_.is_campaign() ? std::numeric_limits<uint64_t>::max() : operations;
  while (begun_ < operations_ && !is_over()) {
    BOOST_OUTCOME_TRY(store, next_store());
    if (store == nullptr) continue;
    session_ends_at_ =
        options_.reopen ? begun_ + 1 + reopening_.Below(kMostOfASession) : operations_;
    const int64_t start = NowNs();
    Result<std::unique_ptr<Session>> opened = store->NewSession();
    if (opened) {
      RunSession(*opened.value());
    } else if (options_.is_campaign()) {
      Failed(Call::kNewSession, start, NowNs(), opened.error());
    } else {
      return opened.error();
    }
  }
  return Ok();
}

void Worker::RunSession(Session& session) {
  began_ns_.assign(options_.coroutines, NowNs());
  ++report_.sessions;
  for (uint32_t i = 0; i < options_.coroutines; ++i) {
    session.Spawn(Loop(session, i));
  }
  session.WaitAll();
  const Counters counters = session.counters();
  report_.splits += counters.of(OperationClass::kInsertSplit).operations;
  report_.rereads += counters.rereads;
  report_.lock_retries += counters.locks.remote_retries;
  report_.stale_paths += counters.cache.stale;
}

void Worker::Begin(uint32_t number) {
  ++begun_;
  began_ns_[number] = NowNs();
  report_.oldest_began_ns[writer_ % options_.threads].store(std::ranges::min(began_ns_),
                                                            std::memory_order_relaxed);
}

Task<void> Worker::Loop(Session& session, uint32_t number) {
  Random random(options_.seed, uint64_t{writer_} * options_.coroutines + number);
  while (begun_ < std::min(operations_, session_ends_at_) && !is_over()) {
    Begin(number);
    const uint64_t dice = random.Below(100);
    if (dice < 2) {
      co_await Scan(session, random);
    } else if (dice < 8) {
      const uint64_t stable = random.Below(keys_.stable_keys());
      co_await Read(session, static_cast<uint32_t>(stable) * KeySpace::kStableEvery +
                                 KeySpace::kStableEvery - 1);
    } else if (dice < 43) {
      co_await Read(session, PickHot(random));
    } else if (dice < 45) {
      co_await ReadBatch(session, random);
    } else if (dice < 97) {
      co_await Write(session, random, PickForWrite(random));
    } else {
      co_await WriteBatch(session, random);
    }
    report_.operations.fetch_add(1, std::memory_order_relaxed);
    const bool is_enough = options_.is_paced() && begun_ > options_.full_speed_operations;
    if (is_enough) std::this_thread::sleep_for(kRest);
  }
}

// Uses more and more keys as the run goes on, so that leaves split all the time. One in eight
// operations goes to one of 64 scattered keys, and one in eight to one of 32 neighbours: contended
// keys, and a contended leaf.
uint32_t Worker::PickHot(Random& random) const {
  const uint64_t all = keys_.hot_keys();
  const uint64_t kind = random.Below(8);
  if (kind == 0) {
    const uint64_t first = all / 3;
    return KeySpace::HotKey(
        static_cast<uint32_t>(first + random.Below(std::min<uint64_t>(32, all - first))));
  }
  uint64_t open = std::min<uint64_t>(64, all);
  if (kind != 1) {
    // The number of a campaign's operations is unknown: its faults determine its progress.
    const bool is_campaign = options_.is_campaign();
    const uint64_t done =
        is_campaign ? board_.progress_permille.load(std::memory_order_relaxed) : begun_;
    const uint64_t total = is_campaign ? 1000 : operations_;
    open = std::min(all, all / 10 + 1 + all * done / (total - total / 4 + 1));
  }
  // A prime spreads them over the range.
  constexpr uint64_t kStride = 2'654'435'761;
  return KeySpace::HotKey(static_cast<uint32_t>(random.Below(open) * kStride % all));
}

// A history is harder to check the more writes of one key overlap. If a key stays locked for long,
// not all coroutines may gather there.
bool Worker::MayWrite(uint32_t key) const {
  constexpr auto kMostAtOnce = 2;
  return std::count(being_written_.begin(), being_written_.end(), key) < kMostAtOnce;
}

uint32_t Worker::PickForWrite(Random& random) const {
  for (;;) {
    const uint32_t key = PickHot(random);
    if (MayWrite(key)) return key;
  }
}

ValueId Worker::Verify(uint32_t key, std::string_view value) {
  const std::optional<ValueId> id = values_.Id(value);
  if (!id) {
    Violation(
        fmt::format("key {} has a value that nobody wrote: {}", key, HexText(value, kShownBytes)));
    return kAbsent;
  }
  if (history::KeyOf(*id) != key) {
    Violation(fmt::format("key {} has a value of key {}", key, history::KeyOf(*id)));
    return kAbsent;
  }
  if (EraOf(*id) != era_) {
    Violation(fmt::format("key {} has a value of the store of era {}, in that of era {}", key,
                          EraOf(*id), era_));
    return kAbsent;
  }
  if (KeySpace::IsStable(key) && *id != StableValue(key, era_)) {
    Violation(fmt::format("stable key {} has another value than the first", key));
  }
  return *id;
}

void Worker::See(uint32_t key, ValueId value, int64_t start_ns, int64_t end_ns) {
  if (KeySpace::IsStable(key)) return;
  history_.Append({value, start_ns, end_ns, key, static_cast<uint16_t>(writer_),
                   OperationKind::kGet, Outcome::kDone});
}

void Worker::Ended(int64_t start_ns, int64_t end_ns) {
  int64_t longest = report_.longest_ns.load(std::memory_order_relaxed);
  while (end_ns - start_ns > longest &&
         !report_.longest_ns.compare_exchange_weak(longest, end_ns - start_ns)) {
  }
}

void Worker::Failed(Call call, int64_t start, int64_t end, const Error& error) {
  if (error.code == Code::kContended) {
    ++report_.contended;
    return;
  }
  ++report_.failures;
  const Status logged =
      failures_.Append(MakeFailedCall(call, writer_ / options_.threads, start, end, error));
  if (!logged) Violation(logged.error().ToString());
  // Unreachable servers are refused at once: a pause keeps the thread from retrying at full speed.
  std::this_thread::sleep_for(kRest);
}

void Worker::Violation(const std::string& what) {
  if (report_.violations++ < kMaxToldViolations) {
    std::cerr << fmt::format("writer {}: {}\n", writer_, what) << std::flush;
  }
}

Task<void> Worker::Read(Session& session, uint32_t key) {
  const std::string text = keys_.Text(key);
  const int64_t start = NowNs();
  const Result<std::string> value = co_await session.AsyncGet(text);
  const int64_t end = NowNs();
  if (value) {
    EndRead(key, std::string_view(value.value()), start, end);
  } else {
    EndRead(key, value.error(), start, end);
  }
}

void Worker::EndRead(uint32_t key, const Result<std::string_view>& value, int64_t start,
                     int64_t end) {
  Ended(start, end);
  if (value) {
    const ValueId id = Verify(key, value.value());
    if (id != kAbsent) See(key, id, start, end);
  } else if (value.error().code == Code::kNotFound) {
    if (KeySpace::IsStable(key)) Violation(fmt::format("stable key {} is absent", key));
    See(key, kAbsent, start, end);
  } else {
    Failed(Call::kGet, start, end, value.error());
  }
}

Task<void> Worker::Write(Session& session, Random& random, uint32_t key) {
  const std::string text = keys_.Text(key);
  const uint64_t dice = random.Below(55);
  const OperationKind kind = dice < 20   ? OperationKind::kPut
                             : dice < 30 ? OperationKind::kInsert
                             : dice < 40 ? OperationKind::kUpdate
                                         : OperationKind::kDelete;
  const ValueId id = NewValue(key, kind);
  const std::string value = id == kAbsent ? std::string() : values_.Bytes(id);
  Event& logged = BeginWrite(key, kind, id);
  being_written_.push_back(key);
  Status status = Ok();
  switch (kind) {
    case OperationKind::kPut: status = co_await session.AsyncPut(text, value); break;
    case OperationKind::kInsert: status = co_await session.AsyncInsert(text, value); break;
    case OperationKind::kUpdate: status = co_await session.AsyncUpdate(text, value); break;
    default: status = co_await session.AsyncDelete(text); break;
  }
  EndWrite(logged, key, status);
}

ValueId Worker::NewValue(uint32_t key, OperationKind kind) {
  return kind == OperationKind::kDelete ? kAbsent : MakeValueId(key, writer_, ++sequence_);
}

Event& Worker::BeginWrite(uint32_t key, OperationKind kind, ValueId value) {
  Event event;
  event.key = key;
  event.client = static_cast<uint16_t>(writer_);
  event.kind = kind;
  event.value = value;
  event.outcome = Outcome::kUnknown;
  event.end = kNever;
  event.start = NowNs();
  return history_.Begin(event);
}

void Worker::EndWrite(Event& logged, uint32_t key, const Status& status) {
  const int64_t start = logged.start;
  const int64_t end = NowNs();
  being_written_.erase(std::find(being_written_.begin(), being_written_.end(), key));
  Ended(start, end);
  if (status) return HistoryWriter::End(logged, end, Outcome::kDone);
  const Code code = status.error().code;
  const bool refused = logged.kind == OperationKind::kInsert
                           ? code == Code::kAlreadyExists
                           : logged.kind != OperationKind::kPut && code == Code::kNotFound;
  if (refused) return HistoryWriter::End(logged, end, Outcome::kRefused);
  // A withdrawn write certainly did nothing: reading its value is then an error.
  if (code != Code::kMaybeApplied) HistoryWriter::Withdraw(logged);
  Failed(Call::kWrite, start, end, status.error());
}

Task<void> Worker::Scan(Session& session, Random& random) {
  // Keys from `first` up to, but excluding, `last`.
  uint32_t first = static_cast<uint32_t>(random.Below(keys_.size()));
  uint32_t last = std::min(keys_.size(), first + static_cast<uint32_t>(random.Below(60)));
  ScanOptions scan;
  scan.reverse = random.Below(2) == 0;
  const std::string text = keys_.Text(first);
  if (random.Below(16) == 0) {
    // Many keys, or the neighbours that share more with this one.
    constexpr size_t kFewBytes = 3;
    const size_t more = random.Below(2) == 0 ? 0 : random.Below(text.size() - kFewBytes + 1);
    scan.prefix = text.substr(0, kFewBytes + more);
    const KeySpace::Range range = keys_.WithPrefix(scan.prefix);
    first = range.first;
    last = range.last;
  } else {
    scan.from = text;
    scan.to = last < keys_.size() ? keys_.Text(last) : std::string(5, '\xff');
  }
  if (random.Below(4) == 0) scan.limit = random.Below(40);

  history::Scan record;
  record.first = first;
  record.last = last;
  record.limit = scan.limit;
  record.reverse = scan.reverse;
  record.client = static_cast<uint16_t>(writer_);
  record.start = NowNs();
  const std::unique_ptr<ScanCursor> cursor = session.Scan(scan);
  while (co_await cursor->AsyncNext()) {
    const int64_t now = NowNs();
    const std::optional<uint32_t> key = keys_.Number(cursor->key());
    if (!key) {
      Violation("a scan returns a key that nobody wrote: " + HexText(cursor->key(), kShownBytes));
      co_return;
    }
    const ValueId id = Verify(*key, cursor->value());
    if (id == kAbsent) co_return;
    record.rows.push_back({*key, id, now});
  }
  record.end = NowNs();
  Ended(record.start, record.end);
  report_.scanned_keys.fetch_add(record.rows.size(), std::memory_order_relaxed);
  if (!cursor->status()) {
    record.broken = true;
    Failed(Call::kScan, record.start, record.end, cursor->status().error());
  }
  See(record);
}

void Worker::See(const history::Scan& scan) {
  scanned_.clear();
  const std::optional<std::string> problem = ExpandScan(scan, scanned_);
  if (problem) return Violation(*problem);
  for (const Event& event : scanned_) {
    if (KeySpace::IsStable(event.key)) {
      if (event.value == kAbsent) {
        Violation(fmt::format("{} scan misses stable key {}", scan.reverse ? "a reverse" : "a",
                              event.key));
      }
    } else if (keys_.IsUsed(event.key)) {
      history_.Append(event);
    }
  }
}

}  // namespace gossamer::stress
