#include "common/fabric/verbs/memory_port.h"

#include <algorithm>
#include <vector>

#include "common/fabric/verbs/device_facts.h"
#include "common/transparent_pages.h"

namespace gossamer::verbs {
namespace {

constexpr int kRemoteRights = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ |
                              IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;

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
  BOOST_OUTCOME_TRYV(CheckDevices(options.device));
  auto port = std::make_unique<VerbsMemoryPort>(options);
  BOOST_OUTCOME_TRYV(port->Open());
  return std::unique_ptr<MemoryPort>(std::move(port));
}

Status VerbsMemoryPort::Open() {
  BOOST_OUTCOME_TRYV(Bind());
  BOOST_OUTCOME_TRYV(MapInDram(options_.region_bytes, region_, registered_region_, info_.region));
  // The registration has touched all of it. Of pages that vm.nr_hugepages reserves, none is
  // transparent, and the mapping's own description stays.
  memory_description_ = region_.description();
  if (options_.huge_pages) {
    memory_description_ = DescribeTouched(region_.span(), memory_description_);
  }
  info_.verbs_at_once = options_.one_verb_at_a_time ? 1 : 0;
  if (options_.on_chip_locks && MapDeviceLockTable()) return Ok();
  return MapInDram(options_.lock_table_bytes, lock_table_, registered_lock_table_,
                   info_.lock_table);
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
  if (!options_.device.empty() && options_.device != device_->name()) {
    return MakeError(Code::kInvalidArgument, ToString(address_) + " is on device " +
                                                 device_->name() + ", not on " + options_.device);
  }
  if (!device_->has_atomics()) {
    return MakeError(Code::kUnsupported,
                     device_->name() + " has no remote atomics, which the locks are made of");
  }
  facts_ = FactsOf(*device_, *id);
  return Ok();
}

Status VerbsMemoryPort::MapInDram(uint64_t bytes, MemoryMapping& memory, MemoryRegion& registration,
                                  RemoteMemory& description) {
  BOOST_OUTCOME_TRY(mapping, MapMemory(bytes, options_.huge_pages));
  memory = std::move(mapping);
  if (options_.touch) {
    BOOST_OUTCOME_TRYV(options_.touch(memory.span()));
  }
  BOOST_OUTCOME_TRY(registered, device_->Register(memory.data(), memory.bytes(), kRemoteRights));
  registration = std::move(registered);
  description = Describe(*registration, reinterpret_cast<uintptr_t>(memory.data()), memory.bytes());
  return Ok();
}

// Returns false if the device lacks memory; the lock table then is in DRAM.
bool VerbsMemoryPort::MapDeviceLockTable() {
  const uint64_t bytes = options_.lock_table_bytes;
  if (device_->device_memory_bytes() < bytes) return false;
  ibv_alloc_dm_attr wanted{};
  wanted.length = bytes;
  wanted.log_align_req = 3;
  DeviceMemory memory(ibv_alloc_dm(device_->verbs(), &wanted));
  if (memory == nullptr) return false;
  const std::vector<std::byte> zeros(std::min<uint64_t>(bytes, 4096));
  for (uint64_t offset = 0; offset < bytes; offset += zeros.size()) {
    if (ibv_memcpy_to_dm(memory.get(), offset, zeros.data(), zeros.size()) != 0) return false;
  }
  MemoryRegion registered(ibv_reg_dm_mr(device_->protection_domain(), memory.get(), 0, bytes,
                                        kRemoteRights | IBV_ACCESS_ZERO_BASED));
  if (registered == nullptr) return false;
  info_.lock_table = Describe(*registered, 0, bytes);
  lock_device_memory_ = std::move(memory);
  registered_lock_table_ = std::move(registered);
  return true;
}

Status VerbsMemoryPort::Start(ControlHandler& handler, uint64_t incarnation) {
  info_.incarnation = incarnation;
  control_ = std::make_unique<ControlService>(*device_, channel_.get(), listener_.get(), info_,
                                              options_.connection_timeout_ms);
  return control_->Start(handler);
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
