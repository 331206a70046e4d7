// A memory server: a region of DRAM with a lock table, its control service, and its membership in a
// store.
//
// `Start` returns when clients can find and reach the server. The destructor leaves the store and
// takes everything down. A server runs as a program (main.cc), or inside a compute server's
// process. There it usually has no bootstrap: it is server 0 of a store that only this process
// knows.
//
// Thread-safety: one thread calls `Stop` and the destructor; the rest is constant.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/bootstrap/bootstrap.h"
#include "common/bootstrap/membership.h"
#include "common/embedded_memory.h"
#include "common/fabric/compute_port.h"
#include "common/fabric/memory_port.h"
#include "common/status.h"
#include "memory/control_service.h"
#include "memory/kept_region.h"
#include "memory/membership_keeper.h"
#include "memory/memory_room.h"
#include "memory/options.h"
#include "memory/region_checker.h"
#include "memory/server_clock.h"

namespace gossamer {

// A memory server at one moment.
struct MemoryReport {
  std::string store;
  uint16_t server = 0;
  std::string fabric;
  std::string address;
  uint64_t chunk_bytes = 0;
  LockTableFacts lock_table = {};
  uint32_t lease_ms = 0;  // 0: leases do not expire
  DeviceStat device = {};
  control::StatReply stat = {};
  std::optional<RegionCheck> check = {};  // if it has come back
  std::vector<ClientInForce> clients = {};
};

// Opens what the memory of a server with these options lives in, or creates it.
// Errors: those of RegionFile::Open.
Result<std::unique_ptr<KeptRegion>> OpenRegionFor(const MemoryServerOptions& options);

class MemoryServer final : public EmbeddedMemory {
 public:
  // Errors: InvalidArgument, NoResources (not enough memory), Unsupported (no such device), and
  // those of JoinStore. Over verbs also what keeps the server from reaching itself. Nothing is left
  // behind after an error.
  static Result<std::unique_ptr<MemoryServer>> Start(const MemoryServerOptions& options);

  MemoryServer(const MemoryServer&) = delete;
  MemoryServer& operator=(const MemoryServer&) = delete;
  ~MemoryServer() override;

  // Takes the server out of its store's record, then disconnects its clients. A server whose memory
  // outlives it stays in the record: it is to come back. The server is down even after an error,
  // which is that of leaving, or of writing the memory back. The destructor calls it if it was not
  // called.
  Status Stop();

  const MemberIdentity& identity() const { return joined_.identity; }
  // The store when this server joined it, by a bootstrap.
  const StoreRecord& record() const { return joined_.record; }
  std::string address() const override { return port_->address(); }
  std::string memory_description() const override { return port_->memory_description(); }
  control::StatReply Stat() const { return service_->Stat(); }
  GrantedMemory Granted() const override { return service_->Granted(); }
  std::optional<RegionCheck> region_check() const override;
  MemoryReport Report() const;
  // "store default server 0 fabric shm address … region 1.00 GiB (4 KB pages) chunks 16.0 MiB locks
  // DRAM 256 KiB"
  std::string Description() const;
  DeviceStat Device() const { return port_->device(); }

 private:
  explicit MemoryServer(MemoryServerOptions options)
      : options_(std::move(options)), use_{.on_chip_locks = options_.on_chip_locks} {}

  Status Open();
  // Opens what the memory lives in, if that outlives this server.
  Status OpenRegion();
  Result<Joined> JoinOrReturn(const JoinOptions& options);
  // The memory to request. `bytes`: those left to touch. Some may be in place.
  MemoryWish Wish(uint64_t bytes) const;
  // `is_reserved`: the machine has set its pages aside for it.
  Status Touch(std::span<std::byte> memory, bool is_reserved) const;
  // Whether a node fits one packet (rule W2) at this end. A client checks its own end.
  Status CheckPathMtu() const;
  Status Join();
  // Runs between the reservation of this server's place and its publication: see membership.h.
  Result<std::string> BringUp(const MemberIdentity& identity);
  Status Serve(const MemberIdentity& identity);
  // Whether no server before has left anything in the region.
  bool IsNew() const { return region_ == nullptr || !region_->last_life(); }
  Result<std::unique_ptr<ControlService>> MakeService();
  void StartChecking();
  // That of the port, and why the test has moved it.
  LockTableFacts LockTable() const;
  // Time after which leases expire; 0: never, because the fabric observes death.
  uint32_t lease_ms() const { return port_->observes_death() ? 0 : options_.lease_ms; }
  // Returns whether the device orders verbs; true also if it is not to be tested. False: `use_` has
  // changed and the server must be opened again.
  // Errors: Unsupported if nothing is left to try; what keeps the server from reaching itself.
  Result<bool> TestDevice();
  // Of all that the test depends on, on this boot of the machine; 0 if that is not known.
  uint64_t DeviceDigest() const;

  const MemoryServerOptions options_;
  Joined joined_;
  std::unique_ptr<MembershipKeeper> membership_;  // while the server is a member of a store
  // If the memory outlives this server. `file_` owns it, unless the caller does.
  KeptRegion* region_ = nullptr;
  std::unique_ptr<KeptRegion> file_;
  DeviceUse use_;
  bool has_stopped_ = false;
  std::string litmus_;  // result of the litmus test for people; empty: nothing to report
  std::optional<ServerClock> clock_;
  std::unique_ptr<ControlService> service_;  // outlives the port, which calls it
  std::unique_ptr<MemoryPort> port_;
  std::unique_ptr<RegionChecker> checker_;  // uses both; if the server has come back
};

}  // namespace gossamer
