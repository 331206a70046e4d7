#include "compute/store/testing/faulty_endpoint.h"

#include <algorithm>

#include "proto/region.h"

namespace gossamer {

void FaultyEndpoint::Post(Batch& batch) {
  auto flight = std::make_unique<Flight>();
  flight->batch = &batch;
  const bool broken = broken_.contains(batch.server());
  for (const Verb& verb : batch.verbs()) {
    Watch(verb);
    auto single = std::make_unique<Single>();
    single->batch.Reset(batch.server());
    single->batch.Add(verb);
    if (broken) single->lost = VerbStatus::kFlushed;
    if (plan_.max_delay != 0) {
      single->delay = static_cast<uint32_t>(plan_.random() % (plan_.max_delay + 1));
    }
    flight->singles.push_back(std::move(single));
  }
  flights_.push_back(std::move(flight));
}

void FaultyEndpoint::Post(ControlCall& call) {
  switch (plan_.calls) {
    case FaultPlan::Calls::kPass: return below().Post(call);
    case FaultPlan::Calls::kFail:
      call.status = VerbStatus::kFlushed;
      return lost_calls_.push_back(&call);
    case FaultPlan::Calls::kWait: return plan_.waiting_calls.push_back(&call);
  }
}

void FaultyEndpoint::Watch(const Verb& verb) {
  if (!verb.is_write()) return;
  const bool root_word = verb.space == Space::kRegion && verb.remote_offset < kFirstLeafOffset;
  if (verb.space == Space::kLockTable || root_word) ++plan_.forbidden_writes;
}

size_t FaultyEndpoint::Poll() {
  // In order on each server: a verb that waits holds up the ones behind it.
  std::set<ServerId> held;
  plan_.holds_back = false;
  for (const std::unique_ptr<Flight>& flight : flights_) {
    const ServerId server = flight->batch->server();
    if (!held.contains(server) && !TryStart(*flight)) held.insert(server);
  }
  if (plan_.calls == FaultPlan::Calls::kPass) {
    for (ControlCall* call : std::exchange(plan_.waiting_calls, {})) below().Post(*call);
  }
  size_t completed = below().Poll();
  const auto complete = [&](const auto& ended) {
    for (const auto* one : ended) {
      one->completion->CountDown();
      ++completed;
    }
  };
  complete(std::exchange(lost_calls_, {}));
  complete(std::exchange(ended_requests_, {}));

  std::set<ServerId> unfinished;
  std::vector<std::unique_ptr<Flight>> finished;
  for (std::unique_ptr<Flight>& flight : flights_) {
    const ServerId server = flight->batch->server();
    if (unfinished.contains(server)) continue;
    if (TryFinish(*flight)) {
      finished.push_back(std::move(flight));
    } else {
      unfinished.insert(server);
    }
  }
  std::erase(flights_, nullptr);
  for (const std::unique_ptr<Flight>& flight : finished) {
    flight->batch->completion->CountDown();
    ++completed;
  }
  return completed;
}

void FaultyEndpoint::Post(QueuePairRequest& request) {
  if (!below().IsAttached(request.server)) return below().Post(request);
  request.status = Replace(request.server);
  if (request.status) return below().Post(request);
  ended_requests_.push_back(&request);
}

// When this returns, the applied verbs of the old queue pair have ended (rule U1).
Status FaultyEndpoint::Replace(ServerId server) {
  const bool is_lost = broken_.contains(server) && !plan_.can_reconnect;
  if (is_lost || plan_.reconnects_left == 0) {
    return MakeError(Code::kNodeUnreachable, "the plan lets nobody reconnect");
  }
  const auto on_its_way = [](const std::unique_ptr<Single>& single) {
    return single->posted && single->done.remaining != 0;
  };
  for (const std::unique_ptr<Flight>& flight : flights_) {
    while (std::ranges::any_of(flight->singles, on_its_way)) below().Poll();
  }
  if (plan_.reconnects_left != FaultPlan::kNever) --plan_.reconnects_left;
  // A server that was never connected to is connected this way, too.
  if (broken_.erase(server) != 0) plan_.break_at = FaultPlan::kNever;
  return Ok();
}

// Returns false if a verb of the flight has not started yet.
bool FaultyEndpoint::TryStart(Flight& flight) {
  const bool is_silent = plan_.silent.contains(flight.batch->server());
  for (const std::unique_ptr<Single>& single : flight.singles) {
    if (single->posted || single->lost != VerbStatus::kPending) continue;
    if (is_silent) return false;
    if (plan_.verbs >= plan_.allowed_verbs) {
      plan_.holds_back = true;
      return false;
    }
    if (single->delay != 0) {
      --single->delay;
      return false;
    }
    Start(*single, flight.batch->server());
  }
  return true;
}

void FaultyEndpoint::Start(Single& single, ServerId server) {
  ++plan_.verbs;
  if (plan_.verbs == plan_.break_at) {
    // Everything in flight to this server is lost, applied or not.
    plan_.broke = true;
    broken_.insert(server);
    uint64_t applied = plan_.applied;
    for (const std::unique_ptr<Flight>& flight : flights_) {
      if (flight->batch->server() != server) continue;
      for (const std::unique_ptr<Single>& other : flight->singles) {
        if (other->posted) continue;
        other->lost = VerbStatus::kUnknown;
        ++plan_.lost;
        const Verb& verb = other->batch.verbs()[0];
        if (applied == 0 && verb.is_write()) {
          plan_.late_writes.push_back(
              {server, verb.remote_offset, {verb.local.data, verb.local.data + verb.length}});
        }
        if (applied == 0) continue;
        --applied;
        other->posted = true;
        other->done = {1, std::noop_coroutine()};
        other->batch.completion = &other->done;
        below().Post(other->batch);
      }
    }
    return;
  }
  single.posted = true;
  single.done = {1, std::noop_coroutine()};
  single.batch.completion = &single.done;
  below().Post(single.batch);
}

// Returns false if not all of the flight has ended.
bool FaultyEndpoint::TryFinish(Flight& flight) {
  std::uniform_real_distribution<double> chance(0, 1);
  for (const std::unique_ptr<Single>& single : flight.singles) {
    if (!single->posted && single->lost == VerbStatus::kPending) return false;
    if (single->posted && single->done.remaining != 0) return false;
    Verb& verb = single->batch.verbs()[0];
    const bool is_read = verb.is_read() && verb.length != 0 &&
                         single->lost == VerbStatus::kPending &&
                         verb.status == VerbStatus::kSuccess;
    if (is_read && !single->torn && plan_.tear > 0 && chance(plan_.random) < plan_.tear) {
      Result<BufferLease> lease = below().buffers().Allocate(verb.length);
      if (lease) {
        single->torn = true;
        single->late_bytes = std::move(lease.value());
        single->delay = plan_.max_delay == 0
                            ? 0
                            : static_cast<uint32_t>(plan_.random() % (plan_.max_delay + 1));
        ++plan_.torn;
      }
    }
    if (single->torn && !single->late_posted) {
      if (single->delay != 0) {
        --single->delay;
        return false;
      }
      single->late.Reset(single->batch.server());
      single->late.Add(
          Verb::Read(verb.remote_offset, verb.length, single->late_bytes.address(), verb.space));
      single->late_done = {1, std::noop_coroutine()};
      single->late.completion = &single->late_done;
      single->late_posted = true;
      below().Post(single->late);
    }
    if (single->torn && single->late_done.remaining != 0) return false;
  }

  for (size_t i = 0; i < flight.singles.size(); ++i) {
    Single& single = *flight.singles[i];
    const Verb& done = single.batch.verbs()[0];
    Verb& verb = flight.batch->verbs()[i];
    verb.status = single.lost == VerbStatus::kPending ? done.status : single.lost;
    if (!verb.is_read() || verb.status != VerbStatus::kSuccess) continue;
    if (single.torn) {
      // Takes runs of bytes or single bytes from either of the two reads, as a NIC might.
      const uint64_t run = uint64_t{1} << plan_.random() % 8;
      bool late = plan_.random() % 2 == 0;
      for (uint32_t at = 0; at < verb.length; ++at) {
        if (plan_.random() % run == 0) late = !late;
        if (late) verb.local.data[at] = single.late_bytes.data()[at];
      }
    }
    if (plan_.scramble > 0 && verb.space == Space::kRegion && verb.length >= 8 &&
        chance(plan_.random) < plan_.scramble) {
      ++plan_.scrambled;
      verb.local.data[plan_.random() % verb.length] ^=
          static_cast<std::byte>(1 + plan_.random() % 255);
    }
  }
  return true;
}

}  // namespace gossamer
