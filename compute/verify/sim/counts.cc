#include "compute/verify/sim/counts.h"

#include <array>

#include "common/text/human.h"

namespace gossamer::simulator {
namespace {

constexpr std::array kRunFields = {
    &RunCounts::runs,
    &RunCounts::operations,
    &RunCounts::modified,
    &RunCounts::erased,
    &RunCounts::rests,
    &RunCounts::steps,
    &RunCounts::unknown,
    &RunCounts::history_events,
    &RunCounts::undecided_keys,
    &RunCounts::refused,
    &RunCounts::lives,
    &RunCounts::levels,
    &RunCounts::keys,
    &RunCounts::leaves,
    &RunCounts::missing_downlinks,
    &RunCounts::joined_servers,
    &RunCounts::returned_servers,
    &RunCounts::dead_servers,
    &RunCounts::replaced_nodes,
    &RunCounts::swept_bytes,
    &RunCounts::given_back_bytes,
    &RunCounts::virtual_ns,
    &RunCounts::locks_of_the_dead,
};

constexpr std::array kNetworkFields = {
    &SimCounters::events,
    &SimCounters::verbs,
    &SimCounters::calls,
    &SimCounters::lost_calls,
    &SimCounters::late_calls,
    &SimCounters::torn_reads,
    &SimCounters::torn_writes,
    &SimCounters::overtaken,
    &SimCounters::long_delays,
    &SimCounters::written_back,
    &SimCounters::broken_queue_pairs,
    &SimCounters::lost_to_write_back,
    &SimCounters::late_packets,
    &SimCounters::dropped_packets,
    &SimCounters::partitions,
    &SimCounters::failed_connects,
    &SimCounters::unheard_farewells,
    &SimCounters::killed_clients,
    &SimCounters::cuts,
    &SimCounters::fenced_clients,
    &SimCounters::stopped_servers,
    &SimCounters::slow_servers,
};

}  // namespace

void Add(RunCounts& sum, const RunCounts& more) {
  for (const auto field : kRunFields) sum.*field += more.*field;
  for (const auto field : kNetworkFields) sum.network.*field += more.network.*field;
  sum.counters += more.counters;
}

std::string Summary(const RunCounts& counts, double seconds) {
  const SimCounters& network = counts.network;
  const Counters& tree = counts.counters;
  const auto average = [&](uint64_t total) {
    const double each = static_cast<double>(total) / static_cast<double>(counts.runs);
    std::string text = std::to_string(each);
    return text.substr(0, text.find('.') + 2);
  };
  if (counts.runs == 0) return "";
  return "runs        " + HumanQuantity(counts.runs, "seed") + " in " + HumanDuration(seconds) +
         ", " + HumanRate(static_cast<double>(counts.runs) / seconds, "seeds") + "; " +
         HumanQuantity(counts.operations, "operation") + ", " +
         HumanQuantity(network.events, "event") + ", " +
         HumanDuration(static_cast<double>(counts.virtual_ns) * 1e-9) + " of virtual time\n" +
         "history     " + HumanQuantity(counts.history_events, "event") + ", " +
         HumanQuantity(counts.unknown, "unknown write") + ", " +
         HumanQuantity(counts.undecided_keys, "undecided key") + ", " +
         HumanQuantity(counts.refused, "operation") + " refused, " + HumanCount(counts.modified) +
         " modified, " + HumanCount(counts.erased) + " erased in ranges, " +
         HumanQuantity(counts.rests, "rest") + " of cursors, " +
         HumanQuantity(counts.lives, "client") + "\n" + "tree        " + average(counts.levels) +
         " levels, " + average(counts.leaves) + " leaves, " + average(counts.keys) +
         " keys on average; " +
         HumanQuantity(tree.of(OperationClass::kInsertSplit).operations, "split") + ", " +
         HumanQuantity(tree.of(OperationClass::kMerge).operations, "merge") + ", " +
         HumanQuantity(tree.rereads, "reread") + ", " +
         HumanQuantity(tree.cache.stale, "stale path") + ", " +
         HumanQuantity(tree.locks.remote_retries, "lock retry", "lock retries") + ", " +
         HumanQuantity(tree.locks.handed_over, "handover") + ", " +
         HumanQuantity(counts.missing_downlinks, "missing downlink") + ", " +
         HumanQuantity(counts.locks_of_the_dead, "lock") + " of the dead, " +
         HumanBytes(counts.swept_bytes) + " lost, " + HumanBytes(counts.given_back_bytes) +
         " swept\n" + "network     " + HumanQuantity(network.verbs, "verb") + ", " +
         HumanQuantity(network.torn_reads, "torn read") + ", " +
         HumanQuantity(network.torn_writes, "torn write") + ", " + HumanCount(network.overtaken) +
         " overtaken, " + HumanQuantity(network.long_delays, "long delay") + ", " +
         HumanCount(network.written_back) + " written back, " +
         HumanQuantity(network.broken_queue_pairs, "break") + ", " +
         HumanQuantity(network.partitions, "partition") + " (" +
         HumanQuantity(network.failed_connects, "connection") + " failed), " +
         HumanQuantity(network.lost_calls, "lost call") + " (" + HumanCount(network.late_calls) +
         " late), " + HumanQuantity(counts.joined_servers, "memory server") + " joined, " +
         HumanCount(counts.returned_servers) + " came back, " +
         HumanQuantity(counts.replaced_nodes, "node") + " replaced by repairs, " +
         HumanQuantity(network.late_packets, "late packet") + ", " +
         HumanQuantity(network.killed_clients, "kill") + " (" + HumanCount(network.cuts) +
         " between two WRITEs), " + HumanQuantity(network.fenced_clients, "fence") + "\n";
}

}  // namespace gossamer::simulator
