// The store's record in a run: memory servers that look after it, others that join, and what goes wrong with it.
//
// The rules are the product's (common/bootstrap/member.h, membership.h): each memory server is a Member, which looks each
// `Plan::look_us` of virtual time; a server that joins does so by JoinStore; clients find the store by FindStore. The
// bootstrap is in memory, and its record is lost, overwritten by that of a dead store, read late, or not to be had. Once it can
// be read again, two looks of all members later it must name all of them. Thread-safety: none.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "common/bootstrap/member.h"
#include "common/bootstrap/testing/memory_bootstrap.h"
#include "common/embedded_memory.h"
#include "common/fabric/sim/sim.h"
#include "common/random.h"
#include "compute/verify/sim/plan.h"
#include "compute/verify/sim/recorder.h"
#include "compute/verify/sim/verdict.h"

namespace gossamer::simulator {

class Membership {
 public:
  using Memory = std::vector<std::unique_ptr<EmbeddedMemory>>;  // by server id; null: it died

  Membership(const Plan& plan, SimNetwork& network, Recorder& recorder, Verdict& verdict,
             Memory& memory);

  // The memory servers of `record` are there.
  void Publish(const StoreRecord& record);
  std::shared_ptr<Bootstrap> bootstrap() const { return bootstrap_; }
  // As a client does that opens the store: while there is no record, members put it back.
  Result<StoreRecord> Find();

  // After a step of the run: what is due.
  void Look();
  // Something happens to the record.
  void Disturb(Random& random);
  // Another memory server wants to join, as soon as the record is in order, alike but for its number and maybe its MTU.
  void Join(const EmbeddedMemoryOptions& options, bool has_low_mtu) {
    joining_.push_back({options, has_low_mtu});
  }
  // Whether the way to some member is too narrow for a node: no client may open the store.
  bool has_low_mtu() const { return !low_mtu_.empty(); }
  // The network is mended, and the record, too.
  void EndFaults();
  uint64_t joined() const { return joined_; }

 private:
  struct Joining {
    EmbeddedMemoryOptions options;
    bool has_low_mtu = false;
  };

  void LookNow();
  Liveness Ask(const StoreRecord& record, const MemberRecord& member) const;
  bool NamesAll() const;
  // False: not now.
  bool TryJoin(const Joining& joining);

  const Plan& plan_;
  SimNetwork& network_;
  Recorder& recorder_;
  Verdict& verdict_;
  Memory& memory_;
  const std::shared_ptr<testing::MemoryBootstrap> bootstrap_ =
      std::make_shared<testing::MemoryBootstrap>();
  std::vector<std::unique_ptr<Member>> members_;
  std::vector<uint64_t> incarnations_;  // by server id
  std::vector<Joining> joining_;
  std::vector<std::string> low_mtu_;  // addresses
  SimNetwork::Clock::time_point next_look_;
  // There is something to see at the next look.
  bool is_changed_ = false;
  // The record may not be what members know; and how often they have looked at it meanwhile.
  bool is_disturbed_ = false;
  uint32_t looks_since_ = 0;
  uint64_t joined_ = 0;
};

}  // namespace gossamer::simulator
