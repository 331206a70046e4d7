// A memory server: a region of DRAM with a lock table, its control service, and its place in a
// store.
//
// `Start` brings everything up and returns when clients can find and reach it; the destructor
// leaves the store and takes everything down. Works alike as a program of its own (main.cc) and
// inside a compute server's process, there usually without a bootstrap: then it is server 0 of a
// store that nobody else finds. Thread-safety: `Stop` and the destructor belong to one thread; the
// rest is constant.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "common/bootstrap/bootstrap.h"
#include "common/bootstrap/membership.h"
#include "common/fabric/fabric.h"
#include "common/status.h"
#include "memory/control_service.h"
#include "memory/membership_keeper.h"
#include "memory/memory_room.h"
#include "memory/options.h"

namespace gossamer {

class MemoryServer {
 public:
  // `bootstrap`, if any, outlives the server. Errors: InvalidArgument, Exhausted (not that much
  // memory), Unsupported (no such device), and those of JoinStore; nothing is left behind then.
  static Result<std::unique_ptr<MemoryServer>> Start(const MemoryServerOptions& options,
                                                     Bootstrap* bootstrap);

  MemoryServer(const MemoryServer&) = delete;
  MemoryServer& operator=(const MemoryServer&) = delete;
  ~MemoryServer();

  // Takes the server out of its store's record, then disconnects its clients. The error is that of
  // leaving; the server is down in any case. Done once; the destructor does it where nobody did.
  Status Stop();

  const MemberIdentity& identity() const { return joined_.identity; }
  // The store as of this server's joining; how clients in this process find it without a bootstrap.
  const StoreRecord& record() const { return joined_.record; }
  std::string address() const { return port_->address(); }
  std::string memory_description() const { return port_->memory_description(); }
  control::StatReply Stat() const { return service_->Stat(); }
  GrantedMemory Granted() const { return service_->Granted(); }
  // "store default server 0 fabric shm address … region 1.00 GiB (4 KB pages) chunks 16.0 MiB locks
  // DRAM 256 KiB"
  std::string Description() const;

 private:
  MemoryServer(MemoryServerOptions options, Bootstrap* bootstrap)
      : options_(std::move(options)),
        bootstrap_(bootstrap),
        use_{.on_chip_locks = options_.on_chip_locks} {}

  Status Open();
  // What is asked of the machine; `bytes` are what is left to be touched.
  MemoryWish Wish(uint64_t bytes, uint64_t promised) const;
  // `is_reserved`: the machine has set its pages aside for it.
  Status Touch(std::span<std::byte> memory, bool is_reserved) const;
  // Whether a node is one packet (rule W2). A client looks at its own end.
  Status CheckPathMtu() const;
  Status Join();
  // Between the reservation of this server's place and its publication: see membership.h.
  Result<std::string> BringUp(const MemberIdentity& identity);
  Status Serve(const MemberIdentity& identity);
  // After which leases expire; 0: they do not, as the fabric sees clients die.
  uint32_t lease_ms() const { return port_->observes_death() ? 0 : options_.lease_ms; }
  // Whether the device orders verbs: true, too, where that cannot be tested. False: `use_` is
  // another now, and the server is to be opened again. Unsupported when nothing is left to try.
  Result<bool> TestDevice();

  const MemoryServerOptions options_;
  Bootstrap* const bootstrap_;
  Joined joined_;
  std::unique_ptr<MembershipKeeper> membership_;  // as long as it is a member of a store
  DeviceUse use_;
  std::string litmus_;  // what came of it, for people; empty: there is nothing to say
  std::unique_ptr<ControlService> service_;  // outlives the port, which calls it
  std::unique_ptr<MemoryPort> port_;
};

}  // namespace gossamer
