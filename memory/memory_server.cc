#include "memory/memory_server.h"

#include <fmt/core.h>
#include <glog/logging.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <optional>
#include <utility>

#include "common/bootstrap/rejoin.h"
#include "common/bootstrap/server_probe.h"
#include "common/fabric/open/open_port.h"
#include "common/huge_pages.h"
#include "common/process.h"
#include "common/random_id.h"
#include "common/text/human.h"
#include "common/text/progress.h"
#include "memory/region_file.h"
#include "memory/rules.h"
#include "memory/touch_memory.h"
#include "proto/checksum.h"
#include "proto/leaf.h"

namespace gossamer {
namespace {

RegionHeader MakeHeader(const MemoryServerOptions& options, uint64_t lock_table_bytes,
                        const MemberIdentity& identity) {
  RegionHeader header{};
  header.magic = kRegionMagic;
  header.format_version = kFormatVersion;
  header.store_id = identity.store_id;
  header.incarnation = identity.incarnation;
  header.region_bytes = options.memory_bytes;
  header.lock_table_bytes = lock_table_bytes;
  header.chunk_bytes = options.chunk_bytes;
  header.parameters = options.parameters;
  header.server_id = ToInteger(identity.server);
  header.checksum = HeaderChecksum(header);
  return header;
}

}  // namespace

Result<std::unique_ptr<KeptRegion>> OpenRegionFor(const MemoryServerOptions& options) {
  RegionFileWish wish;
  wish.path = options.region;
  wish.region_bytes = options.memory_bytes;
  wish.map_bytes = ChunkAllocator::MapBytes(options.memory_bytes);
  wish.is_new = options.join.create == CreateMode::kNew;
  wish.huge_pages = options.huge_pages;
  BOOST_OUTCOME_TRY(opened, RegionFile::Open(wish));
  return std::unique_ptr<KeptRegion>(std::move(opened));
}

Result<std::unique_ptr<MemoryServer>> MemoryServer::Start(const MemoryServerOptions& options) {
  BOOST_OUTCOME_TRY(complete, CompleteOptions(options));
  std::unique_ptr<MemoryServer> server(new MemoryServer(std::move(complete)));
  BOOST_OUTCOME_TRYV(server->Open());
  BOOST_OUTCOME_TRYV(server->Join());
  server->StartChecking();
  return server;
}

// Maps memory before joining the store, because mapping takes a second for each few GiB.
Status MemoryServer::Open() {
  BOOST_OUTCOME_TRYV(OpenRegion());
  const MemoryWish wish = Wish(options_.memory_bytes + options_.lock_table_bytes);
  // Exempt: the simulator starts many small servers.
  if (options_.fabric != FabricKind::kSim) {
    BOOST_OUTCOME_TRYV(CheckRoom(wish));
  }
  MemoryPortOptions port;
  port.region_bytes = options_.memory_bytes;
  port.lock_table_bytes = options_.lock_table_bytes;
  port.listen = options_.listen;
  port.rdma = options_.rdma;
  port.connection_timeout_ms = options_.connection_timeout_ms;
  // A client that is not heard of loses its lease then, and its queue pairs with it.
  port.silence_ms = options_.lease_ms;
  port.on_chip_locks = use_.on_chip_locks;
  port.one_verb_at_a_time = use_.one_verb_at_a_time;
  port.huge_pages = options_.huge_pages;
  port.numa = options_.numa;
  port.in_process_only = options_.in_process_only;
  if (options_.touch) {
    // Memory mapped from pages set aside is sure to have them.
    const bool is_reserved = FitsHugePages(wish);
    port.touch = [this, is_reserved](std::span<std::byte> memory) {
      return Touch(memory, is_reserved);
    };
  }
  port.network = options_.network;
  port.kept = region_ == nullptr ? nullptr : &region_->memory();
  BOOST_OUTCOME_TRY(opened, OpenMemoryPort(options_.fabric, port));
  port_ = std::move(opened);
  return CheckPathMtu();
}

MemoryWish MemoryServer::Wish(uint64_t bytes) const {
  const bool is_shm = options_.fabric == FabricKind::kShm;
  const uint64_t in_place = region_ == nullptr ? 0 : region_->bytes_in_place();
  // The map of the heap is in the region's file, and has its pages.
  const uint64_t in_file = region_ == nullptr ? 0 : ChunkAllocator::MapBytes(options_.memory_bytes);
  return {
      .bytes = bytes - std::min(bytes, in_place),
      .is_shared = (is_shm && !options_.in_process_only) || region_ != nullptr,
      .is_mapped = region_ != nullptr,
      .is_locked = options_.fabric == FabricKind::kVerbs,
      // Anonymous memory and files get no huge pages set aside.
      .may_be_huge =
          options_.huge_pages && region_ == nullptr && !(is_shm && options_.in_process_only),
      // As MapMemory does.
      .may_be_giant = options_.huge_pages && region_ == nullptr &&
                      options_.fabric == FabricKind::kVerbs &&
                      options_.memory_bytes % kGiantPageBytes == 0,
      .bookkeeping =
          ChunkAllocator::BookkeepingBytes(options_.memory_bytes, options_.chunk_bytes) - in_file};
}

Status MemoryServer::Touch(std::span<std::byte> memory, bool is_reserved) const {
  constexpr int kMebibyte = 20;
  Progress progress(
      {.verb = "reserving memory", .unit = "MiB", .total = memory.size() >> kMebibyte});
  TouchOptions touch;
  touch.huge_pages =
      options_.huge_pages && options_.fabric == FabricKind::kShm && !options_.in_process_only;
  touch.progress = [&progress](uint64_t done) { progress.Update(done >> kMebibyte); };
  touch.may_go_on = [&](uint64_t left) -> Status {
    if (options_.join.is_to_stop && options_.join.is_to_stop()) {
      return MakeError(Code::kContended, "stopped while memory was being reserved");
    }
    const Status room = is_reserved ? Ok() : CheckRoomLeft(Wish(left));
    if (room) return Ok();
    return MakeError(room.error().code, "after " + HumanBytes(memory.size() - left) + " of " +
                                            HumanBytes(memory.size()) + ": another " +
                                            room.error().message);
  };
  return TouchMemory(memory, touch);
}

Status MemoryServer::CheckPathMtu() const {
  const uint32_t node_bytes = options_.parameters.node_bytes;
  const uint32_t path_mtu = port_->path_mtu();
  if (node_bytes <= path_mtu) return Ok();
  return MakeError(
      Code::kInvalidArgument,
      fmt::format("--node_bytes={}: the path MTU at {} is {} bytes, and a node must be written in "
                  "one packet; create the store with --node_bytes={} or less, or raise the MTU of "
                  "the network interface (an Ethernet MTU of 1500 gives 1024, 4200 gives 4096)",
                  node_bytes, port_->address(), path_mtu, path_mtu));
}

Status MemoryServer::Join() {
  if (options_.bootstrap == nullptr) {
    MemberIdentity& own = joined_.identity = options_.identity;
    if (own.store_id == 0) own.store_id = RandomId();
    if (own.incarnation == 0) own.incarnation = RandomId();
    BOOST_OUTCOME_TRYV(BringUp(own));
    return Ok();
  }
  JoinOptions options = options_.join;
  options.fabric = FabricKindName(options_.fabric);
  options.parameters = options_.parameters;
  BOOST_OUTCOME_TRY(joined, JoinOrReturn(options));
  joined_ = std::move(joined);
  const MembershipKeeper::Note note = [this](const StoreRecord& record) {
    if (region_ != nullptr) region_->NoteRecord(EncodeStoreRecord(record));
    if (options_.on_record) options_.on_record(record, record.Find(joined_.identity.server));
  };
  note(joined_.record);
  membership_ =
      std::make_unique<MembershipKeeper>(*options_.bootstrap, joined_, FabricProbe(), note);
  return Ok();
}

Result<Joined> MemoryServer::JoinOrReturn(const JoinOptions& options) {
  const auto bring_up = [this](const MemberIdentity& identity) { return BringUp(identity); };
  if (IsNew()) {
    return JoinStore(*options_.bootstrap, options, FabricProbe(), bring_up);
  }
  const RegionHeader& header = region_->last_life()->header;
  Returning returning;
  returning.identity = {header.store_id, RandomId(), static_cast<ServerId>(header.server_id)};
  returning.earlier = region_->earlier();
  returning.parameters = header.parameters;
  returning.known = region_->record();
  returning.set = options_.loaded_set;
  returning.is_of_last_life = options_.is_of_last_life;
  returning.been_in = options_.been_in;
  return RejoinStore(*options_.bootstrap, options, returning, FabricProbe(), bring_up);
}

Result<std::string> MemoryServer::BringUp(const MemberIdentity& identity) {
  while (true) {
    BOOST_OUTCOME_TRYV(Serve(identity));
    BOOST_OUTCOME_TRY(passed, TestDevice());
    if (passed) return port_->address();
    port_.reset();
    BOOST_OUTCOME_TRYV(Open());
  }
}

Status MemoryServer::Serve(const MemberIdentity& identity) {
  const RegionHeader header = MakeHeader(options_, port_->lock_table().bytes, identity);
  const std::span<std::byte> region = port_->region();
  if (IsNew() && identity.server == ServerId{0}) WriteFirstRoot(region, options_.parameters);
  if (region_ == nullptr) {
    std::memcpy(region.data(), &header, sizeof header);
  } else {
    region_->BeginLife(header);
  }
  if (options_.on_begin) {
    BOOST_OUTCOME_TRYV(options_.on_begin(identity));
  }
  BOOST_OUTCOME_TRY(service, MakeService());
  service_ = std::move(service);
  BOOST_OUTCOME_TRYV(port_->Start(*service_, identity.incarnation));
  return region_ == nullptr ? Ok() : region_->Publish();
}

// All leases of former processes have ended: `port_` has seen to that.
Result<std::unique_ptr<ControlService>> MemoryServer::MakeService() {
  LeaseTable leases =
      region_ == nullptr
          ? LeaseTable()
          : LeaseTable(rules::GoesOnCounting() ? region_->given() : GivenNumbers(),
                       [this](const GivenNumbers& given) { region_->NoteGiven(given); });
  const uint64_t grains = ChunkAllocator::GrainsOf(kHeapOffset, options_.memory_bytes);
  BOOST_OUTCOME_TRY(allocator,
                    ChunkAllocator::Open(kHeapOffset, options_.memory_bytes, options_.chunk_bytes,
                                         region_ == nullptr ? HeapMap::New(grains)
                                         : IsNew()          ? HeapMap::New(region_->map(), grains)
                                                            : HeapMap::Left(region_->map(), grains),
                                         leases.epoch()));
  // The simulator has its own time.
  ControlService::NowUs now_us = options_.clock;
  if (!now_us) {
    clock_.emplace(region_);
    now_us = [this] { return clock_->NowUs(); };
  }
  return std::make_unique<ControlService>(std::move(allocator), LockTable(),
                                          std::chrono::milliseconds(lease_ms()), std::move(leases),
                                          std::move(now_us));
}

Status MemoryServer::OpenRegion() {
  if (region_ != nullptr) return Ok();
  // The one class that NewEmbeddedRegion makes is a KeptRegion.
  region_ = static_cast<KeptRegion*>(options_.kept);
  if (region_ != nullptr || options_.region.empty()) return Ok();
  BOOST_OUTCOME_TRY(opened, OpenRegionFor(options_));
  file_ = std::move(opened);
  region_ = file_.get();
  return Ok();
}

// Of memory of the simulator, which has its own threads and time, nothing can be damaged.
void MemoryServer::StartChecking() {
  if (options_.fabric == FabricKind::kSim || IsNew()) return;
  LivingRegion region;
  region.parameters = options_.parameters;
  region.server = identity().server;
  region.bytes = port_->region();
  region.next_extent = [this](uint64_t from) { return service_->NextExtent(from); };
  auto checker = std::make_unique<RegionChecker>(std::move(region));
  const Status started = checker->Start();
  if (started) {
    checker_ = std::move(checker);
  } else {
    LOG(WARNING) << started.error().message;
  }
}

std::optional<RegionCheck> MemoryServer::region_check() const {
  return checker_ == nullptr ? std::nullopt : std::optional(checker_->report());
}

LockTableFacts MemoryServer::LockTable() const {
  LockTableFacts facts = port_->lock_table();
  const bool is_moved = use_.on_chip_locks != options_.on_chip_locks;
  if (is_moved) facts.why = "the device does not order verbs to its own memory and to the host's";
  return facts;
}

Result<bool> MemoryServer::TestDevice() {
  LitmusRunner run = options_.litmus_runner;
  if (run == nullptr && options_.fabric == FabricKind::kVerbs) {
    if (options_.litmus) {
      run = LitmusOverFabric(options_.fabric, options_.rdma);
    } else {
      litmus_ = "litmus test off";
    }
  }
  if (run == nullptr) return true;
  const uint64_t device = region_ == nullptr ? 0 : DeviceDigest();
  if (device != 0 && region_->tested_device() == device) {
    if (litmus_.empty()) litmus_ = "litmus test passed before";
    return true;
  }
  const Result<LitmusReport> report = run(*port_);
  if (!report) {
    const bool is_of_network = report.error().code == Code::kNodeUnreachable;
    return MakeError(report.error().code,
                     (is_of_network ? "this server cannot reach itself at " + port_->address() +
                                          ", so its clients may not either: "
                                    : "the test of the device's order of verbs is not possible: ") +
                         report.error().message + "; --nolitmus starts it without this test");
  }
  const std::string text = report.value().ToString();
  if (report.value().passed()) {
    LOG(INFO) << "litmus test: " << text;
    if (litmus_.empty()) litmus_ = "litmus test passed";
    if (region_ != nullptr) region_->NoteTestedDevice(device);
    return true;
  }
  const std::optional<DeviceUse> next =
      FallBack(use_, port_->lock_table().placement, report.value());
  if (!next) {
    return MakeError(Code::kUnsupported,
                     "the device does not order verbs even one at a time (" + text +
                         "); --nolitmus starts anyway, at the risk of the data");
  }
  LOG(WARNING) << "the device does not order verbs (" << text << "): " << FallbackText(*next);
  use_ = *next;
  litmus_ = "litmus test failed: " + std::string(FallbackText(use_));
  return false;
}

uint64_t MemoryServer::DeviceDigest() const {
  constexpr size_t kBootDigits = 16;
  const std::string process = OwnProcessIdentity();
  if (process.size() < kBootDigits) return 0;
  const DeviceStat device = port_->device();
  std::string text = fmt::format("{} {} {} {} {} {}", process.substr(0, kBootDigits),
                                 FabricKindName(options_.fabric), options_.listen,
                                 port_->lock_table().placement == LockTablePlacement::kDram,
                                 use_.one_verb_at_a_time, FactsText(device));
  for (const auto& [name, value] : device.facts) {
    struct stat registered{};
    if (name != "device" || ::stat(("/sys/class/infiniband/" + value).c_str(), &registered) != 0) {
      continue;
    }
    text += fmt::format(" {}.{}", registered.st_ctim.tv_sec, registered.st_ctim.tv_nsec);
  }
  PairSum sum;
  sum.Add(std::as_bytes(std::span(text)));
  const Checksum digest = sum.End();
  return uint64_t{digest.words} << 32 | digest.folded;
}

MemoryServer::~MemoryServer() {
  const Status stopped = Stop();
  if (!stopped) LOG(WARNING) << "cannot leave the store: " << stopped.error().ToString();
}

Status MemoryServer::Stop() {
  if (port_ == nullptr || std::exchange(has_stopped_, true)) return Ok();
  checker_.reset();
  Status left = Ok();
  if (region_ != nullptr) {
    if (membership_ != nullptr) membership_->Stop();
    membership_.reset();
    port_->Stop();
    if (clock_) clock_->Note();
    return region_->Close();
  }
  if (membership_ != nullptr) {
    left = membership_->Leave();
    membership_.reset();
  }
  port_->Stop();
  return left;
}

MemoryReport MemoryServer::Report() const {
  return {.store = options_.join.store,
          .server = ToInteger(identity().server),
          .fabric = std::string(FabricKindName(options_.fabric)),
          .address = address(),
          .chunk_bytes = options_.chunk_bytes,
          .lock_table = LockTable(),
          .lease_ms = lease_ms(),
          .device = Device(),
          .stat = Stat(),
          .check = region_check(),
          .clients = service_->Clients()};
}

std::string MemoryServer::Description() const {
  const LockTableFacts locks = LockTable();
  const bool on_chip = locks.placement == LockTablePlacement::kDeviceMemory;
  return fmt::format(
      "store {} server {} fabric {} address {} region {} ({}) chunks {} locks {}{}{}{}{}",
      options_.join.store, ToInteger(identity().server), FabricKindName(options_.fabric), address(),
      HumanBytes(options_.memory_bytes), memory_description(), HumanBytes(options_.chunk_bytes),
      on_chip ? "on-chip " : "DRAM ", HumanBytes(locks.bytes),
      locks.why.empty() ? "" : " (" + locks.why + ")", litmus_.empty() ? "" : " (" + litmus_ + ")",
      lease_ms() == 0 ? "" : fmt::format(" leases {} ms", lease_ms()));
}

}  // namespace gossamer
