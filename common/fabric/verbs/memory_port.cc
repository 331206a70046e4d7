#include "common/fabric/verbs/memory_port.h"

#include <glog/logging.h>

#include <algorithm>
#include <utility>

#include "common/fabric/verbs/device_facts.h"
#include "common/fabric/verbs/path.h"
#include "common/transparent_pages.h"

namespace gossamer::verbs {
namespace {

RemoteMemory Describe(const ibv_mr& region, uint64_t address, uint64_t bytes) {
  return {address, bytes, region.rkey, 0};
}

// The reason why binding to `address` failed.
Error BindError(const SocketAddress& address, int error) {
  const std::string text = ToString(address);
  switch (error) {
    case EADDRINUSE: return MakeError(Code::kInvalidArgument, "port in use: " + text);
    case EADDRNOTAVAIL:
      return MakeError(Code::kInvalidArgument, text + " is no address of this machine");
    case ENODEV: return MakeError(Code::kInvalidArgument, text + " is not on an RDMA device");
    case EACCES: return MakeError(Code::kInvalidArgument, "no permission to listen on " + text);
    default:
      return MakeError(Code::kInvalidArgument, "listening on " + text + ": " + ErrnoText(error));
  }
}

}  // namespace

Result<std::unique_ptr<MemoryPort>> OpenMemoryPort(const MemoryPortOptions& options) {
  BOOST_OUTCOME_TRYV(CheckDevices(options.rdma.device));
  auto port = std::make_unique<VerbsMemoryPort>(options);
  BOOST_OUTCOME_TRYV(port->Open());
  return std::unique_ptr<MemoryPort>(std::move(port));
}

Status VerbsMemoryPort::Open() {
  BOOST_OUTCOME_TRYV(Bind());
  BOOST_OUTCOME_TRYV(MapRegion());
  info_.verbs_at_once = options_.one_verb_at_a_time ? 1 : 0;
  return MapLockTable();
}

Status VerbsMemoryPort::MapRegion() {
  if (options_.kept != nullptr) {
    region_ = options_.kept->region;
    memory_description_ = options_.kept->description;
    return Register(region_, region_.size(), registered_region_, info_.region);
  }
  BOOST_OUTCOME_TRYV(
      MapInDram(options_.region_bytes, own_region_, registered_region_, info_.region));
  region_ = own_region_.span();
  // The registration has touched all of it. Of pages that vm.nr_hugepages reserves, none is
  // transparent, and the mapping's own description stays.
  memory_description_ = own_region_.description();
  if (options_.huge_pages) memory_description_ = DescribeTouched(region_, memory_description_);
  const std::string nodes = DescribeNodes(region_);
  if (!nodes.empty()) memory_description_ += ", " + nodes;
  return Ok();
}

// The address selects the device: the one whose interface has it.
Status VerbsMemoryPort::Bind() {
  BOOST_OUTCOME_TRY(address, ParseSocketAddress(options_.listen));
  address_ = address;
  if (address_.address().is_unspecified()) {
    return MakeError(Code::kInvalidArgument,
                     ToString(address_) + " names no RDMA device: give the address of one");
  }
  BOOST_OUTCOME_TRYV(OpenConnectionManager(channel_, listener_));
  rdma_cm_id* const id = listener_.get();
  if (rdma_bind_addr(id, address_.data()) != 0) return BindError(address_, errno);
  if (id->verbs == nullptr) return BindError(address_, ENODEV);
  address_.port(ntohs(rdma_get_src_port(id)));
  BOOST_OUTCOME_TRY(device, Device::Open(id->verbs));
  device_ = std::move(device);
  BOOST_OUTCOME_TRY(path_mtu, device_->ActiveMtu(id->port_num));
  path_mtu_ = path_mtu;
  BOOST_OUTCOME_TRYV(CheckDeviceAndPort(*id, options_.rdma, address_, true));
  BOOST_OUTCOME_TRYV(CheckGid(*id, options_.rdma));
  BOOST_OUTCOME_TRYV(CheckWantedMtu(options_.rdma, path_mtu_, ToString(address_)));
  BOOST_OUTCOME_TRYV(SetTrafficClass(*id, options_.rdma));
  if (!device_->has_atomics()) {
    return MakeError(Code::kUnsupported,
                     device_->name() + " has no remote atomics, which the locks are made of");
  }
  facts_ = FactsOf(*device_, *id);
  port_number_ = id->port_num;
  return Ok();
}

Status VerbsMemoryPort::MapInDram(uint64_t bytes, MemoryMapping& memory, MemoryRegion& registration,
                                  RemoteMemory& description) {
  BOOST_OUTCOME_TRY(mapping, MapMemory(bytes, options_.huge_pages));
  memory = std::move(mapping);
  return Register(memory.whole_pages(), bytes, registration, description);
}

Status VerbsMemoryPort::Register(std::span<std::byte> pages, uint64_t bytes,
                                 MemoryRegion& registration, RemoteMemory& description) {
  const Status placed = PlaceMemory(pages, options_.numa, NumaNodeOf(*device_));
  if (!placed) LOG(WARNING) << placed.error().message;
  if (options_.touch) {
    BOOST_OUTCOME_TRYV(options_.touch(pages.first(bytes)));
  }
  BOOST_OUTCOME_TRY(registered, device_->Register(pages.data(), bytes, kRemoteRights));
  registration = std::move(registered);
  description = Describe(*registration, reinterpret_cast<uintptr_t>(pages.data()), bytes);
  return Ok();
}

Status VerbsMemoryPort::MapLockTable() {
  if (options_.on_chip_locks != OnChipLocks::kNever) {
    Result<OnChipMemory> on_chip = AllocateOnChip(*device_, options_.lock_table_bytes);
    if (on_chip) {
      on_chip_ = std::move(on_chip).value();
      info_.lock_table = Describe(*on_chip_.region, 0, on_chip_.bytes);
      lock_facts_ = {LockTablePlacement::kDeviceMemory, on_chip_.bytes, on_chip_.why};
      return Ok();
    }
    if (options_.on_chip_locks == OnChipLocks::kRequired) {
      return MakeError(on_chip.error().code,
                       "--on_chip_locks=require, but " + on_chip.error().message);
    }
    lock_facts_.why = on_chip.error().message;
  }
  lock_facts_.bytes = options_.lock_table_bytes;
  return MapInDram(options_.lock_table_bytes, lock_table_, registered_lock_table_,
                   info_.lock_table);
}

Status VerbsMemoryPort::Start(ControlHandler& handler, uint64_t incarnation) {
  info_.incarnation = incarnation;
  control_ = std::make_unique<ControlService>(
      *device_, channel_.get(), listener_.get(), info_,
      std::max(options_.connection_timeout_ms, options_.silence_ms));
  return control_->Start(handler);
}

DeviceStat VerbsMemoryPort::device() const {
  return {facts_, device_->events().Trouble(port_number_), device_->events().Counts()};
}

void VerbsMemoryPort::Fence(uint64_t client_uuid) {
  if (control_ != nullptr) control_->Fence(client_uuid);
}

// Closes the listener, too: no client should connect to a server that does not answer.
void VerbsMemoryPort::Stop() {
  control_.reset();
  listener_.reset();
}

}  // namespace gossamer::verbs
