// The line for people that describes a plan.
#include <fmt/core.h>

#include <string>

#include "compute/verify/sim/plan.h"

namespace gossamer::simulator {
namespace {

std::string PartitionsText(const Plan& plan) {
  const SimOptions& network = plan.network;
  if (!network.faults.partition) return "";
  const auto us = [](std::chrono::nanoseconds time) { return time.count() / 1000; };
  return fmt::format(
      ", up to {} partitions of up to {} us, connections tried for {} us by clients that {}",
      network.most_partitions, us(network.longest_partition), us(network.connection_timeout),
      plan.clients_stay ? "stay" : "go");
}

std::string ReopensText(const Plan& plan) {
  if (plan.reopens == 0) return "";
  return fmt::format(", {} sessions or stores closed and opened, and after {} % of losses",
                     plan.reopens, plan.reopen_percent);
}

std::string MemoryText(const Plan& plan) {
  std::string text;
  if (plan.bytes_of_first) text += fmt::format(", {} KiB of server 0", *plan.bytes_of_first >> 10);
  if (plan.work.sweep_us != 0) text += fmt::format(", sweeps each {} us", plan.work.sweep_us);
  if (plan.longest_lag_us != 0) {
    text += fmt::format(", sessions that go on up to {} us later", plan.longest_lag_us);
  }
  if (plan.worn_generation != 0) {
    text += fmt::format(", memory used up to generation {}", plan.worn_generation);
  }
  return text;
}

std::string LagsText(const Plan& plan) {
  const SimOptions& network = plan.network;
  if (network.batches_per_lag == 0) return "";
  return fmt::format(", one of {} {} late by up to {} us", network.batches_per_lag,
                     network.lag_bits == 0 ? "releases of locks" : "releases of some locks",
                     network.longest_lag.count() / 1000);
}

std::string SeriesText(const Plan& plan) {
  const WorkPlan& work = plan.work;
  if (work.ordered_percent == 0) return "";
  return fmt::format(", {} % of writes to the next keys of {} {} series", work.ordered_percent,
                     work.series, work.descends ? "descending" : "ascending");
}

std::string BatchesText(const Plan& plan) {
  if (plan.work.batch_percent == 0) return "";
  return fmt::format(", batches of up to {} keys in {} % of operations", plan.work.longest_batch,
                     plan.work.batch_percent);
}

std::string LaterKindsText(const Plan& plan) {
  const WorkPlan& work = plan.work;
  const auto weight = [&work](history::OperationKind kind) {
    return work.weights[static_cast<size_t>(kind)];
  };
  std::string text;
  if (const uint32_t modifies = weight(history::OperationKind::kModify); modifies != 0) {
    text += fmt::format(", modifies with weight {}", modifies);
  }
  if (const uint32_t erases = weight(history::OperationKind::kErase); erases != 0) {
    text +=
        fmt::format(", ranges of up to {} keys deleted with weight {}", work.erase_keys, erases);
  }
  if (work.expiring_percent != 0) {
    text += fmt::format(
        ", {} % of puts expire within {} ms by a clock {} ppm faster, deleted each {} us",
        work.expiring_percent, work.longest_life_ms, plan.clock_ppm, work.expire_us);
  }
  if (work.keys_only_percent != 0) {
    text += fmt::format(", {} % of scans without values", work.keys_only_percent);
  }
  if (work.rest_percent != 0) {
    text += fmt::format(", {} % of scans with rests of up to {} us", work.rest_percent,
                        work.longest_rest_us);
  }
  return text;
}

std::string ServerFaultsText(const Plan& plan) {
  std::string text;
  if (plan.deaths != 0) {
    text += fmt::format(", {} memory servers die, {} % with a successor", plan.deaths,
                        plan.successor_percent);
  }
  if (plan.repair_us != 0) text += fmt::format(", repairs each {} us", plan.repair_us);
  if (plan.stalls != 0) {
    text += fmt::format(", {} stalls of up to {} ms", plan.stalls, plan.longest_stall_ms);
  }
  if (plan.has_record()) {
    text +=
        fmt::format(", {} memory servers join, {} faults of a record that is looked at each {} us",
                    plan.joins, plan.record_faults, plan.look_us);
  }
  if (plan.returns != 0) {
    text += fmt::format(
        ", memory servers killed {} times that come back within {} us and are waited for {} ms",
        plan.returns, plan.longest_absence_us, plan.reconnect_ms);
  }
  return text;
}

}  // namespace

std::string ToString(const Plan& plan) {
  constexpr const char* kSkews[] = {"uniform", "zipf", "one leaf", "ascending"};
  uint32_t sessions = 0;
  uint32_t coroutines = 0;
  for (const ClientPlan& client : plan.clients) {
    sessions += client.sessions;
    coroutines += client.sessions * client.coroutines;
  }
  return fmt::format(
      "{}: {} operations on {} hot keys and {} others ({}), {} servers of {} KiB with lock tables "
      "of {} B {}, nodes of {} B, keys of up to {} B; {} clients with {} sessions and {} "
      "coroutines; faults {}, {} kills, {} pauses{}{}{}{}{}{}{}{}",
      plan.profile, plan.operations, plan.work.hot_keys, plan.work.keys() - plan.work.hot_keys,
      kSkews[static_cast<size_t>(plan.work.skew)], plan.servers, plan.memory_bytes >> 10,
      plan.lock_table_bytes, plan.on_chip_locks ? "on chip" : "in DRAM", plan.parameters.node_bytes,
      plan.parameters.max_key_bytes, plan.clients.size(), sessions, coroutines,
      ToString(plan.faults), plan.kills, plan.pauses, BatchesText(plan), LaterKindsText(plan),
      PartitionsText(plan), LagsText(plan), ReopensText(plan), ServerFaultsText(plan),
      MemoryText(plan), SeriesText(plan));
}

}  // namespace gossamer::simulator
