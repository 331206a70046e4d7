// ScriptedEndpoint: memory servers as byte arrays in the test's own process, and an endpoint to
// them that does what a test says.
//
// Verbs take effect in the order posted, each in one piece, in the next Poll. Before each one the
// script decides its fate. A lost verb breaks its queue pair, as on a fabric: all later verbs there
// end as kFlushed until a QueuePairRequest. The control service answers registrations and lease
// queries.
//
// Thread-safety: none.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "common/fabric/endpoint.h"
#include "common/fabric/intrusive_queue.h"
#include "proto/control.h"
#include "proto/lock_word.h"

namespace gossamer {

class ScriptedEndpoint final : public Endpoint, SlabRegistrar {
 public:
  enum class Fate : uint8_t {
    kApplied,
    kLost,            // ends as kUnknown, and has no effect
    kAppliedAndLost,  // ends as kUnknown, and has its effect
  };
  struct Posted {
    ServerId server;
    Verb verb;
  };

  ScriptedEndpoint(size_t servers, size_t region_bytes, size_t lock_bytes)
      : regions_(servers, std::vector<std::byte>(region_bytes)),
        locks_(servers, std::vector<std::byte>(lock_bytes)) {
    for (size_t i = 0; i < servers; ++i)
      lease[ServerId(static_cast<uint16_t>(i))] = {ComputeId{7}, 1};
  }

  std::span<std::byte> region(ServerId server) { return regions_[ToInteger(server)]; }
  uint64_t LockWordAt(ServerId server, uint64_t slot) const {
    uint64_t word;
    std::memcpy(&word, &locks_[ToInteger(server)][slot], sizeof word);
    return word;
  }
  void SetLockWord(ServerId server, uint64_t slot, uint64_t word) {
    std::memcpy(&locks_[ToInteger(server)][slot], &word, sizeof word);
  }

  // The script. Called before each verb; its default applies all.
  std::function<Fate(ServerId, const Verb&)> decide;
  // What a registration with a server returns.
  std::map<ServerId, Lease> lease;
  // Leases that a lease query says have ended.
  std::set<uint32_t> ended_incarnations;
  // Servers of which queue pairs cannot be replaced.
  std::set<ServerId> unreachable;

  // The record: verbs that had an effect or were lost, in order; queue pairs that were replaced.
  std::vector<Posted> posted;
  uint32_t replaced = 0;

  void Post(Batch& batch) override { batches_.Push(batch); }
  void Post(ControlCall& call) override { calls_.Push(call); }
  void Post(QueuePairRequest& request) override { requests_.Push(request); }
  size_t Poll() override {
    for (IntrusiveQueue<Batch> batches = batches_.TakeAll(); !batches.empty();) {
      Batch& batch = batches.Pop();
      for (Verb& verb : batch.verbs()) verb.status = Execute(batch.server(), verb);
      ended_batches_.Push(batch);
    }
    for (IntrusiveQueue<ControlCall> calls = calls_.TakeAll(); !calls.empty();) {
      ControlCall& call = calls.Pop();
      Answer(call);
      ended_calls_.Push(call);
    }
    for (IntrusiveQueue<QueuePairRequest> requests = requests_.TakeAll(); !requests.empty();) {
      QueuePairRequest& request = requests.Pop();
      if (unreachable.count(request.server) != 0) {
        request.status = MakeError(Code::kNodeUnreachable, "scripted");
      } else {
        broken_.erase(request.server);
        ++replaced;
      }
      ended_requests_.Push(request);
    }
    return CompleteAll(ended_batches_) + CompleteAll(ended_calls_) + CompleteAll(ended_requests_);
  }
  // Time goes on by a microsecond with each look at it, so that every wait ends.
  Clock::time_point Now() const override { return now_ += std::chrono::microseconds(1); }
  void Pass(Clock::duration time) { now_ += time; }
  void Yield() override {}
  bool IsAttached(ServerId /*server*/) const override { return true; }
  uint64_t BrokenQueuePairId(ServerId server) const override {
    return broken_.count(server) != 0 ? 1 + ToInteger(server) : 0;
  }
  uint64_t WorkingQueuePairId(ServerId server) const override {
    return broken_.count(server) == 0 ? 1 + ToInteger(server) : 0;
  }
  const Limits& limits() const override { return limits_; }
  BufferPool& buffers() override { return buffers_; }

 private:
  using Endpoint::Execute;

  VerbStatus Execute(ServerId server, Verb& verb) {
    if (broken_.count(server) != 0) return VerbStatus::kFlushed;
    const Fate fate = decide ? decide(server, verb) : Fate::kApplied;
    posted.push_back({server, verb});
    if (fate != Fate::kLost) Apply(server, verb);
    if (fate == Fate::kApplied) return VerbStatus::kSuccess;
    broken_.insert(server);
    return VerbStatus::kUnknown;
  }
  void Apply(ServerId server, const Verb& verb) {
    std::vector<std::byte>& memory =
        verb.space == Space::kRegion ? regions_[ToInteger(server)] : locks_[ToInteger(server)];
    if (verb.remote_offset + verb.length > memory.size()) std::abort();
    std::byte* const remote = &memory[verb.remote_offset];
    if (verb.is_read()) std::memcpy(verb.local.data, remote, verb.length);
    if (verb.is_write()) std::memcpy(remote, verb.local.data, verb.length);
    if (!verb.is_atomic()) return;
    uint64_t old;
    std::memcpy(&old, remote, sizeof old);
    const uint64_t after = TraitsOf(verb.opcode).new_word(old, verb.compare, verb.swap_or_add);
    std::memcpy(remote, &after, sizeof after);
    std::memcpy(verb.local.data, &old, sizeof old);
  }
  template <typename Reply>
  static void Write(const Reply& reply, ControlCall& call) {
    std::memcpy(call.reply.data(), &reply, sizeof reply);
    call.reply_bytes = sizeof reply;
    call.status = VerbStatus::kSuccess;
  }
  void Answer(ControlCall& call) {
    call.status = VerbStatus::kFlushed;
    if (broken_.count(call.server) != 0) return;
    control::Header header;
    std::memcpy(&header, call.request.data(), sizeof header);
    if (header.type == control::Type::kRegister) {
      control::RegisterReply reply;
      reply.compute_id = static_cast<uint16_t>(lease[call.server].compute);
      reply.incarnation = lease[call.server].incarnation;
      Write(reply, call);
    } else if (header.type == control::Type::kLeaseQuery) {
      control::LeaseQueryRequest request;
      std::memcpy(&request, call.request.data(), sizeof request);
      control::LeaseQueryReply reply;
      reply.in_force = ended_incarnations.count(request.incarnation) == 0 ? 1 : 0;
      Write(reply, call);
    } else {
      Write(control::ErrorReply{}, call);
    }
  }
  Result<uint32_t> RegisterSlab(std::byte* /*data*/, size_t /*bytes*/) override { return 0; }
  void UnregisterSlab(uint32_t /*key*/) override {}

  std::vector<std::vector<std::byte>> regions_;
  std::vector<std::vector<std::byte>> locks_;
  std::set<ServerId> broken_;
  mutable Clock::time_point now_{std::chrono::hours(1)};
  IntrusiveQueue<Batch> batches_;
  IntrusiveQueue<ControlCall> calls_;
  IntrusiveQueue<QueuePairRequest> requests_;
  IntrusiveQueue<Batch> ended_batches_;
  IntrusiveQueue<ControlCall> ended_calls_;
  IntrusiveQueue<QueuePairRequest> ended_requests_;
  Limits limits_{4096, 64, 64, 0};
  BufferPool buffers_{*this};
};

}  // namespace gossamer
