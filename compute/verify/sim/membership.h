// The store's record in a run: memory servers that maintain it, others that join, and its faults.
//
// The rules are the product's (common/bootstrap/member.h, membership.h). Each memory server is a
// Member, which looks at the record every `Plan::look_us` of virtual time. Servers join by
// JoinStore, and clients find the store by FindStore. The bootstrap is in memory. Its record is
// lost, overwritten by that of a dead store, read late, or unavailable. Once it can be read again,
// it must name all members after each of them has looked twice.
//
// Thread-safety: none.
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
  using Memory = std::vector<std::unique_ptr<EmbeddedMemory>>;  // by server id; null: dead
  using Regions = std::vector<std::unique_ptr<EmbeddedRegion>>;

  // `regions`: by server id, where the memory of servers outlives them; otherwise empty.
  Membership(const Plan& plan, SimNetwork& network, Recorder& recorder, Verdict& verdict,
             Memory& memory, Regions& regions);

  // Publishes `record`. Its memory servers exist.
  void Publish(const StoreRecord& record);
  std::shared_ptr<Bootstrap> bootstrap() const { return bootstrap_; }
  // Finds the store as a client that opens it does. While there is no record, members put it back.
  Result<StoreRecord> Find();

  // Call after each step of the run. Does what is due.
  void Look();
  // Applies a fault to the record.
  void Disturb(Random& random);
  // Adds a memory server that joins once the record is intact. It differs only in its number and
  // possibly its MTU.
  void Join(const EmbeddedMemoryOptions& options, bool has_low_mtu) {
    joining_.push_back({options, has_low_mtu});
  }
  // Kills a memory server whose region outlives it. It looks at the record no more.
  void End(size_t server);
  // It comes back, and puts the record right. Returns false, and it is away as before, if the
  // record cannot be reached now.
  bool Return(size_t server, EmbeddedMemoryOptions options, uint64_t incarnation);
  // Whether the MTU to some member is too low for a node: then no client whose record names it may
  // open the store.
  bool has_low_mtu() const { return !low_mtu_.empty(); }
  // Whether the record that was found last names such a member. An old one, read late, does not.
  bool has_found_low_mtu() const { return has_found_low_mtu_; }
  // Call when the network has no more faults. Ends those of the record too.
  void EndFaults();
  uint64_t joined() const { return joined_; }

 private:
  struct Joining {
    EmbeddedMemoryOptions options;
    bool has_low_mtu = false;
  };

  LivenessProbe Probe() const;
  JoinOptions OptionsToJoin() const;
  void LookNow();
  // Writes down what the server's member knows of the record, as MembershipKeeper does.
  void Note(size_t server);
  bool AreAllThere() const;
  Liveness Ask(const StoreRecord& record, const MemberRecord& member) const;
  bool NamesAll() const;
  // Returns false if it cannot join now.
  bool TryJoin(const Joining& joining);

  const Plan& plan_;
  SimNetwork& network_;
  Recorder& recorder_;
  Verdict& verdict_;
  Memory& memory_;
  Regions& regions_;
  const std::shared_ptr<MemoryBootstrap> bootstrap_ = std::make_shared<MemoryBootstrap>();
  std::vector<std::unique_ptr<Member>> members_;  // by server id; null: away
  std::vector<StoreRecord> noted_;                // likewise; only of servers with a region
  uint64_t store_id_ = 0;
  std::vector<uint64_t> incarnations_;  // by server id
  std::vector<Joining> joining_;
  std::vector<std::string> low_mtu_;  // addresses
  bool has_found_low_mtu_ = false;
  SimNetwork::Clock::time_point next_look_;
  // The next look may see something new.
  bool is_changed_ = false;
  // The record may differ from what members know; and how often they have looked at it since.
  bool is_disturbed_ = false;
  uint32_t looks_since_ = 0;
  uint64_t joined_ = 0;
};

}  // namespace gossamer::simulator
