#include "compute/store/keeping/sweeper.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <optional>

#include "common/process.h"
#include "compute/rules/rules.h"
#include "compute/session/control_client.h"

namespace gossamer {
namespace {

// A compute server that has not acknowledged an epoch by then has operations that nobody polls, or
// does not run.
constexpr std::chrono::seconds kLongestEpoch{60};
constexpr std::chrono::milliseconds kAskInterval{10};
constexpr int kMostSweeps = 8;

}  // namespace

Task<Result<SweepReport>> Sweeper::Run() {
  for (int again = kMostSweeps; again > 0; --again) {
    const Result<bool> swept = co_await TrySweep();
    if (is_stopped_) {
      report_.was_stopped = true;
      co_return report_;
    }
    if (!swept) co_return swept.error();
    if (swept.value()) co_return report_;
  }
  co_return MakeError(Code::kContended,
                      "memory servers joined, or ended the lease of this process, during each of "
                      "several sweeps: sweep again once that has settled");
}

Task<Status> Sweeper::PassEpoch() {
  BOOST_OUTCOME_CO_TRYV(co_await ConnectAll());
  co_return co_await AwaitEpoch();
}

Task<Result<bool>> Sweeper::TrySweep() {
  using Step = SweepProgress::Step;
  BOOST_OUTCOME_CO_TRYV(co_await ConnectAll());
  BOOST_OUTCOME_CO_TRYV(co_await Find());
  if (!orphans_.empty()) {
    BOOST_OUTCOME_CO_TRYV(Tell(Step::kFirstEpoch));
    if (rules::AwaitsEpochBeforeTree()) {
      BOOST_OUTCOME_CO_TRYV(co_await AwaitEpoch());
    }
    BOOST_OUTCOME_CO_TRYV(Tell(Step::kTree));
    TreeWalk walk(
        shared_, tree_,
        [this](ServerId server, uint64_t offset, uint64_t bytes, control::ExtentKind kind) {
          marks_.Add(server, offset, bytes, kind);
        },
        [this](uint64_t nodes) {
          told_.nodes = nodes;
          return Tell(told_.step).has_value();
        });
    BOOST_OUTCOME_CO_TRYV(co_await walk.Run(TreeWalk::Leaves::kRead));
    BOOST_OUTCOME_CO_TRYV(Tell(Step::kSecondEpoch));
    if (rules::AwaitsEpochBehindTree()) {
      BOOST_OUTCOME_CO_TRYV(co_await AwaitEpoch());
    }
    BOOST_OUTCOME_CO_TRYV(co_await LearnServers());
    if (!AreSame()) co_return false;
    BOOST_OUTCOME_CO_TRYV(Tell(Step::kGiveBack));
    BOOST_OUTCOME_CO_TRYV(co_await GiveBack());
  }
  co_await TellDone();
  co_return true;
}

// A record that was lost and put back may lack servers for a while.
Task<Status> Sweeper::LearnServers() {
  for (int again = kMostSweeps; again > 0; --again) {
    BOOST_OUTCOME_CO_TRY(wait, learn_servers_());
    if (wait == std::chrono::milliseconds(0)) co_return Ok();
    co_await scheduler_.SleepFor(wait);
  }
  co_return MakeError(
      Code::kContended,
      "the store's record is lost again and again: sweep again once that has settled");
}

// The owner of orphaned memory may be registered with any server of the store, also with one that
// no node is on.
Task<Status> Sweeper::ConnectAll() {
  BOOST_OUTCOME_CO_TRYV(co_await LearnServers());
  report_ = {};
  orphans_.clear();
  marks_.Clear();
  servers_ = shared_.servers.All();
  for (const ServerInfo* server : servers_) {
    report_.servers[ToInteger(server->id)] = {};
    if (scheduler_.endpoint().IsAttached(server->id)) continue;
    const Status connected = co_await Connect(server->id);
    if (!connected) {
      co_return CannotBeReached(server->id, server->address, connected.error().message);
    }
  }
  leases_ = shared_.allocator.leases();
  co_return Ok();
}

Task<Status> Sweeper::Connect(ServerId server) {
  QueuePairRequest request;
  request.server = server;
  co_await scheduler_.endpoint().Execute(request);
  co_return std::move(request.status);
}

template <typename Reply, typename Request>
Task<Result<Reply>> Sweeper::Ask(ServerId server, Request request) {
  Result<Reply> reply = co_await CallControl<Reply>(scheduler_.endpoint(), server, request);
  if (reply || reply.error().code != Code::kNodeUnreachable) co_return reply;
  BOOST_OUTCOME_CO_TRYV(co_await Connect(server));
  reply = co_await CallControl<Reply>(scheduler_.endpoint(), server, request);
  co_return reply;
}

Task<Result<Sweeper::Orphans>> Sweeper::List(ServerId server) {
  const auto listed =
      co_await ListExtents([this, server](const control::ListExtentsRequest& request) {
        return Ask<control::ListExtentsReply>(server, request);
      });
  if (!listed) co_return listed.error();
  Orphans orphans;
  for (const control::Extent& extent : listed.value()) {
    if (extent.is_orphaned == 0) continue;
    const Owner owner{{static_cast<ComputeId>(extent.owner), extent.incarnation},
                      extent.client_uuid};
    orphans[owner].add({extent.offset, extent.offset + extent.bytes});
  }
  co_return orphans;
}

Task<Status> Sweeper::Find() {
  for (const ServerInfo* server : servers_) {
    BOOST_OUTCOME_CO_TRY(need,
                         co_await Ask<control::SweepReply>(server->id, control::SweepRequest{}));
    ended_[server->id] = need.ended;
    BOOST_OUTCOME_CO_TRY(orphans, co_await List(server->id));
    for (auto& [owner, pieces] : orphans) {
      BOOST_OUTCOME_CO_TRY(is_gone, co_await IsGone(server->id, owner));
      if (is_gone) {
        orphans_[server->id][owner] = std::move(pieces);
      } else {
        report_.servers[ToInteger(server->id)].left_bytes += pieces.size();
      }
    }
  }
  co_return Ok();
}

Task<Result<bool>> Sweeper::IsGone(ServerId home, const Owner& owner) {
  bool is_elsewhere = false;
  control::ClientQueryRequest request;
  request.client_uuid = owner.client_uuid;
  for (const ServerInfo* server : servers_) {
    BOOST_OUTCOME_CO_TRY(reply, co_await Ask<control::ClientQueryReply>(server->id, request));
    if (reply.in_force == 0) continue;
    // Under its new lease it uses no memory of the old one.
    if (server->id == home) co_return true;
    is_elsewhere = true;
  }
  co_return !is_elsewhere;
}

Task<Status> Sweeper::AwaitEpoch() {
  std::map<ServerId, uint32_t> epochs;
  for (const ServerInfo* server : servers_) {
    control::EpochRequest request;
    request.start = 1;
    BOOST_OUTCOME_CO_TRY(reply, co_await Ask<control::EpochReply>(server->id, request));
    epochs[server->id] = reply.epoch;
  }
  on_epoch_();
  for (const auto& [server, epoch] : epochs) {
    BOOST_OUTCOME_CO_TRYV(co_await AwaitEpochOf(server, epoch));
  }
  co_return Ok();
}

Task<Status> Sweeper::AwaitEpochOf(ServerId server, uint32_t epoch) {
  const Scheduler::Clock::time_point until = scheduler_.Now() + kLongestEpoch;
  for (;;) {
    BOOST_OUTCOME_CO_TRY(reply, co_await Ask<control::EpochReply>(server, control::EpochRequest{}));
    if (reply.acknowledged >= epoch) co_return Ok();
    std::string last = Describe(reply.last);
    if (scheduler_.Now() >= until) {
      co_return MakeError(
          Code::kContended,
          fmt::format(
              "{} may still use what it has read: it has not ended its operations for {} s. "
              "Have it poll its sessions, or end it, and try again",
              last, kLongestEpoch.count()));
    }
    BOOST_OUTCOME_CO_TRYV(Tell(told_.step, std::move(last)));
    co_await scheduler_.SleepFor(kAskInterval);
  }
}

Task<Status> Sweeper::GiveBack() {
  for (const auto& [server, known] : orphans_) {
    // Another sweep may have given some of it back since.
    BOOST_OUTCOME_CO_TRY(present, co_await List(server));
    const MemoryRanges used = marks_.RangesOf(server);
    for (const auto& [owner, pieces] : known) {
      MemoryRanges lost = pieces & present[owner];
      for (const MemoryRange& piece : MemoryRanges(lost)) {
        for (auto [range, end] = used.equal_range(piece); range != end; ++range) lost -= *range;
      }
      BOOST_OUTCOME_CO_TRYV(co_await GiveBack(server, owner, lost));
    }
  }
  co_return Ok();
}

Task<Status> Sweeper::GiveBack(ServerId server, const Owner& owner, const MemoryRanges& pieces) {
  control::RegisterRequest registration;
  registration.process = OwnProcessName();
  BOOST_OUTCOME_CO_TRY(registered, co_await Ask<control::RegisterReply>(server, registration));
  for (auto piece = pieces.begin(); piece != pieces.end();) {
    control::ReleaseRequest request;
    request.compute_id = registered.compute_id;
    request.incarnation = registered.incarnation;
    std::array<uint64_t, control::ReleaseRequest::kMaxRanges> sizes{};
    for (; piece != pieces.end() && request.count < control::ReleaseRequest::kMaxRanges; ++piece) {
      sizes[request.count] = piece->upper() - piece->lower();
      request.ranges[request.count] = {piece->lower(),
                                       sizes[request.count],
                                       0,
                                       control::Past::kOrphaned,
                                       static_cast<uint16_t>(owner.lease.compute),
                                       owner.lease.incarnation};
      ++request.count;
    }
    BOOST_OUTCOME_CO_TRY(reply, co_await Ask<control::ReleaseReply>(server, request));
    // Another sweeper may have been first.
    for (uint32_t i = 0; i < request.count; ++i) {
      if ((reply.refused >> i & 1) == 0) {
        report_.servers[ToInteger(server)].swept_bytes += sizes[i];
      }
    }
  }
  co_return Ok();
}

Task<void> Sweeper::TellDone() {
  control::SweepRequest done;
  done.step = control::SweepStep::kDone;
  for (const ServerInfo* server : servers_) {
    // Owners that are not gone from all servers are for a later sweep.
    if (report_.servers[ToInteger(server->id)].left_bytes != 0) continue;
    done.ended = ended_[server->id];
    static_cast<void>(co_await Ask<control::SweepReply>(server->id, done));
  }
}

Status Sweeper::Tell(SweepProgress::Step step, std::string waits_for) {
  told_.step = step;
  told_.waits_for = std::move(waits_for);
  if (!progress_ || progress_(told_)) return Ok();
  is_stopped_ = true;
  return MakeError(Code::kContended, "the sweep was ended early, as its caller asked");
}

}  // namespace gossamer
