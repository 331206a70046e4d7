// Profiles of memory servers that are killed and come back with their memory.
#include <algorithm>
#include <array>
#include <chrono>
#include <string_view>

#include "compute/verify/sim/draw.h"
#include "compute/verify/sim/profile_parts.h"
#include "compute/verify/sim/profiles.h"

namespace gossamer::simulator {
namespace {

using std::chrono::microseconds;

// Servers that are away for less than they are waited for: operations wait, and go on.
void Return(Random& random, Plan& plan) {
  if (Chance(random, 25)) plan.servers = OneOf(random, {1u, 3u, 5u});
  plan.deaths = 0;
  plan.low_mtu_percent = 0;
  plan.clients_stay = true;
  if (plan.look_us == 0) plan.look_us = OneOf(random, {20u, 200u, 2000u});
  if (Chance(random, 20)) plan.parameters.node_bytes = 512;
  if (plan.parameters.node_bytes >= 512 && Chance(random, 40)) {
    plan.parameters.max_key_bytes = OneOf<uint16_t>(random, {40, 250});
  }
  if (plan.faults.has(Fault::kReturn)) plan.returns = OneOf(random, {1u, 3u, 8u, 20u});
  plan.longest_absence_us = OneOf(random, {1u, 1000u, 30'000u, 300'000u});
  plan.again_percent = OneOf(random, {0u, 30u, 60u});
  // Far longer than they are away. Operations of a client that was killed wait as long.
  plan.reconnect_ms = OneOf(random, {1000u, 1000u, 10'000u});
}

// As one of the profiles of these names.
void NarrowAsOneOf(Random& random, Plan& plan, std::span<const std::string_view> names) {
  const Profile* const profile = FindProfile(names[random.Below(names.size())]);
  if (profile->narrow != nullptr) profile->narrow(random, plan);
}

}  // namespace

void Returned(Random& random, Plan& plan) {
  constexpr std::array<std::string_view, 24> kAlike = {"mixed",        "few_keys_many_splits",
                                                       "hot_key",      "one_slot",
                                                       "scans",        "deep_tree",
                                                       "blocks",       "full_leaf",
                                                       "seen_in_part", "scanned_leaf",
                                                       "young_tree",   "far_siblings",
                                                       "stalled",      "batches",
                                                       "crowds",       "blocks_again",
                                                       "churn",        "idle_churn",
                                                       "low_root",     "modifies",
                                                       "in_order",     "ranges",
                                                       "worn",         "blocks_in_groups"};
  NarrowAsOneOf(random, plan, kAlike);
  Return(random, plan);
}

void SweptReturns(Random& random, Plan& plan) {
  constexpr std::array<std::string_view, 8> kAlike = {"past_leases", "lost_leases", "late_threads",
                                                      "late_calls",  "lagging",     "late_links",
                                                      "given_up",    "long_pauses"};
  NarrowAsOneOf(random, plan, kAlike);
  Return(random, plan);
}

void LateReturns(Random& random, Plan& plan) {
  constexpr std::array<std::string_view, 6> kAlike = {"mixed",       "out_of_reach", "reopened",
                                                      "late_blocks", "joined",       "churn"};
  NarrowAsOneOf(random, plan, kAlike);
  Return(random, plan);
  plan.longest_absence_us = OneOf(random, {30'000u, 300'000u, 2'000'000u});
  plan.reconnect_ms = OneOf(random, {0u, 30u, 200u, 10'000u});
  if (plan.faults.has(Fault::kRecord)) plan.record_faults = OneOf(random, {0u, 4u, 16u});
  if (plan.faults.has(Fault::kReopen)) plan.reopens = OneOf(random, {0u, 4u, 16u});
}

}  // namespace gossamer::simulator
