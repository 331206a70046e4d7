// OpenStore: what concerns the store as a whole.
#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "compute/session/control_client.h"
#include "compute/store/keeping/used_memory.h"
#include "compute/store/open_store.h"
#include "compute/store/walking/check.h"
#include "compute/store/walking/tree_walk.h"

namespace gossamer {
namespace {

// Of a message: to the first zero, or all.
template <size_t kBytes>
std::string TextOf(const char (&text)[kBytes]) {
  return std::string(text, std::find(text, text + kBytes, '\0'));
}

constexpr int kMostChecksAgain = 2;
constexpr std::chrono::milliseconds kUntilMergesEnd{200};

Result<control::StatReply> AskStat(Scheduler& scheduler, ServerId server) {
  return scheduler.Run(
      CallControl<control::StatReply>(scheduler.endpoint(), server, control::StatRequest{}));
}

// Adds the tree's memory to `used`. Sets the keys of `use`.
Status WalkTree(StoreState& store, Scheduler& scheduler, TreeWalk::Leaves leaves,
                const std::function<void(uint64_t)>& progress, UsedMemory& used, StoreUse& use) {
  Tree tree(store, scheduler);
  TreeWalk walk(
      store, tree,
      [&](ServerId server, uint64_t offset, uint64_t bytes, control::ExtentKind kind) {
        used.Add(server, offset, bytes, kind);
      },
      [&](uint64_t nodes) {
        if (progress) progress(nodes);
        return true;
      });
  BOOST_OUTCOME_TRYV(scheduler.Run(walk.Run(leaves)));
  use.keys = walk.keys();
  use.keys_are_estimated = walk.keys_are_estimated();
  return Ok();
}

// Adds to `uses`, which has the servers' heap_bytes.
Status CountUses(Scheduler& scheduler, const UsedMemory& used,
                 std::map<uint32_t, MemoryUse>& uses) {
  for (auto& [number, use] : uses) {
    const ServerId server{static_cast<uint16_t>(number)};
    BOOST_OUTCOME_TRY(extents, scheduler.Run(ListExtents(scheduler.endpoint(), server)));
    used.Count(server, extents, use);
    // The list comes in pieces: what others get and give back meanwhile may be in it twice.
    const uint64_t granted = use.live_bytes + use.kept_bytes + use.waiting_bytes + use.lost_bytes;
    use.free_bytes = use.heap_bytes - std::min(granted, use.heap_bytes);
  }
  return Ok();
}

}  // namespace

std::vector<MemberRecord> OpenStore::Members() const {
  std::vector<MemberRecord> members;
  for (const MemberRecord& member : record_.servers) {
    if (!shared_->servers.HasLeft(member.server)) members.push_back(member);
  }
  for (const ServerInfo* server : shared_->servers.All()) {
    if (record_.Find(server->id) != nullptr) continue;
    members.push_back({server->id, server->incarnation, "", "", server->address});
  }
  return members;
}

std::string OpenStore::WhyUnreachable(ServerId server, const Error& error) {
  const std::lock_guard lock(learn_mutex_);
  const auto known = unreachable_.find(server);
  return known == unreachable_.end() ? error.message : known->second.why.message;
}

Error OpenStore::WhyNoRoot(const Error& error) {
  if (error.code != Code::kNodeUnreachable || bootstrap_ == nullptr) return error;
  const Result<StoreRecord> found = FindStore(*bootstrap_, {.store = record_.store});
  if (!found || found.value().store_id == record_.store_id) return error;
  return MakeError(Code::kNotFound,
                   "the store is gone with its memory server 0, and another one has the name '" +
                       record_.store + "' now");
}

Counters OpenStore::counters() const {
  Counters counters = shared_->counts.Total();
  counters.cache.bytes = shared_->cache.bytes();
  return counters;
}

std::vector<HotLeaf> OpenStore::HotLeaves(size_t most) const {
  std::vector<HotLeaf> hot;
  for (LeafSketch::Leaf& one : shared_->counts.HotLeaves(most)) {
    hot.push_back(
        {ToInteger(one.leaf.server()), one.leaf.offset(), std::move(one.key), one.operations});
  }
  return hot;
}

Result<StoreStat> OpenStore::Stat() {
  BOOST_OUTCOME_TRY(endpoint, port_->NewEndpoint());
  Scheduler scheduler(*endpoint);
  StoreStat stat;
  stat.store = record_.store;
  stat.store_id = record_.store_id;
  stat.fabric = record_.fabric;
  stat.parameters = record_.parameters;
  for (const MemberRecord& member : Members()) {
    ServerStat one;
    one.server_id = ToInteger(member.server);
    one.address = member.address;
    const Result<control::StatReply> reply = AskStat(scheduler, member.server);
    if (!reply && reply.error().code != Code::kNodeUnreachable) return reply.error();
    if (!reply) {
      one.unreachable = WhyUnreachable(member.server, reply.error());
      stat.servers.push_back(std::move(one));
      continue;
    }
    one.heap_bytes = reply.value().usage.heap_bytes;
    one.free_bytes = reply.value().usage.free_bytes;
    one.node_extent_bytes = reply.value().usage.node_bytes;
    one.block_extent_bytes = reply.value().usage.block_bytes;
    one.waiting_bytes = reply.value().waiting_bytes;
    one.orphaned_bytes = reply.value().orphaned_bytes;
    one.compute_servers = reply.value().compute_servers;
    one.locks_on_chip = reply.value().lock_table_on_chip != 0;
    // It may be in reach again, and not be known yet.
    const ServerInfo* const known = shared_->servers.Find(member.server);
    one.lock_table_bytes = known == nullptr ? 0 : known->lock_table_bytes;
    one.lock_table_why = TextOf(reply.value().lock_table_why);
    stat.servers.push_back(std::move(one));
  }
  const auto is_unreachable = [](const ServerStat& one) { return !one.unreachable.empty(); };
  if (std::ranges::any_of(stat.servers, is_unreachable)) {
    // It may have been taken out of the record.
    static_cast<void>(LearnServers());
    std::erase_if(stat.servers, [this](const ServerStat& one) {
      return shared_->servers.HasLeft(ServerId{one.server_id});
    });
  }
  Tree tree(*shared_, scheduler);
  const Result<RootWord> root = scheduler.Run(tree.ReadRoot());
  if (!root) return WhyNoRoot(root.error());
  stat.levels = root.value().level() + 1;
  return stat;
}

Result<StoreUse> OpenStore::MeasureMemory(const std::function<void(uint64_t)>& progress) {
  BOOST_OUTCOME_TRY(wait, LearnServers());
  static_cast<void>(wait);
  BOOST_OUTCOME_TRY(endpoint, port_->NewEndpoint());
  Scheduler scheduler(*endpoint);
  std::map<uint32_t, MemoryUse> empty;
  auto leaves = TreeWalk::Leaves::kOnlyMet;
  for (const ServerInfo* server : shared_->servers.All()) {
    BOOST_OUTCOME_TRY(stat, AskStat(scheduler, server->id));
    empty[ToInteger(server->id)].heap_bytes = stat.usage.heap_bytes;
    if (stat.usage.block_bytes != 0) leaves = TreeWalk::Leaves::kRead;
  }

  for (;;) {
    UsedMemory used;
    StoreUse use;
    BOOST_OUTCOME_TRYV(WalkTree(*shared_, scheduler, leaves, progress, used, use));
    use.servers = empty;
    BOOST_OUTCOME_TRYV(CountUses(scheduler, used, use.servers));
    const bool has_lost = std::ranges::any_of(
        use.servers, [](const auto& server) { return server.second.lost_bytes != 0; });
    // It may be a leaf that only its left neighbour leads to.
    if (!has_lost || leaves == TreeWalk::Leaves::kRead) return use;
    leaves = TreeWalk::Leaves::kRead;
  }
}

// Merges may go on after the last write has returned, in any compute server: what they change under
// way may look wrong.
Result<CheckReport> OpenStore::Check(const std::function<void(uint64_t)>& progress) {
  for (int again = kMostChecksAgain;; --again) {
    Result<CheckReport> report = CheckOnce(progress);
    if (!report || report.value().problem_count == 0 || again == 0) return report;
    std::this_thread::sleep_for(kUntilMergesEnd);
  }
}

Result<CheckReport> OpenStore::CheckOnce(const std::function<void(uint64_t)>& progress) {
  BOOST_OUTCOME_TRY(endpoint, port_->NewEndpoint());
  Scheduler scheduler(*endpoint);
  return TreeChecker(*shared_, scheduler, progress).Run();
}

}  // namespace gossamer
