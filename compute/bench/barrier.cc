#include "compute/bench/barrier.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "common/process.h"
#include "common/random_id.h"

namespace gossamer::bench {
namespace {

using Clock = std::chrono::steady_clock;
using Text = std::optional<std::string>;
using std::chrono::milliseconds;

// While others finish a phase, and between that and its end. With many processes, so that all
// together poll 200 and 1,000 times a second.
milliseconds SlowPoll(uint32_t processes) { return milliseconds(std::max(50u, 5 * processes)); }
milliseconds QuickPoll(uint32_t processes) { return milliseconds(std::max(5u, processes)); }

// At a change of the roster that others change, too.
constexpr int kMaxAttempts = 64;

std::string ResultHead(uint64_t id) { return fmt::format("gossamer-bench 1 {:016x}\n", id); }

}  // namespace

Result<std::unique_ptr<Barrier>> Barrier::Join(Bootstrap& bootstrap,
                                               const BarrierOptions& options) {
  RosterMember self{.incarnation = RandomId(),
                    .host = HostName(),
                    .process = OwnProcessIdentity(),
                    .round = 0,
                    .beat = 0,
                    .left = false};
  BOOST_OUTCOME_TRY(roster, Gather(bootstrap, options, self));
  return std::unique_ptr<Barrier>(new Barrier(bootstrap, options, self, roster));
}

Barrier::Barrier(Bootstrap& bootstrap, const BarrierOptions& options, const RosterMember& self,
                 const Roster& roster)
    : bootstrap_(bootstrap),
      options_(options),
      note_(RosterNote(options)),
      id_(roster.id),
      self_(self),
      roster_(roster),
      pulses_(options.silence),
      answered_(Clock::now()) {
  for (const RosterMember& member : roster.members) {
    if (member.incarnation == self.incarnation) rank_ = static_cast<uint32_t>(hosts_.size());
    hosts_.push_back(member.host);
  }
  self_.round = 1;
  keeper_ = std::thread([this] { KeepBeating(); });
}

Barrier::~Barrier() {
  {
    const std::lock_guard lock(mutex_);
    stops_ = true;
    stop_.notify_all();
  }
  keeper_.join();
  if (!has_ended_) Leave();
}

void Barrier::KeepBeating() {
  std::unique_lock lock(mutex_);
  while (!stop_.wait_for(lock, options_.beat, [this] { return stops_; })) {
    ++self_.beat;
    (void)Look();  // What is wrong is in error_.
  }
}

// One round trip, and three more if this process's entry is to change: the entry may be outdated
// until the next look if another process has changed the roster meanwhile.
Status Barrier::Look() {
  if (error_) return *error_;
  if (has_ended_) return Ok();
  const Result<Text> text = bootstrap_.Get(note_);
  if (!text) return MissAnswer(text.error());
  answered_ = Clock::now();
  std::optional<Roster> roster = text.value() ? ParseRoster(*text.value()) : std::nullopt;
  RosterMember* const entry = roster ? roster->Find(self_.incarnation) : nullptr;
  if (entry == nullptr || roster->id != id_ || roster->members.size() != hosts_.size()) {
    return SeeNoRoster();
  }
  if (*entry != self_) {
    const RosterMember before = std::exchange(*entry, self_);
    const Result<bool> swapped =
        bootstrap_.CompareAndSwap(note_, text.value(), EncodeRoster(*roster));
    if (!swapped) return MissAnswer(swapped.error());
    if (!swapped.value()) *entry = before;
  }
  return Observe(*std::move(roster));
}

Status Barrier::Observe(Roster roster) {
  roster_ = std::move(roster);
  for (uint32_t rank = 0; rank < roster_.members.size(); ++rank) {
    const RosterMember& member = roster_.members[rank];
    if (rank == rank_) continue;
    std::string what;
    if (member.left) {
      what = "has left before its end";
    } else {
      const Pulses::Pulse pulse = pulses_.Of(member);
      if (pulse == Pulses::Pulse::kGone) what = "has ended before its end";
      if (pulse == Pulses::Pulse::kSilent) {
        what = fmt::format("has given no sign for {} s", options_.silence.count() / 1000);
      }
    }
    if (what.empty()) continue;
    return Break(fmt::format("the process of rank {} (host {}, pid {}) {}", rank, member.host,
                             ProcessIdOf(member.process), what));
  }
  return Ok();
}

// Whether the roster told the others that this process has handed in its result.
bool Barrier::HasSaidLast() const {
  return is_last_round_ && roster_.members[rank_].round == self_.round;
}

Status Barrier::SeeNoRoster() {
  if (HasSaidLast()) {
    has_ended_ = true;
    return Ok();
  }
  return Break("its text is gone from " + bootstrap_.url() +
               ", or another benchmark has taken the name");
}

Status Barrier::MissAnswer(const Error& error) {
  if (Clock::now() - answered_ < options_.silence) return Ok();
  return Break(error.message);
}

Status Barrier::Break(const std::string& what) {
  error_ = MakeError(Code::kNodeUnreachable,
                     fmt::format("the benchmark '{}' is broken: {}", options_.name, what));
  is_broken_.store(true, std::memory_order_release);
  return *error_;
}

uint32_t Barrier::CountMissing() const {
  return static_cast<uint32_t>(std::ranges::count_if(
      roster_.members, [this](const RosterMember& one) { return one.round < self_.round; }));
}

Status Barrier::Arrive(milliseconds interval, bool is_last) {
  Waiting waiting(options_);
  {
    const std::lock_guard lock(mutex_);
    ++self_.round;
    is_last_round_ = is_last;
  }
  while (true) {
    uint32_t missing = 0;
    {
      const std::lock_guard lock(mutex_);
      BOOST_OUTCOME_TRYV(Look());
      missing = has_ended_ ? 0 : CountMissing();
    }
    if (missing == 0) return Ok();
    BOOST_OUTCOME_TRYV(waiting.Pause(interval, missing));
  }
}

// In two rounds: the last process to arrive may keep the others waiting for long in the first. The
// second is short for all, so that they may poll quickly.
Status Barrier::Meet() {
  BOOST_OUTCOME_TRYV(Arrive(SlowPoll(options_.processes)));
  return Arrive(QuickPoll(options_.processes));
}

Result<std::vector<std::string>> Barrier::HandIn(const std::string& result) {
  BOOST_OUTCOME_TRYV(PutResult(result));
  BOOST_OUTCOME_TRYV(Arrive(SlowPoll(options_.processes), /*is_last=*/true));
  if (rank_ != 0) {
    BOOST_OUTCOME_TRYV(AwaitEnd());
    return std::vector<std::string>();
  }
  BOOST_OUTCOME_TRY(results, TakeResults());
  RemoveResults();
  const std::lock_guard lock(mutex_);
  RemoveRoster();
  has_ended_ = true;
  return results;
}

// Until rank 0 has taken the results.
Status Barrier::AwaitEnd() {
  Waiting waiting(options_);
  while (true) {
    {
      const std::lock_guard lock(mutex_);
      BOOST_OUTCOME_TRYV(Look());
      if (has_ended_) return Ok();
    }
    BOOST_OUTCOME_TRYV(waiting.Pause(SlowPoll(options_.processes), /*missing=*/0));
  }
}

std::string Barrier::NoteOf(uint32_t rank) const { return NoteName(note_, std::to_string(rank)); }

// In place of what an earlier benchmark may have left there.
Status Barrier::PutResult(const std::string& result) {
  const std::string note = NoteOf(rank_);
  while (true) {
    BOOST_OUTCOME_TRY(text, bootstrap_.Get(note));
    BOOST_OUTCOME_TRY(swapped, bootstrap_.CompareAndSwap(note, text, ResultHead(id_) + result));
    if (swapped) return Ok();
  }
}

Result<std::vector<std::string>> Barrier::TakeResults() {
  const std::string head = ResultHead(id_);
  std::vector<std::string> results;
  for (uint32_t rank = 0; rank < options_.processes; ++rank) {
    BOOST_OUTCOME_TRY(text, bootstrap_.Get(NoteOf(rank)));
    if (!text || !text->starts_with(head)) {
      return MakeError(Code::kNotFound,
                       fmt::format("the result of rank {} (host {}) of the benchmark '{}' is gone "
                                   "from {}",
                                   rank, hosts_[rank], options_.name, bootstrap_.url()));
    }
    results.push_back(text->substr(head.size()));
  }
  return results;
}

// Errors are ignored: what stays is in nobody's way.
void Barrier::RemoveResults() {
  const std::string head = ResultHead(id_);
  for (uint32_t rank = 0; rank < options_.processes; ++rank) {
    const Result<Text> text = bootstrap_.Get(NoteOf(rank));
    if (!text || !text.value() || !text.value()->starts_with(head)) continue;
    (void)bootstrap_.CompareAndSwap(NoteOf(rank), text.value(), std::nullopt);
  }
}

// Other members may change it meanwhile.
void Barrier::RemoveRoster() {
  for (int attempt = 0; attempt < kMaxAttempts; ++attempt) {
    const Result<Text> text = bootstrap_.Get(note_);
    if (!text || !text.value()) return;
    const std::optional<Roster> roster = ParseRoster(*text.value());
    if (!roster || roster->id != id_) return;
    const Result<bool> removed = bootstrap_.CompareAndSwap(note_, text.value(), std::nullopt);
    if (!removed || removed.value()) return;
  }
}

// The last one to leave removes all texts.
void Barrier::Leave() {
  const std::lock_guard lock(mutex_);
  for (int attempt = 0; attempt < kMaxAttempts; ++attempt) {
    const Result<Text> text = bootstrap_.Get(note_);
    if (!text || !text.value()) return;
    std::optional<Roster> roster = ParseRoster(*text.value());
    RosterMember* const entry = roster ? roster->Find(self_.incarnation) : nullptr;
    if (entry == nullptr || roster->id != id_) return;
    entry->left = true;
    if (std::ranges::all_of(roster->members, [this](const RosterMember& one) {
          return one.left || pulses_.IsDead(one);
        })) {
      RemoveResults();
      RemoveRoster();
      return;
    }
    const Result<bool> swapped =
        bootstrap_.CompareAndSwap(note_, text.value(), EncodeRoster(*roster));
    if (!swapped || swapped.value()) return;
  }
}

}  // namespace gossamer::bench
