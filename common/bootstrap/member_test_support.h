// For tests of members and of joining servers: store "s" at a bootstrap in memory.
#pragma once

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/bootstrap/member.h"
#include "common/bootstrap/testing/memory_bootstrap.h"

namespace gossamer {

class MemberTest : public ::testing::Test {
 protected:
  // Each server lives unless `states_` has another state for its incarnation.
  LivenessProbe Probe() {
    return [this](const StoreRecord&, const MemberRecord& member) {
      ++probes_;
      const auto found = states_.find(member.incarnation);
      return found == states_.end() ? Liveness::kAlive : found->second;
    };
  }
  Result<Joined> Join(CreateMode create = CreateMode::kAuto, bool forget_dead = false) {
    JoinOptions options;
    options.store = "s";
    options.fabric = "shm";
    options.create = create;
    options.forget_dead = forget_dead;
    return JoinStore(bootstrap_, options, Probe(),
                     [](const MemberIdentity& identity) -> Result<std::string> {
                       return fmt::format("address-{}", ToInteger(identity.server));
                     });
  }
  Member MemberOf(const Joined& joined) { return Member(bootstrap_, joined, Probe()); }
  std::optional<StoreRecord> Record() {
    const auto text = bootstrap_.Get("s").value();
    std::string problem;
    return text ? ParseStoreRecord(*text, problem) : std::nullopt;
  }
  std::vector<int> Servers() {
    std::vector<int> servers;
    const StoreRecord record = Record().value();
    for (const MemberRecord& member : record.servers) servers.push_back(ToInteger(member.server));
    return servers;
  }

  MemoryBootstrap bootstrap_;
  std::map<uint64_t, Liveness> states_;
  std::atomic<int> probes_ = 0;
};

}  // namespace gossamer
