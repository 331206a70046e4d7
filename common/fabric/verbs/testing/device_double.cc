#include "common/fabric/verbs/testing/device_double.h"

#include <rdma/rdma_cma.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <utility>

#include "common/unique_fd.h"

#undef ibv_query_port
#undef ibv_reg_mr

namespace gossamer::verbs::test {
namespace {

constexpr uint32_t kBlockBytes = 64;
constexpr uint32_t kSharedDoorbells = 16;

constexpr uint32_t RoundUp(uint32_t bytes, uint32_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

struct ThreadDomainDouble {
  ibv_td td;
  uint32_t doorbell;
};

// A parent domain, or one that is none.
struct DomainDouble {
  ibv_pd pd;
  ThreadDomainDouble* thread;
};

struct MemoryDouble {
  ibv_dm dm;
  uint64_t bytes;
};

}  // namespace

struct DeviceDouble::State {
  DeviceRecording recording;
  ibv_device device{};
  verbs_context verbs{};
  UniqueFd events[2];  // a pipe in which nothing is written
  std::vector<MadeQueuePair> queue_pairs;
  uint32_t next_shared = 0;
  uint32_t next_own = kSharedDoorbells;
};

namespace {

DeviceDouble::State* current = nullptr;

ibv_qp* MakeQueuePair(ibv_pd* pd, const ibv_qp_cap& cap, ibv_qp_type type, bool names_operations) {
  const DeviceRecording& recording = current->recording;
  if (cap.max_send_wr > static_cast<uint32_t>(recording.max_work_requests)) {
    errno = EINVAL;
    return nullptr;
  }
  // Control and address, 16 B each; then an atomic's operands. Without the names of operations also
  // the binding of a memory window may come.
  constexpr uint32_t kAtomic = 16 + 16 + 16;
  constexpr uint32_t kBindWindow = 16 + 48 + 64 + 64;
  const uint32_t segments = names_operations ? kAtomic : std::max(kAtomic, kBindWindow);
  const uint32_t data = std::max(
      16 * cap.max_send_sge, cap.max_inline_data == 0 ? 0 : RoundUp(4 + cap.max_inline_data, 16));
  MadeQueuePair made;
  made.entry_bytes = RoundUp(segments + data, kBlockBytes);
  made.ring_bytes = std::bit_ceil(cap.max_send_wr * made.entry_bytes);
  const ThreadDomainDouble* const thread = reinterpret_cast<DomainDouble*>(pd)->thread;
  made.takes_lock = thread == nullptr;
  made.doorbell = thread == nullptr ? current->next_shared++ % kSharedDoorbells : thread->doorbell;
  current->queue_pairs.push_back(made);
  auto* const qp = new ibv_qp{};
  qp->context = &current->verbs.context;
  qp->pd = pd;
  qp->qp_type = type;
  return qp;
}

int QueryDevice(ibv_context*, const ibv_query_device_ex_input*, ibv_device_attr_ex* attributes,
                size_t) {
  const DeviceRecording& recording = current->recording;
  *attributes = {};
  ibv_device_attr& basic = attributes->orig_attr;
  recording.firmware.copy(basic.fw_ver, sizeof basic.fw_ver - 1);
  basic.max_qp_wr = recording.max_work_requests;
  basic.max_cqe = recording.max_completions;
  basic.max_qp_rd_atom = basic.max_qp_init_rd_atom = recording.max_reads;
  basic.atomic_cap = recording.atomics;
  basic.phys_port_cnt = 1;
  attributes->max_dm_size = recording.device_memory;
  return 0;
}

int QueryPort(ibv_context*, uint8_t, ibv_port_attr* attributes, size_t) {
  const DeviceRecording& recording = current->recording;
  *attributes = {};
  attributes->state = recording.is_up ? IBV_PORT_ACTIVE : IBV_PORT_DOWN;
  attributes->active_mtu = recording.mtu;
  attributes->active_speed = recording.link_speed;
  attributes->active_width = recording.link_width;
  attributes->gid_tbl_len = static_cast<int>(recording.gids.size());
  return 0;
}

ibv_qp* CreateQueuePair(ibv_context*, ibv_qp_init_attr_ex* wanted) {
  constexpr uint32_t kKnown = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
  if ((wanted->comp_mask & ~kKnown) != 0 || !current->recording.is_mlx5) {
    errno = EINVAL;
    return nullptr;
  }
  const bool names = (wanted->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) != 0;
  return MakeQueuePair(wanted->pd, wanted->cap, wanted->qp_type, names);
}

ibv_td* AllocateThread(ibv_context* context, ibv_td_init_attr*) {
  auto* const thread = new ThreadDomainDouble{{context}, current->next_own++};
  return &thread->td;
}

int FreeThread(ibv_td* thread) {
  delete reinterpret_cast<ThreadDomainDouble*>(thread);
  return 0;
}

ibv_pd* AllocateParent(ibv_context* context, ibv_parent_domain_init_attr* wanted) {
  auto* const parent =
      new DomainDouble{{context, 0}, reinterpret_cast<ThreadDomainDouble*>(wanted->td)};
  return &parent->pd;
}

int WriteMemory(ibv_dm* memory, uint64_t offset, const void*, size_t bytes) {
  return offset + bytes <= reinterpret_cast<MemoryDouble*>(memory)->bytes ? 0 : EINVAL;
}

ibv_dm* AllocateMemory(ibv_context* context, ibv_alloc_dm_attr* wanted) {
  const DeviceRecording& recording = current->recording;
  if (wanted->length + recording.device_memory_taken > recording.device_memory) {
    errno = ENOSPC;
    return nullptr;
  }
  auto* const memory = new MemoryDouble{{context, WriteMemory, nullptr, 0, 0}, wanted->length};
  return &memory->dm;
}

int FreeMemory(ibv_dm* memory) {
  delete reinterpret_cast<MemoryDouble*>(memory);
  return 0;
}

ibv_mr* RegisterMemory(ibv_pd* pd, ibv_dm*, uint64_t, size_t bytes, unsigned) {
  auto* const region = new ibv_mr{};
  region->context = pd->context;
  region->pd = pd;
  region->length = bytes;
  return region;
}

}  // namespace

DeviceDouble::DeviceDouble(DeviceRecording recording) : state_(std::make_unique<State>()) {
  state_->recording = std::move(recording);
  state_->recording.name.copy(state_->device.name, sizeof state_->device.name - 1);
  int ends[2];
  if (pipe(ends) != 0) std::abort();
  for (int i = 0; i < 2; ++i) state_->events[i] = UniqueFd(ends[i]);
  verbs_context& verbs = state_->verbs;
  verbs.sz = sizeof verbs;
  verbs.query_device_ex = QueryDevice;
  verbs.query_port = QueryPort;
  verbs.create_qp_ex = CreateQueuePair;
  verbs.alloc_dm = AllocateMemory;
  verbs.free_dm = FreeMemory;
  verbs.reg_dm_mr = RegisterMemory;
  if (state_->recording.is_mlx5) {
    verbs.alloc_td = AllocateThread;
    verbs.dealloc_td = FreeThread;
    verbs.alloc_parent_domain = AllocateParent;
  }
  verbs.context.device = &state_->device;
  verbs.context.async_fd = ends[0];
  verbs.context.abi_compat = __VERBS_ABI_IS_EXTENDED;
  current = state_.get();
}

DeviceDouble::~DeviceDouble() { current = nullptr; }

void DeviceDouble::SetUp(bool is_up) { state_->recording.is_up = is_up; }
ibv_context* DeviceDouble::context() { return &state_->verbs.context; }
const std::vector<MadeQueuePair>& DeviceDouble::queue_pairs() const { return state_->queue_pairs; }

}  // namespace gossamer::verbs::test

// What is no member of a context, in place of libibverbs and librdmacm.

using gossamer::verbs::test::current;

extern "C" {

ibv_context** rdma_get_devices(int* count) {
  *count = 1;
  return new ibv_context*[2]{&current->verbs.context, nullptr};
}

void rdma_free_devices(ibv_context** list) { delete[] list; }

ibv_pd* ibv_alloc_pd(ibv_context* context) {
  auto* const domain = new gossamer::verbs::test::DomainDouble{{context, 0}, nullptr};
  return &domain->pd;
}

int ibv_dealloc_pd(ibv_pd* domain) {
  delete reinterpret_cast<gossamer::verbs::test::DomainDouble*>(domain);
  return 0;
}

ibv_cq* ibv_create_cq(ibv_context* context, int entries, void*, ibv_comp_channel*, int) {
  auto* const queue = new ibv_cq{};
  queue->context = context;
  queue->cqe = entries;
  return queue;
}

int ibv_destroy_cq(ibv_cq* queue) {
  delete queue;
  return 0;
}

ibv_qp* ibv_create_qp(ibv_pd* domain, ibv_qp_init_attr* wanted) {
  return gossamer::verbs::test::MakeQueuePair(domain, wanted->cap, wanted->qp_type, false);
}

int ibv_destroy_qp(ibv_qp* queue_pair) {
  delete queue_pair;
  return 0;
}

int ibv_dereg_mr(ibv_mr* region) {
  delete region;
  return 0;
}

int ibv_query_gid(ibv_context* context, uint8_t port, int index, ibv_gid* gid) {
  ibv_gid_entry entry{};
  const int failed =
      _ibv_query_gid_ex(context, port, static_cast<uint32_t>(index), &entry, 0, sizeof entry);
  *gid = entry.gid;
  return failed;
}

int _ibv_query_gid_ex(ibv_context*, uint32_t port, uint32_t index, ibv_gid_entry* entry, uint32_t,
                      size_t) {
  const auto& gids = current->recording.gids;
  if (index >= gids.size()) return ENODATA;
  *entry = {};
  entry->gid_index = index;
  entry->port_num = port;
  entry->gid_type = gids[index].type;
  const auto& address = gids[index].address;
  // ::ffff:a.b.c.d
  if (address.size() == 4) entry->gid.raw[10] = entry->gid.raw[11] = 0xff;
  std::ranges::copy(address, std::end(entry->gid.raw) - static_cast<long>(address.size()));
  return 0;
}

int ibv_get_async_event(ibv_context*, ibv_async_event*) {
  errno = EAGAIN;
  return -1;
}

}  // extern "C"
