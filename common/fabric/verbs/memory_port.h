// A memory server's side of the verbs fabric: the region and the lock table, registered with the
// device, and the control service.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/fabric/memory_port.h"
#include "common/fabric/verbs/address.h"
#include "common/fabric/verbs/control.h"
#include "common/fabric/verbs/device.h"
#include "common/fabric/verbs/on_chip_memory.h"
#include "common/fabric/verbs/resources.h"
#include "common/fabric/verbs/wire.h"
#include "common/huge_pages.h"

namespace gossamer::verbs {

class VerbsMemoryPort final : public MemoryPort {
 public:
  explicit VerbsMemoryPort(const MemoryPortOptions& options) : options_(options) {}
  // Binds the address, and registers the memory.
  Status Open();
  ~VerbsMemoryPort() override { Stop(); }

  Status Start(ControlHandler& handler, uint64_t incarnation) override;
  // No-op before `Start` and after `Stop`: there is no queue pair then.
  void Fence(uint64_t client_uuid) override;
  // The port is told of the end of a process; it only guesses the end of a machine or of the
  // network.
  bool observes_death() const override { return false; }
  void Stop() override;
  std::span<std::byte> region() override { return region_; }
  std::string address() const override { return ToString(address_); }
  const LockTableFacts& lock_table() const override { return lock_facts_; }
  uint32_t path_mtu() const override { return path_mtu_; }
  std::string memory_description() const override { return memory_description_; }
  DeviceStat device() const override;

 private:
  Status Bind();
  Status MapRegion();
  // Maps and registers memory.
  Status MapInDram(uint64_t bytes, MemoryMapping& memory, MemoryRegion& registration,
                   RemoteMemory& description);
  // Decides where the pages lie, has them, and registers them.
  Status Register(std::span<std::byte> pages, uint64_t bytes, MemoryRegion& registration,
                  RemoteMemory& description);
  Status MapLockTable();

  const MemoryPortOptions options_;
  SocketAddress address_;
  EventChannel channel_;
  ConnectionId listener_;
  std::shared_ptr<Device> device_;
  uint8_t port_number_ = 0;  // the device's port that has the address
  uint32_t path_mtu_ = 0;    // of that port
  std::vector<std::pair<std::string, std::string>> facts_;
  ConnectReply info_;

  std::span<std::byte> region_;
  MemoryMapping own_region_;  // unless it is kept
  std::string memory_description_;
  MemoryRegion registered_region_;
  // The lock table: in DRAM, or on the device.
  MemoryMapping lock_table_;
  MemoryRegion registered_lock_table_;
  OnChipMemory on_chip_;
  LockTableFacts lock_facts_;
  std::unique_ptr<ControlService> control_;
};

Result<std::unique_ptr<MemoryPort>> OpenMemoryPort(const MemoryPortOptions& options);

}  // namespace gossamer::verbs
