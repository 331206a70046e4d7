#include "compute/verify/sim/broken_rule_port.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "common/fabric/endpoint_decorator.h"
#include "common/fabric/intrusive_queue.h"
#include "common/mutants.h"
#include "common/task.h"
#include "compute/session/server_batches.h"
#include "proto/leaf_geometry.h"
#include "proto/region.h"

namespace gossamer::sim {
namespace {

// Verbs of one batch, and of the one that stands for it.
constexpr uint32_t kMaxVerbs = ServerBatches::kMaxVerbs + 2;
// WRITEs of one batch that count as done early.
constexpr uint32_t kMaxEarly = 64;
// Between the check of an epoch and the post.
constexpr std::chrono::microseconds kEarly{100};

bool IsRelease(const Verb& verb) {
  return verb.is_conditional() && verb.space == Space::kLockTable && verb.swap_or_add == 0;
}

bool IsNewRoot(const Verb& verb) {
  return verb.is_conditional() && verb.space == Space::kRegion &&
         verb.remote_offset == kRootWordOffset;
}

// How many WRITEs `batch` begins with.
size_t CountWrites(const Batch& batch) {
  const auto is_write = [](const Verb& verb) { return verb.is_write(); };
  const std::span<const Verb> verbs = batch.verbs();
  return static_cast<size_t>(std::ranges::find_if_not(verbs, is_write) - verbs.begin());
}

// A batch as it is posted instead of the caller's.
struct Altered {
  explicit Altered(ServerId server) : batch(server) {}

  // Verb `original` of the caller's batch, or what stands for it.
  void Add(const Verb& verb, size_t original) {
    at[original] = batch.verbs().size();
    batch.Add(verb);
  }
  void AddInOrder(std::span<const Verb> verbs, size_t first) {
    for (size_t i = first; i < verbs.size(); ++i) Add(verbs[i], i);
  }

  InlineBatch<kMaxVerbs> batch;
  std::array<size_t, kMaxVerbs> at{};
};

// Writes `value` with a WRITE of the word that the CAS `verb` is about, from where that puts what
// it finds.
Verb WriteInstead(const Verb& verb, uint64_t value) {
  std::memcpy(verb.local.data, &value, sizeof value);
  return Verb::Write(verb.remote_offset, sizeof value, verb.local, verb.space);
}

void AlterSplit(std::span<const Verb> verbs, Altered& altered) {
  const Verb& sibling = verbs[0];
  const Verb& old_node = verbs[1];
  if (IsBroken(Mutant::kW1Sibling)) altered.batch.Add(old_node);
  altered.Add(sibling, 0);
  if (IsBroken(Mutant::kW2)) {
    altered.batch.Add(Verb::Write(old_node.remote_offset, old_node.length / 2, old_node.local));
  }
  altered.AddInOrder(verbs, 1);
}

// False: the batch breaks no rule as it is, nor does another in its place.
bool Alter(const Batch& batch, Altered& altered) {
  const std::span<const Verb> verbs = batch.verbs();
  const size_t writes = CountWrites(batch);
  const bool are_units = writes >= 2 && verbs[0].length <= kUnitSlotBytes;
  if (IsBroken(Mutant::kW1Overflow) && are_units) {
    for (size_t i = writes; i-- > 0;) altered.Add(verbs[i], i);
    altered.AddInOrder(verbs, writes);
    return true;
  }
  const bool is_split = writes == 2 && !are_units;
  if ((IsBroken(Mutant::kW1Sibling) || IsBroken(Mutant::kW2)) && is_split) {
    AlterSplit(verbs, altered);
    return true;
  }
  const bool writes_word = (IsBroken(Mutant::kL1) && std::ranges::any_of(verbs, IsRelease)) ||
                           (IsBroken(Mutant::kR7) && std::ranges::any_of(verbs, IsNewRoot));
  if (!writes_word) return false;
  for (size_t i = 0; i < verbs.size(); ++i) {
    const bool is_word = IsBroken(Mutant::kL1) ? IsRelease(verbs[i]) : IsNewRoot(verbs[i]);
    altered.Add(is_word ? WriteInstead(verbs[i], verbs[i].swap_or_add) : verbs[i], i);
  }
  return true;
}

// Whether the caller is to take `batch` for done at once.
bool EndsEarly(const Batch& batch, uint32_t node_bytes) {
  const std::span<const Verb> verbs = batch.verbs();
  if (verbs.empty() || CountWrites(batch) != verbs.size()) return false;
  if (IsBroken(Mutant::kL3)) return verbs[0].length == LeafGeometry(node_bytes).unit_bytes();
  if (IsBroken(Mutant::kW1Chain)) return verbs.size() > 1 && verbs[0].length == node_bytes;
  return IsBroken(Mutant::kW1Remote) && verbs.size() == 1 && verbs[0].length == node_bytes;
}

// WRITEs whose caller took them for done, with bytes of their own.
struct Unfinished {
  explicit Unfinished(const Batch& original) : batch(original.server()) {
    for (const Verb& verb : original.verbs()) {
      const std::byte* const from = verb.local.data;
      bytes.emplace_back(from, from + verb.length);
      batch.Add(verb).local.data = bytes.back().data();
    }
  }

  InlineBatch<kMaxEarly> batch;
  std::deque<std::vector<std::byte>> bytes;
};

// A base, so that it outlives the endpoint that still has its batches.
struct UnfinishedWrites {
  std::deque<Unfinished> unfinished;
};

class BrokenRuleEndpoint final : private UnfinishedWrites, public EndpointDecorator {
 public:
  BrokenRuleEndpoint(std::unique_ptr<Endpoint> below, uint32_t node_bytes)
      : EndpointDecorator(std::move(below)), node_bytes_(node_bytes) {}

  using EndpointDecorator::Post;
  void Post(Batch& batch) override {
    if (IsBroken(Mutant::kL4Early) && std::ranges::any_of(batch.verbs(), IsRelease)) {
      delayed_.emplace_back(Now() + kEarly, &batch);
      below().WakeAt(delayed_.back().first);
      return;
    }
    if (EndsEarly(batch, node_bytes_)) {
      below().Post(unfinished.emplace_back(batch).batch);
      for (Verb& verb : batch.verbs()) verb.status = VerbStatus::kSuccess;
      ended_.Push(batch);
      below().WakeAt(Clock::time_point::min());
      return;
    }
    auto altered = std::make_unique<Altered>(batch.server());
    if (Alter(batch, *altered)) {
      PostInstead(batch, std::move(altered));
    } else {
      below().Post(batch);
    }
  }
  size_t Poll() override {
    while (!delayed_.empty() && delayed_.front().first <= Now()) {
      below().Post(*delayed_.front().second);
      delayed_.pop_front();
    }
    const size_t ended = CompleteAll(ended_);
    return ended + below().Poll();
  }

 private:
  internal::Detached PostInstead(Batch& batch, std::unique_ptr<Altered> altered) {
    co_await below().Execute(altered->batch);
    for (size_t i = 0; i < batch.verbs().size(); ++i) {
      Verb& verb = batch.verbs()[i];
      const Verb& posted = altered->batch.verbs()[altered->at[i]];
      verb.status = posted.status;
      // As if the CAS had found what it was to replace.
      const bool was_word = verb.is_atomic() && !posted.is_atomic();
      if (was_word) std::memcpy(verb.local.data, &verb.compare, sizeof verb.compare);
    }
    if (batch.completion != nullptr) batch.completion->CountDown();
  }

  const uint32_t node_bytes_;
  std::deque<std::pair<Clock::time_point, Batch*>> delayed_;
  IntrusiveQueue<Batch> ended_;
};

class BrokenRulePort final : public ComputePortDecorator {
 public:
  BrokenRulePort(std::unique_ptr<ComputePort> below, uint32_t node_bytes)
      : ComputePortDecorator(std::move(below)), node_bytes_(node_bytes) {}

  Result<std::unique_ptr<Endpoint>> NewEndpoint() override {
    BOOST_OUTCOME_TRY(endpoint, ComputePortDecorator::NewEndpoint());
    return std::unique_ptr<Endpoint>(
        std::make_unique<BrokenRuleEndpoint>(std::move(endpoint), node_bytes_));
  }

 private:
  const uint32_t node_bytes_;
};

bool BreaksVerbs() {
  return IsBroken(Mutant::kL1) || IsBroken(Mutant::kL3) || IsBroken(Mutant::kL4Early) ||
         IsBroken(Mutant::kR7) || IsBroken(Mutant::kW1Overflow) || IsBroken(Mutant::kW1Remote) ||
         IsBroken(Mutant::kW1Chain) || IsBroken(Mutant::kW1Sibling) || IsBroken(Mutant::kW2);
}

}  // namespace

std::unique_ptr<ComputePort> WithBrokenRule(std::unique_ptr<ComputePort> port,
                                            uint32_t node_bytes) {
  if (!BreaksVerbs()) return port;
  return std::make_unique<BrokenRulePort>(std::move(port), node_bytes);
}

}  // namespace gossamer::sim
