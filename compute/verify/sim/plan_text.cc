// The line for people that describes a plan.
#include <string>

#include "compute/verify/sim/plan.h"

namespace gossamer::simulator {
namespace {

std::string PartitionsText(const Plan& plan) {
  const SimOptions& network = plan.network;
  if (!network.faults.partition) return "";
  const auto us = [](std::chrono::nanoseconds time) { return std::to_string(time.count() / 1000); };
  return ", up to " + std::to_string(network.most_partitions) + " partitions of up to " +
         us(network.longest_partition) + " us, connections tried for " +
         us(network.connection_timeout) + " us by clients that " +
         (plan.clients_stay ? "stay" : "go");
}

std::string ReopensText(const Plan& plan) {
  if (plan.reopens == 0) return "";
  return ", " + std::to_string(plan.reopens) + " sessions or stores closed and opened, and after " +
         std::to_string(plan.reopen_percent) + " % of losses";
}

std::string ServerFaultsText(const Plan& plan) {
  std::string text;
  if (plan.deaths != 0) {
    text += ", " + std::to_string(plan.deaths) + " memory servers die, " +
            std::to_string(plan.successor_percent) + " % with a successor";
  }
  if (plan.stalls != 0) {
    text += ", " + std::to_string(plan.stalls) + " stalls of up to " +
            std::to_string(plan.longest_stall_ms) + " ms";
  }
  if (plan.has_record()) {
    text += ", " + std::to_string(plan.joins) + " memory servers join, " +
            std::to_string(plan.record_faults) + " faults of a record that is looked at each " +
            std::to_string(plan.look_us) + " us";
  }
  return text;
}

}  // namespace

std::string ToString(const Plan& plan) {
  constexpr const char* kSkews[] = {"uniform", "zipf", "one leaf", "ascending"};
  uint32_t sessions = 0;
  uint32_t coroutines = 0;
  uint32_t without = 0;
  for (const ClientPlan& client : plan.clients) {
    const Techniques& has = client.techniques;
    if (!has.combine_commands || !has.hierarchical_locks || !has.two_level_versions) ++without;
    sessions += client.sessions;
    coroutines += client.sessions * client.coroutines;
  }
  const auto number = [](uint64_t value) { return std::to_string(value); };
  return std::string(plan.profile) + ": " + number(plan.operations) + " operations on " +
         number(plan.work.hot_keys) + " hot keys and " +
         number(plan.work.keys() - plan.work.hot_keys) + " others (" +
         kSkews[static_cast<size_t>(plan.work.skew)] + "), " + number(plan.servers) +
         " servers of " + number(plan.memory_bytes >> 10) + " KiB with lock tables of " +
         number(plan.lock_table_bytes) + " B " + (plan.on_chip_locks ? "on chip" : "in DRAM") +
         ", nodes of " + number(plan.parameters.node_bytes) + " B, keys of up to " +
         number(plan.parameters.max_key_bytes) + " B; " + number(plan.clients.size()) +
         " clients with " + number(sessions) + " sessions and " + number(coroutines) +
         " coroutines, " + number(without) + " of them without some technique; faults " +
         ToString(plan.faults) + ", " + number(plan.kills) + " kills, " + number(plan.pauses) +
         " pauses" + PartitionsText(plan) + ReopensText(plan) + ServerFaultsText(plan);
}

}  // namespace gossamer::simulator
