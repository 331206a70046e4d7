// save and stop: what is asked of memory servers, through the store's record.
#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <functional>
#include <string>
#include <thread>

#include "common/bootstrap/record_snapshot.h"
#include "common/bootstrap/requests.h"
#include "common/bootstrap/server_probe.h"
#include "common/program/flags_main.h"
#include "common/text/human.h"
#include "common/text/progress.h"
#include "compute/cli/command.h"
#include "compute/cli/report.h"

namespace gossamer::cli {
namespace {

using std::chrono::steady_clock;

// A server looks at the record twice a second, and waits for the others for a minute.
constexpr std::chrono::seconds kPatience{150};
constexpr std::chrono::milliseconds kPollInterval{50};

// Reads the record until `is_done`, or for kPatience from its last change on.
// Errors: Contended with `what`; those of ReadRecord.
Result<StoreRecord> AwaitRecord(const Context& context, Bootstrap& bootstrap, StoreRecord record,
                                const std::string& what,
                                const std::function<bool(const StoreRecord&)>& is_done) {
  const std::string& store = context.open.store;
  auto deadline = steady_clock::now() + kPatience;
  while (!is_done(record)) {
    if (context.stop.raised() || steady_clock::now() >= deadline) {
      return MakeError(Code::kContended, what);
    }
    std::this_thread::sleep_for(kPollInterval);
    BOOST_OUTCOME_TRY(seen, ReadRecord(bootstrap, store));
    StoreRecord now = seen.record.value_or(StoreRecord());
    if (now != record) deadline = steady_clock::now() + kPatience;
    record = std::move(now);
  }
  return record;
}

Result<StoreRecord> SaveTogether(const Context& context) {
  const std::string& store = context.open.store;
  BOOST_OUTCOME_TRY(bootstrap, OpenBootstrap(context.open.bootstrap));
  BOOST_OUTCOME_TRY(seen, ReadRecord(*bootstrap, store));
  const LivenessProbe probe = FabricProbe(context.open.rdma, context.open.connection_timeout_ms);
  for (const MemberRecord& member : seen.record.value_or(StoreRecord()).servers) {
    if (probe(*seen.record, member).liveness != Liveness::kDead) continue;
    return MakeError(Code::kNodeUnreachable,
                     Describe(member) +
                         " does not run: start it again; to go on without what it "
                         "held, start a new memory server with --forget_dead");
  }
  BOOST_OUTCOME_TRY(asked, RequestSave(*bootstrap, store));
  Progress progress({.verb = "saving", .unit = "servers", .total = asked.servers.size()});
  // Each server serves again, as another incarnation.
  const auto are_done = [&](const StoreRecord& now) {
    const auto done = std::ranges::count_if(asked.servers, [&](const MemberRecord& before) {
      const MemberRecord* const entry = now.Find(before.server);
      return entry != nullptr && entry->incarnation != before.incarnation;
    });
    progress.Update(static_cast<uint64_t>(done));
    return static_cast<size_t>(done) == asked.servers.size();
  };
  BOOST_OUTCOME_TRY(
      now, AwaitRecord(context, *bootstrap, asked,
                       "not all memory servers have saved and serve again: see their logs; the "
                       "files that were complete before are kept",
                       are_done));
  progress.Finish();
  const std::optional<uint64_t> set = now.servers.front().saved;
  for (const MemberRecord& before : asked.servers) {
    if (now.Find(before.server)->saved != before.saved) continue;
    return MakeError(Code::kNoResources, Describe(before) +
                                             " has not saved: see its log; the files that were "
                                             "complete before are kept");
  }
  if (!set || !HaveAllSaved(now, *set)) {
    return MakeError(Code::kContended,
                     "the memory servers have not saved together, as one of them was restarted or "
                     "joined meanwhile: try again");
  }
  return now;
}

int RunSave(const Context& context) {
  const auto start = steady_clock::now();
  const Result<StoreRecord> saved = SaveTogether(context);
  if (!saved) return FailToBegin(context, saved.error());
  const std::string set = fmt::format("{:016x}", *saved.value().servers.front().saved);
  const double seconds = std::chrono::duration<double>(steady_clock::now() - start).count();
  const size_t servers = saved.value().servers.size();
  if (context.options.json) {
    WriteJson(
        context.out,
        {{"store", context.open.store}, {"set", set}, {"servers", servers}, {"seconds", seconds}});
  } else {
    context.out << fmt::format("store {}: {} saved set {} in {:.2f} s\n", context.open.store,
                               HumanQuantity(servers, "memory server"), set, seconds);
  }
  return kExitSuccess;
}

Result<ServerId> ParseServer(const std::string& text) {
  uint16_t server = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), server);
  if (error == std::errc() && end == text.data() + text.size()) {
    return static_cast<ServerId>(server);
  }
  return MakeError(Code::kInvalidArgument,
                   "'" + text + "' is no number of a memory server; `gossamer stat` lists them");
}

Status StopServer(const Context& context) {
  const std::string& store = context.open.store;
  BOOST_OUTCOME_TRY(server, ParseServer(context.arguments.front()));
  BOOST_OUTCOME_TRY(bootstrap, OpenBootstrap(context.open.bootstrap));
  BOOST_OUTCOME_TRY(seen, ReadRecord(*bootstrap, store));
  const MemberRecord* const member = seen.record ? seen.record->Find(server) : nullptr;
  if (member != nullptr && !member->comes_back() && !context.options.lose_data) {
    return MakeError(Code::kInvalidArgument,
                     Describe(*member) +
                         " has what it holds in its memory alone: write the data to a file with "
                         "`gossamer dump`, or give --lose_data to lose it (a server with --region "
                         "or --save loses nothing)");
  }
  const bool is_with_systemd = member != nullptr && member->region == kKeptBySystemd;
  if (is_with_systemd && !member->saved && !context.options.lose_data) {
    return MakeError(Code::kInvalidArgument,
                     Describe(*member) +
                         " has its memory with systemd, which may drop it when the service ends: "
                         "write the data to a file with `gossamer dump`, or give --lose_data "
                         "if it may go");
  }
  BOOST_OUTCOME_TRY(asked, RequestStop(*bootstrap, store, server));
  Progress progress({.verb = "stopping", .unit = "servers", .total = 1});
  const MemberRecord before = *asked.Find(server);
  const LivenessProbe probe = FabricProbe(context.open.rdma, context.open.connection_timeout_ms);
  const auto has_ended = [&](const StoreRecord& now) {
    progress.Update(0);
    const MemberRecord* const entry = now.Find(server);
    return entry == nullptr || entry->incarnation != before.incarnation ||
           (!entry->region.empty() && JudgeSilence(now, *entry) != Liveness::kUnreachable &&
            probe(now, *entry).liveness != Liveness::kAlive);
  };
  BOOST_OUTCOME_TRY(now, AwaitRecord(context, *bootstrap, std::move(asked),
                                     Describe(before) + " has not ended: see its log", has_ended));
  const MemberRecord* const after = now.Find(server);
  const bool goes_on = after != nullptr && after->incarnation != before.incarnation &&
                       after->process == before.process;
  if (!goes_on) return Ok();
  return MakeError(Code::kNoResources, Describe(before) +
                                           " goes on, because it cannot save what it holds: see "
                                           "its log");
}

int RunStop(const Context& context) {
  const Status stopped = StopServer(context);
  if (!stopped) return FailToBegin(context, stopped.error());
  if (context.options.json) {
    WriteJson(context.out, {{"store", context.open.store}, {"server", context.arguments.front()}});
  } else {
    context.out << fmt::format("store {}: memory server {} has stopped\n", context.open.store,
                               context.arguments.front());
  }
  return kExitSuccess;
}

}  // namespace

Command SaveCommand() {
  return {.name = "save",
          .arguments = "",
          .summary = "have all memory servers save what they hold, at one moment",
          .details =
              "For memory servers with --save=DIRECTORY. They stop serving, write their files, "
              "and\n"
              "serve again: clients notice a pause of about a second for each GiB. The files of\n"
              "before are kept until all servers have saved. docs/operations.md says how they are\n"
              "loaded.\n",
          .stops_cleanly = true,
          .needs_store = false,
          .run = RunSave};
}

Command StopCommand() {
  return {
      .name = "stop",
      .arguments = "SERVER",
      .summary = "stop a memory server, by its number",
      .details =
          "As SIGTERM does. A server with --region or --save keeps what it holds, and comes "
          "back\n"
          "with it. Another one loses it, and is stopped only with --lose_data; so is one with\n"
          "--region=systemd, as it depends on its unit what systemd does then.\n",
      .min_arguments = 1,
      .max_arguments = 1,
      .flags = {"lose_data"},
      .stops_cleanly = true,
      .needs_store = false,
      .run = RunStop};
}

}  // namespace gossamer::cli
