#include "common/fabric/shm/client_queue_pair.h"

#include <algorithm>
#include <atomic>
#include <cassert>
#include <cstring>
#include <span>

#include "common/asymmetric_fence.h"
#include "common/fabric/shm/shared_copy.h"

namespace gossamer::shm {
namespace {

// The hardware prefetcher follows longer transfers once they have begun.
constexpr uint32_t kMaxPrefetchBytes = 1024;
// Verbs of a batch whose bytes are on their way to the processor's cache at a time. Those of a long
// batch, all at once, would push each other out of it before they are used.
constexpr size_t kAhead = 32;

}  // namespace

ClientQueuePair::ClientQueuePair(QueuePairGrant grant, uint32_t timeout_ms)
    : grant_(std::move(grant)),
      page_(*grant_.page),
      views_{grant_.memory->view(Space::kRegion), grant_.memory->view(Space::kLockTable)},
      fences_lightly_(page_.fences_heavily.load(std::memory_order_relaxed) != 0 &&
                      HasHeavyFenceOfAll()),
      // The server does not outlive a client in its process, but what it keeps does.
      journalled_(!grant_.in_process || grant_.memory->is_kept()),
      timeout_(timeout_ms) {}

void ClientQueuePair::PrefetchFor(const Batch& batch) const {
  const std::span<const Verb> verbs = batch.verbs();
  for (const Verb& verb : verbs.first(std::min(verbs.size(), kAhead))) PrefetchFor(verb);
}

void ClientQueuePair::PrefetchFor(const Verb& verb) const {
  // Unchecked, so an address and not a pointer.
  const uintptr_t remote =
      reinterpret_cast<uintptr_t>(views_[static_cast<size_t>(verb.space)].data) +
      verb.remote_offset;
  const uintptr_t bytes = std::min(verb.length, kMaxPrefetchBytes);
  if (verb.is_read()) {
    Prefetch<false>(remote, bytes);
  } else {
    Prefetch<true>(remote, bytes);
  }
}

void ClientQueuePair::PrefetchRegion(uint64_t offset, uint32_t length) const {
  const SpaceView& region = views_[static_cast<size_t>(Space::kRegion)];
  // Unchecked, as above.
  Prefetch<false>(reinterpret_cast<uintptr_t>(region.data) + offset,
                  std::min(length, kMaxPrefetchBytes));
}

void ClientQueuePair::Enter() {
  page_.busy.store(1, std::memory_order_relaxed);
  FenceLightlyIf(fences_lightly_);
  if (page_.closed.load(std::memory_order_acquire) != 0 && state_ == State::kWorking)
    state_ = State::kLost;
}

void ClientQueuePair::Perform(Batch& batch) {
  if (state_ != State::kWorking) {
    state_ = State::kBroken;
    for (Verb& verb : batch.verbs()) verb.status = VerbStatus::kFlushed;
    return;
  }
  const std::span<Verb> verbs = batch.verbs();
  for (size_t i = 0; i < verbs.size(); ++i) {
    if (i + kAhead < verbs.size()) PrefetchFor(verbs[i + kAhead]);
    Verb& verb = verbs[i];
    if (state_ == State::kWorking) [[likely]] {
      verb.status = Apply(verb);
      if (verb.status != VerbStatus::kSuccess) [[unlikely]]
        state_ = State::kBroken;
    } else {
      verb.status = VerbStatus::kFlushed;
    }
  }
}

VerbStatus ClientQueuePair::Apply(const Verb& verb) {
  const SpaceView& view = views_[static_cast<size_t>(verb.space)];
  if (!view.Contains(verb.remote_offset, verb.length)) return VerbStatus::kRemoteAccess;
  std::byte* const remote = view.data + verb.remote_offset;
  switch (TraitsOf(verb.opcode).verb_class) {
    case VerbClass::kAtomic: return ApplyAtomic(verb, remote);
    case VerbClass::kRead:
      if (verb.length != 0) SharedCopy(verb.local.data, remote, verb.length);
      return VerbStatus::kSuccess;
    case VerbClass::kWrite:
      if (verb.length != 0) ApplyWrite(verb, view);
      return VerbStatus::kSuccess;
  }
  return VerbStatus::kRemoteAccess;
}

VerbStatus ClientQueuePair::ApplyAtomic(const Verb& verb, std::byte* remote) {
  if (verb.length != sizeof(uint64_t) || verb.remote_offset % sizeof(uint64_t) != 0) {
    return VerbStatus::kRemoteAccess;
  }
  const std::atomic_ref<uint64_t> word(*reinterpret_cast<uint64_t*>(remote));
  const VerbTraits& traits = TraitsOf(verb.opcode);
  uint64_t old_value = traits.is_conditional ? verb.compare : word.load(std::memory_order_relaxed);
  for (;;) {
    const uint64_t new_value = traits.new_word(old_value, verb.compare, verb.swap_or_add);
    const bool is_done =
        word.compare_exchange_strong(old_value, new_value, std::memory_order_acq_rel);
    if (is_done || traits.is_conditional) break;
  }
  std::memcpy(verb.local.data, &old_value, sizeof old_value);
  return VerbStatus::kSuccess;
}

void ClientQueuePair::ApplyWrite(const Verb& verb, const SpaceView& view) {
  // Acquire orders the READs before (loads) with this WRITE (stores).
  if (verb.fence) std::atomic_thread_fence(std::memory_order_acquire);
  if (journalled_ && verb.length <= kPathMtu) {
    JournalledWrite(page_.journal, view, verb.space, verb.remote_offset, verb.length,
                    verb.local.data);
  } else {
    SharedCopy(view.data + verb.remote_offset, verb.local.data, verb.length);
  }
  // WRITE before WRITE. An atomic has release order of its own.
  std::atomic_thread_fence(std::memory_order_release);
}

void ClientQueuePair::Post(ControlCall& call) {
  assert(working());
  call.status = VerbStatus::kPending;
  unsent_.Push(call);
  posted_at_.push_back(Clock::now());
  SendCalls();
}

void ClientQueuePair::SendCalls() {
  while (state_ == State::kWorking && !unsent_.empty() &&
         next_sequence_ - replies_received_ < kMaxCallsInFlight) {
    const ControlCall& request = *unsent_.first();
    Call call;
    call.sequence = next_sequence_;
    call.bytes = std::min<uint32_t>(request.request_bytes, kMaxControlBytes);
    std::memcpy(call.payload.data(), request.request.data(), call.bytes);
    const auto message = std::as_bytes(std::span(&call, 1)).first(kCallHeaderBytes + call.bytes);
    switch (SendMessage(grant_.socket, message, {}, false)) {
      case Transfer::kWouldBlock: return;
      case Transfer::kLost: state_ = State::kLost; return;
      case Transfer::kDone: break;
    }
    ++next_sequence_;
    sent_.Push(unsent_.Pop());
  }
}

void ClientQueuePair::PollCalls(bool check_peer, IntrusiveQueue<ControlCall>& ended) {
  if (state_ == State::kWorking &&
      (check_peer || page_.replies_sent.load(std::memory_order_acquire) != replies_received_)) {
    ReceiveReplies(ended);
    if (check_peer) EndOverdueCalls(ended);
    SendCalls();
  }
  if (state_ != State::kWorking) {
    while (!sent_.empty()) {
      sent_.first()->status = VerbStatus::kUnknown;
      ended.Push(sent_.Pop());
    }
    while (!unsent_.empty()) {
      unsent_.first()->status = VerbStatus::kFlushed;
      ended.Push(unsent_.Pop());
    }
    posted_at_.clear();
  }
}

void ClientQueuePair::ReceiveReplies(IntrusiveQueue<ControlCall>& ended) {
  for (;;) {
    Call reply;
    size_t bytes = 0;
    switch (ReceiveMessage(grant_.socket, std::as_writable_bytes(std::span(&reply, 1)), &bytes,
                           nullptr, false)) {
      case Transfer::kWouldBlock: return;
      case Transfer::kLost: state_ = State::kLost; return;
      case Transfer::kDone: break;
    }
    if (bytes < kCallHeaderBytes || reply.bytes > kMaxControlBytes ||
        bytes != kCallHeaderBytes + reply.bytes || reply.sequence != replies_received_) {
      state_ = State::kLost;  // another server, or a broken one
      return;
    }
    ++replies_received_;
    if (reply.sequence != first_sequence_ || sent_.empty()) continue;  // abandoned
    ++first_sequence_;
    posted_at_.pop_front();
    ControlCall& call = sent_.Pop();
    std::memcpy(call.reply.data(), reply.payload.data(), reply.bytes);
    call.reply_bytes = reply.bytes;
    call.status = VerbStatus::kSuccess;
    ended.Push(call);
  }
}

void ClientQueuePair::EndOverdueCalls(IntrusiveQueue<ControlCall>& ended) {
  if (!has_calls()) return;
  const Clock::time_point now = Clock::now();
  while (!posted_at_.empty() && now - posted_at_.front() > timeout_) {
    posted_at_.pop_front();
    // A server that answers nothing leaves no room to send more.
    const bool is_sent = !sent_.empty();
    if (is_sent) ++first_sequence_;
    ControlCall& call = (is_sent ? sent_ : unsent_).Pop();
    call.status = VerbStatus::kUnknown;
    ended.Push(call);
  }
}

void ClientQueuePair::Break(IntrusiveQueue<ControlCall>& ended) {
  state_ = State::kBroken;
  PollCalls(false, ended);
}

}  // namespace gossamer::shm
