// Fuzzes the control service of a memory server. The input is a sequence of steps: messages of four
// compute servers, raw or put together from what the server has answered before, the ends of their
// queue pairs, and time.
//
// Each answer is one that the message may have, and what the server says of its memory adds up
// after each step. Whatever one compute server asks for, the memory of the others under leases in
// force stays theirs (rule M1).
#include <glog/logging.h>

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cstring>
#include <map>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "common/testing/fuzz_bytes.h"
#include "memory/control_service.h"
#include "proto/control.h"
#include "proto/region.h"

namespace gossamer {
namespace {

using control::Type;

constexpr uint64_t kChunk = 4096;
constexpr uint64_t kHeapBytes = 10 * kChunk + 1280;  // with a rest behind the last chunk
constexpr std::chrono::milliseconds kLease{100};
constexpr uint32_t kClients = 4;
constexpr std::byte kUntouched{0xee};

// Pieces of memory by offset; neighbours of one owner are one piece.
using Pieces = std::vector<GrantedExtent>;

Pieces Merged(const std::vector<GrantedExtent>& extents) {
  Pieces pieces;
  for (const GrantedExtent& extent : extents) {
    const bool goes_on = !pieces.empty() && pieces.back().lease == extent.lease &&
                         pieces.back().offset + pieces.back().bytes == extent.offset;
    if (goes_on) {
      pieces.back().bytes += extent.bytes;
    } else {
      pieces.push_back(extent);
    }
  }
  return pieces;
}

class Steps {
 public:
  explicit Steps(std::string_view bytes) : input_(bytes) {}

  void Run() {
    while (!input_.empty()) {
      before_ = service_.Granted();
      client_ = 1 + input_.Below(kClients);
      Step();
      CheckMemory();
    }
  }

 private:
  void Step() {
    switch (input_.Below(13)) {
      case 0: return SendRaw();
      case 1: return Register();
      case 2:
      case 3: return Allocate();
      case 4:
      case 5: return Release();
      case 6: return Renew();
      case 7: return Epoch();
      case 8: return Query();
      case 9: return Stat();
      case 10: return service_.ClientGone(client_);
      case 12: return GiveUp();
      default: return Tick();
    }
  }

  // --- messages ---

  // Returns the answer, of the request's type or an error.
  std::span<const std::byte> Send(std::span<const std::byte> request) {
    reply_.fill(kUntouched);
    // In memory of exactly its size.
    const std::vector<std::byte> copy(request.begin(), request.end());
    const uint32_t bytes = service_.Handle(client_, copy, reply_);
    CHECK(bytes >= sizeof(control::Header) && bytes <= reply_.size());
    const auto is_untouched = [](std::byte b) { return b == kUntouched; };
    CHECK(std::all_of(reply_.begin() + bytes, reply_.end(), is_untouched));
    const std::span<const std::byte> reply(reply_.data(), bytes);
    control::Header header;
    std::memcpy(&header, reply.data(), sizeof header);
    CHECK_EQ(header.version, control::kProtocolVersion);
    if (header.type == Type::kError) {
      CheckError(reply);
      return {};
    }
    control::Header asked;
    CHECK_GE(request.size(), sizeof asked);
    std::memcpy(&asked, request.data(), sizeof asked);
    CHECK(header.type == asked.type && asked.version == control::kProtocolVersion);
    if (header.type == Type::kRegister) Remember(reply);
    return reply;
  }

  template <typename Reply, typename Request>
  std::optional<Reply> Ask(const Request& request) {
    const std::span<const std::byte> bytes = Send(std::as_bytes(std::span(&request, 1)));
    if (bytes.empty()) return std::nullopt;
    Reply reply;
    CHECK_EQ(bytes.size(), sizeof reply);
    std::memcpy(&reply, bytes.data(), sizeof reply);
    return reply;
  }

  static void CheckError(std::span<const std::byte> bytes) {
    control::ErrorReply error;
    CHECK_EQ(bytes.size(), sizeof error);
    std::memcpy(&error, bytes.data(), sizeof error);
    CHECK(error.code > 0 && error.code < kCodes);
    CHECK(error.message_bytes > 0 && error.message_bytes <= sizeof error.message);
    const std::string_view message(error.message, error.message_bytes);
    CHECK(std::ranges::all_of(message, [](char c) { return c >= ' ' && c <= '~'; })) << message;
  }

  // Any bytes, or a message of a type and its size whose rest is any bytes.
  void SendRaw() {
    constexpr size_t kSizes[] = {8,
                                 sizeof(control::RegisterRequest),
                                 sizeof(control::AllocateRequest),
                                 sizeof(control::ReleaseRequest),
                                 sizeof(control::StatRequest),
                                 sizeof(control::ListExtentsRequest),
                                 sizeof(control::RenewRequest),
                                 sizeof(control::LeaseQueryRequest),
                                 sizeof(control::EpochRequest),
                                 sizeof(control::ClientQueryRequest),
                                 sizeof(control::SweepRequest),
                                 sizeof(control::GiveUpRequest)};
    const uint32_t kind = input_.Below(std::size(kSizes) + 1);
    if (kind == std::size(kSizes)) {
      const std::string_view bytes = input_.Take(input_.Byte());
      Send(std::as_bytes(std::span(bytes)));
      return;
    }
    std::vector<std::byte> message(kSizes[kind]);
    const control::Header header{static_cast<Type>(kind)};
    std::memcpy(message.data(), &header, sizeof header);
    const std::string_view rest = input_.Take(input_.Below(256) % (message.size() - 7));
    std::memcpy(message.data() + sizeof header, rest.data(), rest.size());
    Send(message);
  }

  void Register() {
    const auto reply = Ask<control::RegisterReply>(control::RegisterRequest{});
    if (reply) CheckUsage(reply->usage);
  }

  void Remember(std::span<const std::byte> bytes) {
    control::RegisterReply reply;
    CHECK_EQ(bytes.size(), sizeof reply);
    std::memcpy(&reply, bytes.data(), sizeof reply);
    CHECK(reply.compute_id > 0 && reply.incarnation > 0);
    leases_[client_] = {static_cast<ComputeId>(reply.compute_id), reply.incarnation};
  }

  void Allocate() {
    control::AllocateRequest request;
    const uint8_t size = input_.Byte();
    request.bytes = size < 0xf8 ? uint64_t{size} * 64 : input_.Whole<uint64_t>();
    request.kind =
        static_cast<control::ExtentKind>(input_.Below(8) < 7 ? 1 + input_.Below(2) : input_.Byte());
    const std::vector<control::Extent> before = List();
    const auto reply = Ask<control::AllocateReply>(request);
    if (!reply) return;
    const bool is_of_nodes = request.kind == control::ExtentKind::kNodes;
    const Lease lease{static_cast<ComputeId>(reply->compute_id), reply->incarnation};
    const uint64_t end = reply->offset + reply->bytes;
    CHECK(request.bytes > 0 && reply->bytes >= request.bytes);
    CHECK(kHeapOffset <= reply->offset && reply->offset < end && end <= kHeapOffset + kHeapBytes);
    const bool is_node_size = std::has_single_bit(request.bytes) &&
                              request.bytes >= kNodeAlignment && request.bytes <= kChunk;
    CHECK_EQ(reply->offset % (is_of_nodes && is_node_size ? request.bytes : kBlockAlignment), 0U);
    CHECK(is_of_nodes || reply->generation < BlockPtr::kGenerations);
    CHECK(leases_.at(client_) == lease);
    CheckWasFree(before, reply->offset, end, lease);
    CHECK_LE(reply->more, control::AllocateReply::kMaxMore);
    for (uint32_t i = 0; i < reply->more; ++i) {
      const control::GrantedRange& more = reply->extents[i];
      CHECK(more.bytes >= request.bytes &&
            (is_of_nodes || more.generation < BlockPtr::kGenerations));
      CheckWasFree(before, more.offset, more.offset + more.bytes, lease);
    }
    CheckUsage(reply->usage);
  }

  static void CheckWasFree(const std::vector<control::Extent>& before, uint64_t offset,
                           uint64_t end, Lease lease) {
    for (const control::Extent& extent : before) {
      if (end <= extent.offset || extent.offset + extent.bytes <= offset) continue;
      const bool is_own = LeaseOf(extent) == lease;
      CHECK(is_own && extent.is_waiting) << "memory was granted that somebody has";
    }
  }

  // Ranges in memory that is granted, or anywhere.
  void Release() {
    const std::vector<control::Extent> extents = List();
    control::ReleaseRequest request;
    request.count = static_cast<uint16_t>(input_.Below(12));
    const Lease lease = input_.Below(16) < 15 ? leases_[client_] : leases_[1 + input_.Below(4)];
    request.compute_id = static_cast<uint16_t>(lease.compute);
    request.incarnation = lease.incarnation;
    for (uint32_t i = 0; i < std::min(request.count, uint16_t{9}); ++i) {
      control::Range& range = request.ranges[i];
      const uint8_t which = input_.Byte();
      range.past = static_cast<control::Past>(input_.Below(5));
      if (which >= 0xf8 || extents.empty()) {
        range.offset = input_.Whole<uint64_t>();
        range.bytes = input_.Whole<uint64_t>();
        continue;
      }
      const control::Extent& extent = extents[which % extents.size()];
      // A part of 1/4 of the extent, or several, or all of it and more.
      const uint64_t quarter = std::max<uint64_t>(extent.bytes / 4 / 64 * 64, 64);
      const uint32_t part = input_.Below(32);
      range.offset = extent.offset + (part % 4) * quarter;
      range.bytes = part >= 24 ? extent.offset + extent.bytes - range.offset : (part / 4) * quarter;
      range.generation = input_.Byte();
      range.compute_id = extent.owner;
      range.incarnation = extent.incarnation;
    }
    const auto reply = Ask<control::ReleaseReply>(request);
    if (!reply) return;
    CHECK_EQ(reply->refused >> request.count, 0U);
    // Later ranges may be of memory that this one has changed.
    if ((reply->refused & 1) == 0) CheckTaken(request.ranges[0], lease, extents);
  }

  // The range was taken back from the holder of `by`: see control::Past.
  void CheckTaken(const control::Range& range, Lease by,
                  const std::vector<control::Extent>& extents) const {
    uint64_t bytes = 0;
    for (const control::Extent& extent : extents) {
      const uint64_t begin = std::max(extent.offset, range.offset);
      const uint64_t end = std::min(extent.offset + extent.bytes, range.offset + range.bytes);
      if (begin >= end) continue;
      bytes += end - begin;
      const bool is_own = LeaseOf(extent) == by;
      switch (range.past) {
        case control::Past::kUnused: CHECK(is_own && !extent.is_waiting); break;
        case control::Past::kUsed: CHECK(!extent.is_waiting); break;
        case control::Past::kOrphaned: CHECK(extent.is_orphaned); break;
      }
    }
    CHECK_EQ(bytes, range.bytes) << "memory was taken back that was not handed out";
  }

  void Renew() {
    control::RenewRequest request;
    request.epoch = input_.Below(8) < 7 ? epoch_ - input_.Below(3) : input_.Whole<uint32_t>();
    const auto reply = Ask<control::RenewReply>(request);
    if (!reply) return;
    CHECK_LE(reply->waiting, control::RenewReply::kMaxRanges);
    CHECK_LE(reply->acknowledged, reply->epoch);
    CHECK_GE(reply->epoch, epoch_);
    epoch_ = reply->epoch;
    offers_[client_] = *reply;
    const std::vector<control::Extent> extents = List();
    for (uint32_t i = 0; i < reply->waiting; ++i) {
      CHECK(std::ranges::any_of(extents, [&](const control::Extent& extent) {
        return extent.is_waiting && extent.offset == reply->ranges[i].offset &&
               extent.bytes == reply->ranges[i].bytes && LeaseOf(extent) == leases_.at(client_);
      }));
    }
  }

  // What an offer named, the last one or an earlier one, or that of another client.
  void GiveUp() {
    control::GiveUpRequest request;
    const uint32_t other =
        input_.Below(16) < 15 ? static_cast<uint32_t>(client_) : 1 + input_.Below(4);
    const control::RenewReply& offer = offers_[other];
    const Lease lease = leases_[other];
    request.offer = input_.Below(8) < 7 ? offer.offer - input_.Below(2) : input_.Whole<uint32_t>();
    request.compute_id = static_cast<uint16_t>(lease.compute);
    request.incarnation = lease.incarnation;
    const std::vector<control::Extent> extents = List();
    const auto reply = Ask<control::GiveUpReply>(request);
    if (!reply) return;
    uint64_t waited = 0;
    for (const control::Extent& extent : extents) {
      if (extent.is_waiting && LeaseOf(extent) == lease) waited += extent.bytes;
    }
    CHECK_LE(reply->bytes, waited) << "memory was given up that did not wait for its owner";
  }

  void Epoch() {
    control::EpochRequest request;
    request.start = input_.Below(2);
    const auto reply = Ask<control::EpochReply>(request);
    CHECK(reply && reply->acknowledged <= reply->epoch && reply->epoch >= epoch_ + request.start);
    epoch_ = reply->epoch;
  }

  void Query() {
    const uint32_t other = 1 + input_.Below(kClients);
    control::ClientQueryRequest client;
    client.client_uuid = other;
    const auto found = Ask<control::ClientQueryReply>(client);
    control::LeaseQueryRequest request;
    request.compute_id = static_cast<uint16_t>(leases_[other].compute);
    request.incarnation = leases_[other].incarnation;
    const auto reply = Ask<control::LeaseQueryReply>(request);
    CHECK(found && reply && reply->in_force <= 1);
    CHECK_EQ(found->in_force, reply->in_force) << "the last lease of a client is the one in force";
    CHECK(found->in_force == 0 || found->incarnation == request.incarnation);
  }

  void Stat() {
    const auto reply = Ask<control::StatReply>(control::StatRequest{});
    CHECK(reply.has_value());
    CheckUsage(reply->usage);
  }

  void Tick() {
    now_ += std::chrono::milliseconds(input_.Byte());
    service_.Tick(now_);
  }

  // All extents, as a sweeper asks for them.
  std::vector<control::Extent> List() {
    std::vector<control::Extent> extents;
    control::ListExtentsRequest request;
    for (;;) {
      const auto reply = Ask<control::ListExtentsReply>(request);
      CHECK(reply && reply->count <= control::ListExtentsReply::kMaxExtents && reply->more <= 1);
      for (uint32_t i = 0; i < reply->count; ++i) {
        CHECK_GE(reply->extents[i].offset, request.from_offset);
        request.from_offset = reply->extents[i].offset + reply->extents[i].bytes;
        extents.push_back(reply->extents[i]);
      }
      if (reply->more == 0) return extents;
      CHECK_GT(reply->count, 0U);
    }
  }

  // --- what holds after each step ---

  static Lease LeaseOf(const control::Extent& extent) {
    return {static_cast<ComputeId>(extent.owner), extent.incarnation};
  }

  static void CheckUsage(const control::Usage& usage) {
    CHECK_EQ(usage.heap_bytes, kHeapBytes);
    CHECK_EQ(usage.free_bytes + usage.node_bytes + usage.block_bytes, kHeapBytes);
  }

  void CheckMemory() {
    const control::StatReply stat = service_.Stat();
    CheckUsage(stat.usage);
    const GrantedMemory now = service_.Granted();
    const std::vector<control::Extent> extents = List();
    CHECK_EQ(extents.size(), now.extents.size());
    CHECK_EQ(extents.size(), stat.extents);
    CHECK_EQ(now.in_force.size(), stat.compute_servers);
    uint64_t end = kHeapOffset;
    uint64_t node_bytes = 0;
    uint64_t block_bytes = 0;
    uint64_t waiting_bytes = 0;
    uint64_t orphaned_bytes = 0;
    for (size_t i = 0; i < extents.size(); ++i) {
      const control::Extent& extent = extents[i];
      CHECK(extent.offset == now.extents[i].offset && extent.bytes == now.extents[i].bytes);
      CHECK(LeaseOf(extent) == now.extents[i].lease);
      CHECK(extent.offset >= end && extent.bytes > 0) << "extents overlap";
      CHECK_EQ(extent.offset % kBlockAlignment, 0U);
      end = extent.offset + extent.bytes;
      (extent.kind == control::ExtentKind::kNodes ? node_bytes : block_bytes) += extent.bytes;
      if (extent.is_waiting) waiting_bytes += extent.bytes;
      if (extent.is_orphaned) orphaned_bytes += extent.bytes;
      CHECK(!extent.is_waiting || !extent.is_orphaned) << "memory waits for an owner that is gone";
    }
    CHECK_LE(end, kHeapOffset + kHeapBytes);
    CHECK_EQ(node_bytes, stat.usage.node_bytes);
    CHECK_EQ(block_bytes, stat.usage.block_bytes);
    CHECK_EQ(waiting_bytes, stat.waiting_bytes);
    CHECK_EQ(orphaned_bytes, stat.orphaned_bytes);
    CheckOthersKeepTheirs(now);
  }

  void CheckOthersKeepTheirs(const GrantedMemory& now) const {
    for (const LeaseInForce& holder : before_.in_force) {
      if (holder.client_uuid == client_) continue;
      const auto is_of_holder = [&](const GrantedExtent& e) { return e.lease == holder.lease; };
      std::vector<GrantedExtent> had;
      std::vector<GrantedExtent> has;
      std::ranges::copy_if(before_.extents, std::back_inserter(had), is_of_holder);
      std::ranges::copy_if(now.extents, std::back_inserter(has), is_of_holder);
      CHECK(std::ranges::equal(Merged(had), Merged(has), [](const auto& a, const auto& b) {
        return a.offset == b.offset && a.bytes == b.bytes && a.client_uuid == b.client_uuid;
      })) << "another compute server's memory changed";
    }
  }

  FuzzBytes input_;
  ControlService service_{ChunkAllocator(kHeapOffset, kHeapOffset + kHeapBytes, kChunk),
                          LockTableFacts{}, kLease};
  Endpoint::Clock::time_point now_{std::chrono::hours(5)};
  std::array<std::byte, kMaxControlBytes> reply_{};
  std::map<uint64_t, Lease> leases_;                // the last one of each client
  std::map<uint64_t, control::RenewReply> offers_;  // likewise
  uint32_t epoch_ = 1;
  uint64_t client_ = 0;
  GrantedMemory before_;
};

}  // namespace
}  // namespace gossamer

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  gossamer::Steps(gossamer::TextOf(data, size)).Run();
  return 0;
}
