#include "compute/session/links.h"

#include <fmt/core.h>

#include <algorithm>
#include <string>

#include "compute/rules/rules.h"

namespace gossamer {
namespace {

// Most restarts of an operation after losing a queue pair. Under a lock the operation goes on
// longer, because what it posted must be settled.
constexpr uint32_t kMaxRetries = 16;
constexpr uint32_t kMaxLosses = 10'000;
// Most times that a lease may end during its registration.
constexpr uint32_t kMaxRegistrations = 64;
// A server that is down is not tried again for this long.
constexpr std::chrono::milliseconds kTryAgain{500};
// One that is to come back is looked for as often.
constexpr std::chrono::milliseconds kLookAgain{20};

}  // namespace

Links::Links(Scheduler& scheduler, Pauses& pauses, const Servers& servers, Hooks hooks)
    : scheduler_(scheduler), pauses_(pauses), servers_(servers), hooks_(std::move(hooks)) {}

void Links::Account(Op& op, const Batch& batch) {
  for (const Verb& verb : batch.verbs()) {
    switch (TraitsOf(verb.opcode).verb_class) {
      case VerbClass::kRead:
        ++op.wire.reads;
        op.wire.bytes_read += verb.length;
        break;
      case VerbClass::kWrite:
        ++op.wire.writes;
        op.wire.bytes_written += verb.length;
        break;
      case VerbClass::kAtomic: ++op.wire.atomics; break;
    }
  }
}

// Words of locks are no pointers: what is posted about them goes by the lease in the word (rule
// L4).
bool Links::MayPost(Op& op, Batch& batch) {
  const bool has_pointers = std::ranges::any_of(
      batch.verbs(), [](const Verb& verb) { return verb.space != Space::kLockTable; });
  if (!has_pointers || rules::MayUsePast()) return true;
  op.NoteLoss({batch.server()});
  op.is_of_the_past = true;
  for (Verb& verb : batch.verbs()) verb.status = VerbStatus::kPending;
  return false;
}

void Links::SetPending(std::span<Batch* const> batches) {
  for (Batch* batch : batches) {
    if (batch == nullptr) continue;
    for (Verb& verb : batch->verbs()) verb.status = VerbStatus::kPending;
  }
}

Error Links::OfThePast(Op& op, ServerId server) const {
  op.NoteLoss({server});
  op.is_of_the_past = true;
  return MakeError(
      Code::kNodeUnreachable,
      fmt::format("this operation did not begin under the present lease with memory server {}",
                  ToInteger(server)));
}

void Links::Learn(Link& link, ServerId server, const Registration& registration) {
  link.lease = registration.lease;
  link.since = hooks_.registered(server, registration);
}

Error Links::Unreachable(Op& op, const Batch& batch) {
  op.NoteLoss(LossOf(batch));
  return MakeError(Code::kNodeUnreachable,
                   fmt::format("memory server {} cannot be reached ({})", ToInteger(batch.server()),
                               VerbStatusName(batch.status())));
}

Error Links::WhyOutOfReach(Op& op, RemotePtr pointer) const {
  if (ToInteger(pointer.server()) >= Servers::kMaxServers) {
    return CorruptNode(pointer, "a pointer to a memory server that cannot be");
  }
  if (servers_.Find(pointer.server()) == nullptr) return OfThePast(op, pointer.server());
  return CorruptNode(pointer, "a pointer outside the memory server's region");
}

const Error* Links::WhyDown(ServerId server) const {
  const Link& link = links_[ToInteger(server)];
  return link.is_down && scheduler_.Now() - link.failed_at < kTryAgain ? &link.why : nullptr;
}

Error Links::CannotReach(ServerId server, std::string_view why) const {
  const ServerInfo* info = servers_.Find(server);
  return CannotBeReached(server, info == nullptr ? "an unknown address" : info->address, why);
}

Task<Status> Links::Replace(Op& op, Loss loss) {
  const ServerId server = loss.server;
  op.NoteLoss(loss);
  if (++op.losses > kMaxLosses) {
    co_return CannotReach(server,
                          fmt::format("one operation lost {} queue pairs to it", kMaxLosses));
  }
  Link& link = links_[ToInteger(server)];
  IsLate(op);  // the wait for another coroutine counts
  while (link.is_busy) co_await link.became_idle.Wait();
  const bool is_done = link.made_at > loss.posted_at && link.lease.incarnation != 0;
  if (is_done) co_return Ok();  // by another coroutine
  if (const Error* why = WhyDown(server)) co_return *why;
  link.is_busy = true;
  const Clock::time_point began = scheduler_.Now();
  Status replaced = Ok();
  {
    const ReturnWaits::Scope wait(servers_.ComesBack(server) ? hooks_.waits : nullptr, scheduler_);
    replaced = co_await ReplaceQueuePair(op, server);
  }
  // An operation that has waited for other servers, too, gives up sooner than others would.
  const bool gives_up_early =
      servers_.ComesBack(server) && scheduler_.Now() - began < hooks_.reconnect;
  link.is_down = !replaced && !gives_up_early;
  if (!replaced) {
    hooks_.lost(server, scheduler_.Now());
    link.failed_at = scheduler_.Now();
    link.why = replaced.error();
  }
  SetIdle(link);
  co_return replaced;
}

// Behind a search, which knows more: what does not answer may be a former process of the server.
Error Links::WhyInVain(ServerId server, const Error& lost, const Error& searched) const {
  const bool was_searched = servers_.ComesBack(server) || servers_.HasLeft(server);
  return was_searched ? searched : CannotReach(server, lost.message);
}

Task<Status> Links::ReplaceQueuePair(Op& op, ServerId server) {
  Link& link = links_[ToInteger(server)];
  uint32_t silences = 0;
  std::string why;
  for (uint32_t attempt = 0; attempt < kMaxRegistrations;) {
    // First, because other coroutines' verbs on the next queue pair do not belong to this lease
    // (rule L4).
    link.lease = {};
    link.since = kNever;
    const uint64_t incarnation = IncarnationOf(server);
    // Servers that are killed again and again do not make this endless, and use up no attempts
    // before the operation is late.
    const uint32_t next_attempt = attempt + (IsLate(op) ? 1 : 0);
    if (servers_.Find(server) == nullptr) {
      BOOST_OUTCOME_CO_TRYV(co_await AwaitReturn(op, server, incarnation));
      attempt = next_attempt;
      continue;
    }
    QueuePairRequest request;
    request.server = server;
    co_await scheduler_.endpoint().Execute(request);
    if (!request.status) {
      if (request.status.error().code != Code::kNodeUnreachable) co_return request.status;
      const Status may_try = co_await AwaitReturn(op, server, incarnation);
      if (!may_try) co_return WhyInVain(server, request.status.error(), may_try.error());
      attempt = next_attempt;
      continue;
    }
    const Clock::time_point asked_at = scheduler_.Now();
    link.made_at = ++made_;
    const Result<Registration> registered = co_await RegisterOver(scheduler_.endpoint(), server);
    if (registered) {
      Learn(link, server, registered.value());
      co_return Ok();
    }
    // Fenced: the previous lease is still being ended. Unreachable: this queue pair is lost as
    // well.
    const Code code = registered.error().code;
    silences = scheduler_.Now() - asked_at < kSilentRegistration ? 0 : silences + 1;
    if (code != Code::kFenced && code != Code::kNodeUnreachable) co_return registered.error();
    if (silences == kMostSilences) {
      const Status may_try = co_await AwaitReturn(op, server, incarnation);
      if (!may_try) co_return WhyInVain(server, registered.error(), may_try.error());
      silences = 0;
    }
    why = registered.error().message;
    co_await pauses_.After(++attempt);
  }
  co_return CannotReach(
      server, fmt::format("{} registrations failed, the last one as: {}", kMaxRegistrations, why));
}

bool Links::IsLate(Op& op) const {
  const Clock::time_point now = scheduler_.Now();
  if (!op.lost_since) op.lost_since = now;
  return now - *op.lost_since >= hooks_.reconnect;
}

Task<Status> Links::AwaitReturn(Op& op, ServerId server, uint64_t gone) {
  if (servers_.Find(server) != nullptr && !servers_.ComesBack(server)) {
    co_return CannotReach(server, "it does not come back");
  }
  IsLate(op);
  const ReturnWaits::Scope wait(hooks_.waits, scheduler_);
  // At least once: it may be back for long, and nobody has needed it since.
  ServerSearch search(scheduler_, server, gone, hooks_.find_server);
  Status found = co_await search;
  if (found) co_return found;
  // Asked behind the search, which may have learnt that.
  if (!servers_.ComesBack(server) || IsLate(op)) co_return found;
  co_await scheduler_.SleepFor(kLookAgain);
  co_return Ok();
}

Task<Status> Links::Register(Op& op, ServerId server) {
  Link& link = links_[ToInteger(server)];
  while (link.is_busy) co_await link.became_idle.Wait();
  const Loss present = LossOfPresent(server);
  if (link.is_down || servers_.Find(server) == nullptr) co_return co_await Replace(op, present);
  if (link.lease.incarnation != 0) co_return Ok();
  link.is_busy = true;
  ++op.wire.sends;
  StartRoundTrip(op);
  const Result<Registration> registered = co_await RegisterOver(scheduler_.endpoint(), server);
  if (registered) Learn(link, server, registered.value());
  SetIdle(link);
  if (registered) co_return Ok();
  co_return co_await Replace(op, present);
}

bool Links::HasGivenUp(Op& op) {
  const bool is_late = IsLate(op);
  return ++op.retries > kMaxRetries && (is_late || !servers_.SomeComeBack());
}

Task<bool> Links::RecoverFrom(Op& op, Error& error) {
  const bool is_loss = error.code == Code::kNodeUnreachable || error.code == Code::kFenced;
  const std::optional<Loss> lost = std::exchange(op.lost, std::nullopt);
  const bool needs_other_memory = std::exchange(op.needs_other_memory, false);
  const bool lacks_memory = std::exchange(op.lacks_memory, false);
  const bool is_of_the_past = std::exchange(op.is_of_the_past, false);
  if (!is_loss || (!lost && !needs_other_memory)) co_return false;
  // Each session's first verb to a server registers.
  const bool is_first = is_of_the_past && lost && !IsRegistered(lost->server);
  if (!is_first && HasGivenUp(op)) co_return false;
  if (op.retries > kMaxRetries) co_await pauses_.After(op.retries - kMaxRetries);
  op.began = Now();
  if (!lost) co_return true;
  Status replaced = Ok();
  if (is_of_the_past) {
    replaced = co_await Register(op, lost->server);
  } else {
    replaced = co_await Replace(op, *lost);
  }
  op.began = Now();
  // The allocator skips unreachable servers.
  if (!replaced && needs_other_memory && servers_.HasOther(lost->server)) {
    co_return !is_first || !HasGivenUp(op);
  }
  // The reason why the server is unreachable says more than the lost verb. If no other server had
  // memory either, the error reports that as well.
  if (!replaced && lacks_memory) error.message = replaced.error().message + "; " + error.message;
  if (!replaced && !lacks_memory) error = replaced.error();
  co_return replaced.has_value();
}

}  // namespace gossamer
