#include "compute/gateway/worker/change_run.h"

#include <numeric>
#include <utility>

#include "compute/gateway/worker/large_run.h"

namespace gossamer::gateway {

using Outcome = KeyChanges::Outcome;

Task<void> ChangeRun::Run(Session& session, std::vector<KeyChanges>& changes) {
  places_.resize(changes.size());
  std::iota(places_.begin(), places_.end(), size_t{0});
  std::vector<KeyChanges*> large;
  while (!places_.empty()) {
    modifiers_.clear();
    for (const size_t place : places_) {
      modifiers_.push_back({changes[place].key(), &changes[place]});
    }
    results_.assign(places_.size(), Ok());
    co_await session.AsyncMultiModify(modifiers_, results_);
    size_t left = 0;
    bool has_moved = false;
    for (size_t i = 0; i < modifiers_.size(); ++i) {
      KeyChanges& one = changes[places_[i]];
      const Outcome outcome = results_[i] ? one.outcome() : Outcome::kDone;
      if (outcome == Outcome::kDone) {
        one.SetResult(results_[i]);
        has_moved = true;
        continue;
      }
      if (outcome == Outcome::kIsLarge) {
        large.push_back(&one);
        has_moved = true;
        continue;
      }
      if (outcome == Outcome::kPutOff) {
        places_[left++] = places_[i];
        continue;
      }
      has_moved = true;
      const Status status = co_await Prepare(session, one);
      if (outcome == Outcome::kFills || !status) {
        // Where the composite could not be filled, the next one that changes it does that.
        one.SetResult(outcome == Outcome::kFills ? Ok() : status);
      } else {
        places_[left++] = places_[i];
      }
    }
    // Where other batches hold all that may be held, one change at a time goes on.
    if (!has_moved) changes[places_[left - 1]].NeverPutOff();
    places_.resize(left);
    for (const size_t place : places_) changes[place].SetNow(session.StoreTimeMs());
  }
  if (!large.empty()) co_await LargeRun::Change(session, std::move(large));
}

Task<Status> ChangeRun::Prepare(Session& session, KeyChanges& one) {
  const LargeHeader header = one.header();
  if (one.outcome() == Outcome::kIsCreated) {
    co_return co_await LargeRun::Create(session, one.key(), header.type);
  }
  if (one.outcome() != Outcome::kPerhapsEmpty) {
    co_return co_await LargeRun::Fill(session, one.key(), header);
  }
  BOOST_OUTCOME_CO_TRY(is_empty, co_await LargeRun::Settle(session, one.key(), header));
  if (!is_empty) co_return Ok();
  const bool is_fresh = header.since_ms + kSettlingMs > session.StoreTimeMs();
  if (!one.AddsItemsTo(header.type)) {
    one.TakeForAbsent(header, !is_fresh);
    co_return Ok();
  }
  // It stays perhaps empty until they are there: nobody finds it open and without any. Meanwhile
  // nobody else may take it for settled.
  if (is_fresh && !one.expires()) {
    one.TakeForLarge(header);
    co_return Ok();
  }
  BOOST_OUTCOME_CO_TRY(marked, co_await LargeRun::BeginAnew(session, one.key(), header));
  one.TakeForLarge(marked);
  co_return Ok();
}

}  // namespace gossamer::gateway
