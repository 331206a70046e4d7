// What the fabric decides on NICs that are not here: the recordings are of public listings of
// ibv_devinfo and of the vendor's documents.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "common/fabric/verbs/device.h"
#include "common/fabric/verbs/device_facts.h"
#include "common/fabric/verbs/locked_memory.h"
#include "common/fabric/verbs/on_chip_memory.h"
#include "common/fabric/verbs/path.h"
#include "common/fabric/verbs/testing/device_double.h"
#include "common/fabric/verbs/thread_domain.h"

namespace gossamer::verbs {
namespace {

using test::DeviceDouble;
using test::DeviceRecording;
using ::testing::HasSubstr;

constexpr uint64_t kKibibyte = 1 << 10;
constexpr uint64_t kLockTable = 256 * kKibibyte;

// RoCE v1 and v2 of a link-local address, then of 192.168.1.1, as a NIC with one IPv4 address has
// them.
std::vector<DeviceRecording::Gid> GidsOfRoce() {
  const std::vector<uint8_t> local = {0xfe, 0x80, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0xff, 0xfe, 0, 0, 1};
  const std::vector<uint8_t> address = {192, 168, 1, 1};
  return {{IBV_GID_TYPE_ROCE_V1, local},
          {IBV_GID_TYPE_ROCE_V2, local},
          {IBV_GID_TYPE_ROCE_V1, address},
          {IBV_GID_TYPE_ROCE_V2, address}};
}

struct Expected {
  std::string model;
  DeviceRecording recording;
  std::string link;
  uint32_t inline_bytes = 192;
  uint32_t ring_bytes = 32 << 10;
  uint64_t lock_bytes = kLockTable;  // on chip; 0: in DRAM
  std::string why = {};              // part of it
};

std::vector<Expected> Nics() {
  const auto gids = GidsOfRoce();
  return {
      {.model = "ConnectX-3",
       .recording = {.name = "mlx4_0",
                     .firmware = "2.42.5000",
                     .is_mlx5 = false,
                     .max_work_requests = 16351,
                     .link_speed = 8,
                     .gids = gids},
       .link = "40 Gb/s",
       .ring_bytes = 64 << 10,
       .lock_bytes = 0,
       .why = "mlx4_0 has no memory for locks"},
      {.model = "ConnectX-4",
       .recording = {.firmware = "12.28.2006", .gids = gids},
       .link = "100 Gb/s",
       .lock_bytes = 0,
       .why = "mlx5_0 has no memory for locks"},
      {.model = "ConnectX-5",
       .recording = {.firmware = "16.35.2000", .device_memory = kLockTable, .gids = gids},
       .link = "100 Gb/s"},
      {.model = "ConnectX-5 Ex",
       .recording = {.firmware = "16.35.2000", .device_memory = 128 * kKibibyte, .gids = gids},
       .link = "100 Gb/s",
       .lock_bytes = 128 * kKibibyte,
       .why = "it has 131072 bytes; two nodes share a lock in 1 of 16384 cases"},
      {.model = "ConnectX-6",
       .recording =
           {.firmware = "20.35.2000", .device_memory = kLockTable, .link_speed = 64, .gids = gids},
       .link = "200 Gb/s"},
      {.model = "ConnectX-6 Dx of which others use a part",
       .recording = {.firmware = "22.35.2000",
                     .device_memory = kLockTable,
                     .device_memory_taken = 200 * kKibibyte,
                     .gids = gids},
       .link = "100 Gb/s",
       .lock_bytes = 32 * kKibibyte,
       .why = "No space left on device; two nodes share a lock in 1 of 4096 cases"},
      {.model = "ConnectX-6 Dx of which others use nearly all",
       .recording = {.firmware = "22.35.2000",
                     .device_memory = kLockTable,
                     .device_memory_taken = 240 * kKibibyte,
                     .gids = gids},
       .link = "100 Gb/s",
       .lock_bytes = 0,
       .why = "No space left on device"},
      {.model = "ConnectX-7",
       .recording =
           {.firmware = "28.37.1014", .device_memory = kLockTable, .link_speed = 128, .gids = gids},
       .link = "400 Gb/s"},
  };
}

// An identifier that the connection manager has bound to 192.168.1.1.
rdma_cm_id BoundTo(ibv_context* verbs) {
  rdma_cm_id id{};
  id.verbs = verbs;
  id.port_num = 1;
  const uint8_t gid[16] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 192, 168, 1, 1};
  std::ranges::copy(gid, id.route.addr.addr.ibaddr.sgid.raw);
  return id;
}

TEST(Nics, TakeTheDecisionsThatFitThem) {
  for (const Expected& nic : Nics()) {
    SCOPED_TRACE(nic.model);
    DeviceDouble device_double(nic.recording);
    const std::shared_ptr<Device> device = Device::Open(device_double.context()).value();
    EXPECT_TRUE(device->has_atomics());
    EXPECT_EQ(device->initiator_depth(), 16);
    EXPECT_EQ(device->queue_pair_size().verbs, 112u);
    EXPECT_EQ(device->queue_pair_size().inline_bytes, nic.inline_bytes);
    EXPECT_EQ(device->queue_pair_size().names_operations, nic.recording.is_mlx5);
    EXPECT_EQ(device_double.queue_pairs().back().ring_bytes, nic.ring_bytes);

    const Result<OnChipMemory> locks = AllocateOnChip(*device, kLockTable);
    EXPECT_EQ(locks ? locks.value().bytes : 0, nic.lock_bytes);
    EXPECT_THAT(locks ? locks.value().why : locks.error().message, HasSubstr(nic.why));
    if (nic.lock_bytes == kLockTable) {
      EXPECT_EQ(locks.value().why, "");
    }

    std::map<std::string, std::string> facts;
    for (const auto& [name, value] : FactsOf(*device, BoundTo(device->verbs()))) {
      facts[name] = value;
    }
    EXPECT_EQ(facts["firmware"], nic.recording.firmware);
    EXPECT_EQ(facts["link"], nic.link);
    EXPECT_EQ(facts["path_mtu"], "4096");
    EXPECT_EQ(facts["gid_index"], "3");
    EXPECT_EQ(facts["gid_type"], "RoCE v2");
  }
}

TEST(Nics, AreRefusedWithAReason) {
  DeviceDouble down({.is_up = false});
  const auto opened = Device::Open(down.context());
  ASSERT_FALSE(opened);
  EXPECT_THAT(opened.error().message, HasSubstr("no port of mlx5_0 is up"));
  DeviceDouble without_atomics({.atomics = IBV_ATOMIC_NONE});
  EXPECT_FALSE(Device::Open(without_atomics.context()).value()->has_atomics());
  DeviceDouble shallow({.max_work_requests = 60});
  EXPECT_THAT(Device::Open(shallow.context()).error().message, HasSubstr("no queue pair of 64"));
}

// The least depth costs as many doorbells as a batch has; a shallower queue than is wanted is used.
TEST(Nics, AShallowQueueIsUsedAsItIs) {
  DeviceDouble device_double({.max_work_requests = 100});
  EXPECT_EQ(Device::Open(device_double.context()).value()->queue_pair_size().verbs, 84u);
}

TEST(Nics, AGidIsCheckedAgainstTheAddress) {
  DeviceDouble device_double({.gids = GidsOfRoce()});
  const std::shared_ptr<Device> device = Device::Open(device_double.context()).value();
  const rdma_cm_id id = BoundTo(device->verbs());
  EXPECT_TRUE(CheckGid(id, {.gid_index = -1}));
  EXPECT_TRUE(CheckGid(id, {.gid_index = 3}));
  EXPECT_THAT(CheckGid(id, {.gid_index = 1}).error().message,
              HasSubstr("the GID with index 1 of mlx5_0, port 1, is not that of the address"));
  EXPECT_FALSE(CheckGid(id, {.gid_index = 4}));
  const SocketAddress source = AddressOfGid(*device, {.gid_index = 3}, false).value();
  EXPECT_EQ(ToString(source), "192.168.1.1:0");
  EXPECT_FALSE(AddressOfGid(*device, {.gid_index = 9}, false));
}

// Queues of 512 verbs with 256 B inline, without the names of operations: the double agrees with
// what was read in the provider.
TEST(Nics, ADeepQueueWouldTakeMuchMemory) {
  DeviceDouble device_double({.gids = GidsOfRoce()});
  const std::shared_ptr<Device> device = Device::Open(device_double.context()).value();
  const CompletionQueue queue(ibv_create_cq(device->verbs(), 1024, nullptr, nullptr, 0));
  ibv_qp_init_attr_ex wanted =
      QueuePairAttributes({.verbs = 512, .inline_bytes = 256, .names_operations = false},
                          device->protection_domain(), queue.get());
  const BareQueuePair queue_pair(ibv_create_qp_ex(device->verbs(), &wanted));
  const test::MadeQueuePair& made = device_double.queue_pairs().back();
  EXPECT_EQ(made.entry_bytes, 512u);
  EXPECT_EQ(made.ring_bytes, 512 * kKibibyte);
  EXPECT_TRUE(made.takes_lock);
}

// 22 threads with 8 servers each.
TEST(Nics, RingsFitTheCacheAndThreadsShareNoDoorbell) {
  constexpr uint32_t kThreads = 22;
  constexpr uint32_t kServers = 8;
  DeviceDouble device_double({.gids = GidsOfRoce()});
  const std::shared_ptr<Device> device = Device::Open(device_double.context()).value();
  const size_t before = device_double.queue_pairs().size();
  std::vector<std::unique_ptr<ThreadDomain>> domains;
  std::vector<CompletionQueue> queues;
  std::vector<BareQueuePair> queue_pairs;
  for (uint32_t thread = 0; thread < kThreads; ++thread) {
    domains.push_back(std::make_unique<ThreadDomain>(*device));
    EXPECT_TRUE(domains.back()->is_own());
    queues.emplace_back(ibv_create_cq(device->verbs(), 1024, nullptr, nullptr, 0));
    for (uint32_t server = 0; server < kServers; ++server) {
      ibv_qp_init_attr_ex wanted = QueuePairAttributes(
          device->queue_pair_size(), domains.back()->protection_domain(), queues.back().get());
      queue_pairs.emplace_back(ibv_create_qp_ex(device->verbs(), &wanted));
    }
  }
  uint64_t bytes = 0;
  std::map<uint32_t, std::set<size_t>> threads_of;  // by doorbell
  for (size_t i = before; i < device_double.queue_pairs().size(); ++i) {
    const test::MadeQueuePair& made = device_double.queue_pairs()[i];
    EXPECT_FALSE(made.takes_lock);
    bytes += made.ring_bytes;
    threads_of[made.doorbell].insert((i - before) / kServers);
  }
  EXPECT_EQ(bytes, kThreads * kServers * 32 * kKibibyte);
  EXPECT_EQ(threads_of.size(), kThreads);
  for (const auto& [doorbell, threads] : threads_of) EXPECT_EQ(threads.size(), 1u) << doorbell;
}

TEST(Nics, WithoutThreadDomainsAllShareTheDevices) {
  DeviceDouble device_double({.name = "mlx4_0", .is_mlx5 = false});
  const std::shared_ptr<Device> device = Device::Open(device_double.context()).value();
  const ThreadDomain domain(*device);
  EXPECT_FALSE(domain.is_own());
  EXPECT_EQ(domain.protection_domain(), device->protection_domain());
}

TEST(Nics, APortThatIsDownIsAReasonNotToBeReady) {
  DeviceDouble device_double({});
  const std::shared_ptr<Device> device = Device::Open(device_double.context()).value();
  DeviceEvents& events = device->events();
  EXPECT_EQ(events.Trouble(1), "");
  device_double.SetUp(false);
  EXPECT_EQ(events.Trouble(1), "port 1 of mlx5_0 is down");
  device_double.SetUp(true);
  EXPECT_EQ(events.Trouble(1), "");
  EXPECT_EQ(DeviceEvents::Of(device_double.context()).value().get(), &events);
  events.Note(IBV_EVENT_GID_CHANGE, 1);
  events.Note(IBV_EVENT_DEVICE_FATAL, 0);
  events.NoteRemoval();
  EXPECT_THAT(events.Trouble(1), HasSubstr("mlx5_0 has failed for good"));
  EXPECT_EQ(events.Counts().size(), 3u);
}

TEST(Nics, ADeviceThatIsGoneIsMissed) {
  DeviceDouble device_double({});
  char* const path = device_double.context()->device->ibdev_path;
  std::string("/tmp/gossamer-device-XXXXXX").copy(path, IBV_SYSFS_PATH_MAX - 1);
  ASSERT_NE(mkdtemp(path), nullptr);
  const std::shared_ptr<Device> device = Device::Open(device_double.context()).value();
  EXPECT_EQ(device->events().Trouble(1), "");
  ASSERT_EQ(rmdir(path), 0);
  EXPECT_THAT(device->events().Trouble(1), HasSubstr("mlx5_0 has been removed"));
}

TEST(LockedMemoryTest, IsCheckedBeforeItIsLocked) {
  constexpr uint64_t kMebibyte = 1 << 20;
  const LockedMemory eight{.limit = 8 * kMebibyte, .locked = 0};
  EXPECT_EQ(BytesLockedBy(3, 4), 3 * (2 * kMebibyte + 4 * 64 * kKibibyte));
  EXPECT_TRUE(CheckLockedMemory(eight, BytesLockedBy(3, 4)));
  const Status checked = CheckLockedMemory(eight, BytesLockedBy(4, 4));
  ASSERT_FALSE(checked);
  EXPECT_EQ(checked.error().code, Code::kNoResources);
  EXPECT_THAT(checked.error().message, HasSubstr("lock 9 MiB for RDMA, and the limit on locked "
                                                 "memory is 8192 KiB, of which 0 KiB are used"));
  EXPECT_FALSE(CheckLockedMemory({.limit = 8 * kMebibyte, .locked = 7 * kMebibyte}, 2 * kMebibyte));
  EXPECT_FALSE(CheckLockedMemory({.limit = kMebibyte, .locked = 2 * kMebibyte}, 0));
  EXPECT_TRUE(CheckLockedMemory({}, uint64_t{1} << 50));
}

}  // namespace
}  // namespace gossamer::verbs
