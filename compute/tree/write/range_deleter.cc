#include "compute/tree/write/range_deleter.h"

#include <limits>
#include <memory>
#include <optional>
#include <utility>

namespace gossamer {
namespace {

// Keys of a page: those of some 200 leaves of small records.
constexpr size_t kPageKeys = 8192;
// So many merges in a row that find a lock taken: its holder may stand still.
constexpr uint32_t kMostBlockedMerges = 8;

}  // namespace

Task<RangeDeletion> RangeDeleter::Delete(KeyRange keys,
                                         std::function<bool(uint64_t deleted)> progress) {
  std::optional<ScanRange> range = RangeOf(std::move(keys.from), std::move(keys.to), keys.prefix);
  if (!range) co_return RangeDeletion();
  // What has expired goes along, and counts as absent.
  range->wanted = ScanRange::Wanted::kAll;
  co_return co_await Delete(std::move(*range), WriteMode::kDelete, std::move(progress));
}

Task<RangeDeletion> RangeDeleter::Expire(std::function<bool(uint64_t deleted)> progress) {
  ScanRange range;
  range.wanted = ScanRange::Wanted::kExpired;
  return Delete(std::move(range), WriteMode::kExpire, std::move(progress));
}

Task<RangeDeletion> RangeDeleter::Delete(ScanRange range, WriteMode mode,
                                         std::function<bool(uint64_t deleted)> progress) {
  RangeDeletion done;
  ++context_.counters.of(OperationClass::kScan).operations;
  range.keys_only = true;
  std::unique_ptr<Scan> scan =
      scanner_.Open(std::move(range), std::numeric_limits<uint64_t>::max());
  Page page;
  page.mode = mode;
  bool goes_on = true;
  while (goes_on) {
    Result<bool> has_more = co_await Read(*scan, page);
    co_await Delete(page, done);
    if (!has_more && done.status) done.status = std::move(has_more.error());
    goes_on = done.status && has_more.value();
    co_await MergeNoted(page.keys.size());
    if (progress && !progress(done.deleted)) break;
  }
  scanner_.Close(std::move(scan));
  co_return done;
}

Task<Result<bool>> RangeDeleter::Read(Scan& scan, Page& page) {
  page.bytes.clear();
  page.ends.clear();
  while (page.ends.size() < kPageKeys) {
    const Scanner::State state = scanner_.Advance(scan);
    if (state == Scanner::State::kEnded) co_return false;
    if (state == Scanner::State::kWaits) {
      BOOST_OUTCOME_CO_TRYV(co_await scanner_.Fetch(scan));
      continue;
    }
    for (const ScanEntry& entry : Scanner::Take(scan)) {
      page.bytes += entry.key();
      page.ends.push_back(page.bytes.size());
    }
  }
  co_return true;
}

Task<void> RangeDeleter::Delete(Page& page, RangeDeletion& done) {
  page.keys.clear();
  size_t start = 0;
  for (const size_t end : page.ends) {
    page.keys.push_back(std::string_view(page.bytes).substr(start, end - start));
    start = end;
  }
  page.results.assign(page.keys.size(), Ok());
  co_await batches_.Remove(page.keys, page.mode, page.results);
  for (Status& result : page.results) {
    if (result) {
      ++done.deleted;
      if (page.mode == WriteMode::kExpire) ++context_.counters.expired;
    } else if (result.error().code != Code::kNotFound && done.status) {
      done.status = std::move(result);
    }
  }
}

Task<void> RangeDeleter::MergeNoted(size_t keys) {
  for (uint32_t failures = 0; keys != 0 && failures < kMostBlockedMerges; --keys) {
    const std::optional<MergeQueue::Request> request = context_.store.merges.Take();
    if (!request) co_return;
    const uint32_t before = merger_.failures();
    co_await merger_.Run(*request);
    failures = merger_.failures() > before ? failures + 1 : 0;
  }
}

}  // namespace gossamer
