#include "compute/bench/gathering.h"

#include <fmt/core.h>

#include <algorithm>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "common/process.h"
#include "common/random_id.h"
#include "common/text/human.h"

namespace gossamer::bench {
namespace {

using Clock = std::chrono::steady_clock;
using Text = std::optional<std::string>;

constexpr std::chrono::milliseconds kPollInterval{50};
constexpr std::chrono::seconds kQuietTime{2};
constexpr std::chrono::seconds kBetweenWords{10};

// A process on its way into the roster.
class Newcomer {
 public:
  Newcomer(Bootstrap& bootstrap, const BarrierOptions& options, RosterMember& self)
      : bootstrap_(bootstrap), options_(options), self_(self), pulses_(options.silence) {}

  Result<Roster> Join() {
    Waiting waiting(options_);
    Clock::time_point next_beat = Clock::now();
    while (true) {
      BOOST_OUTCOME_TRY(text, bootstrap_.Get(note_));
      BOOST_OUTCOME_TRY(found, Parse(text));
      if (found && found->IsSealed() && found->Find(self_.incarnation) != nullptr) return *found;
      if (Clock::now() >= next_beat) {
        ++self_.beat;
        next_beat = Clock::now() + options_.beat;
      }
      BOOST_OUTCOME_TRY(next, Next(found));
      const std::string desired = next ? EncodeRoster(*next) : std::string();
      if (next && desired != text) {
        BOOST_OUTCOME_TRY(swapped, bootstrap_.CompareAndSwap(note_, text, desired));
        if (swapped) continue;
      }
      const uint64_t present = next ? next->members.size() : 0;
      BOOST_OUTCOME_TRYV(waiting.Pause(kPollInterval, options_.processes - present));
    }
  }

  // Takes this process out of a roster that is not sealed.
  void Leave() {
    for (int attempt = 0; attempt < 10; ++attempt) {
      const Result<Text> text = bootstrap_.Get(note_);
      if (!text || !text.value()) return;
      std::optional<Roster> roster = ParseRoster(*text.value());
      if (!roster || roster->IsSealed() || roster->Find(self_.incarnation) == nullptr) return;
      std::erase_if(roster->members, [this](const RosterMember& one) { return IsSelf(one); });
      const Text desired = roster->members.empty() ? Text() : Text(EncodeRoster(*roster));
      const Result<bool> swapped = bootstrap_.CompareAndSwap(note_, text.value(), desired);
      if (!swapped || swapped.value()) return;
    }
  }

 private:
  using Pulse = Pulses::Pulse;

  bool IsSelf(const RosterMember& member) const { return member.incarnation == self_.incarnation; }
  bool IsOver(const RosterMember& member) { return member.left || pulses_.IsDead(member); }
  std::string Named() const { return "the benchmark '" + options_.name + "'"; }

  Result<std::optional<Roster>> Parse(const Text& text) const {
    if (!text) return std::optional<Roster>();
    std::optional<Roster> roster = ParseRoster(*text);
    if (roster) return roster;
    return MakeError(Code::kCorruption,
                     fmt::format("the text of {} at {} cannot be understood: another version of "
                                 "gossamer-bench wrote it; give another --barrier",
                                 Named(), bootstrap_.url()));
  }

  // What the roster should be in place of what was found; nullopt: wait for others to change it.
  Result<std::optional<Roster>> Next(const std::optional<Roster>& found) {
    if (!found || std::ranges::all_of(found->members, [this](const RosterMember& one) {
          return !IsSelf(one) && IsOver(one);
        })) {
      self_.round = 0;
      return std::optional(Roster{.id = RandomId(),
                                  .processes = options_.processes,
                                  .settings = options_.settings,
                                  .members = {self_}});
    }
    if (found->IsSealed()) return WaitForEnd(*found);
    Roster roster = *found;
    std::erase_if(roster.members,
                  [this](const RosterMember& one) { return !IsSelf(one) && IsOver(one); });
    if (RosterMember* const entry = roster.Find(self_.incarnation); entry != nullptr) {
      self_.round = roster.members.size() == roster.processes ? 1 : 0;
      *entry = self_;
      return std::optional(std::move(roster));
    }
    const std::string difference = FirstDifference(roster);
    if (!difference.empty()) return Refuse(roster, difference);
    if (roster.members.size() == roster.processes) return std::optional<Roster>();
    // Every member has to confirm again: one that has confirmed may have crashed since.
    for (RosterMember& member : roster.members) member.round = 0;
    self_.round = 0;
    roster.members.push_back(self_);
    return std::optional(std::move(roster));
  }

  // Others have started without this process. If they are about to end for a loss, it waits.
  Result<std::optional<Roster>> WaitForEnd(const Roster& roster) {
    if (std::ranges::any_of(roster.members,
                            [this](const RosterMember& one) { return IsOver(one); })) {
      return std::optional<Roster>();
    }
    return Refuse(roster,
                  fmt::format("{} has its {} already, on {}: give another --barrier, or more "
                              "--processes to all",
                              Named(), HumanQuantity(roster.processes, "process", "processes"),
                              HostsOf(roster)));
  }

  // Refuses once a member is known to live: those of a crash are no reason.
  Result<std::optional<Roster>> Refuse(const Roster& roster, const std::string& sentence) {
    const bool lives = std::ranges::any_of(roster.members, [this](const RosterMember& one) {
      return pulses_.Of(one) == Pulse::kBeats;
    });
    if (lives) return MakeError(Code::kInvalidArgument, sentence);
    return std::optional<Roster>();
  }

  static std::string HostsOf(const Roster& roster) {
    std::string hosts;
    for (const RosterMember& member : roster.members) {
      if (!hosts.empty()) hosts += ", ";
      hosts += member.host;
    }
    return hosts;
  }

  // A sentence about the first flag that this process has otherwise; "" if there is none.
  std::string FirstDifference(const Roster& roster) const {
    const auto sentence = [&](const std::string& flag, const std::string& here,
                              const std::string& there) {
      return fmt::format("--{}={} here, but --{}={} on {}: give the processes of {} the same", flag,
                         here, flag, there, HostsOf(roster), Named());
    };
    if (roster.processes != options_.processes) {
      return sentence("processes", std::to_string(options_.processes),
                      std::to_string(roster.processes));
    }
    // As they stand in the roster, where bytes that are no text are replaced.
    const Roster own = *ParseRoster(EncodeRoster(
        Roster{.id = 0, .processes = 1, .settings = options_.settings, .members = {}}));
    for (const auto& [flag, here] : own.settings) {
      const auto there = roster.settings.find(flag);
      const std::string other = there == roster.settings.end() ? "" : there->second;
      if (here != other) return sentence(flag, here, other);
    }
    return {};
  }

  Bootstrap& bootstrap_;
  const BarrierOptions& options_;
  const std::string note_ = RosterNote(options_);
  RosterMember& self_;
  Pulses pulses_;
};

}  // namespace

std::string RosterNote(const BarrierOptions& options) { return NoteName("bench", options.name); }

Pulses::Pulse Pulses::Of(const RosterMember& member) {
  const ProcessState process = LookUpProcess(member.process);
  if (process == ProcessState::kGone) return Pulse::kGone;
  if (process == ProcessState::kRunning) return Pulse::kBeats;
  const Clock::time_point now = Clock::now();
  const auto [found, is_new] =
      seen_.try_emplace(member.incarnation, Seen{member.beat, now, /*has_changed=*/false});
  Seen& seen = found->second;
  if (seen.beat != member.beat) seen = {member.beat, now, /*has_changed=*/true};
  if (now - seen.since > silence_) return Pulse::kSilent;
  return seen.has_changed ? Pulse::kBeats : Pulse::kUnknown;
}

Waiting::Waiting(const BarrierOptions& options)
    : options_(options), next_words_(Clock::now() + kQuietTime), random_(RandomId()) {}

Status Waiting::Pause(std::chrono::milliseconds interval, uint64_t missing) {
  if (options_.should_stop && options_.should_stop()) {
    return MakeError(Code::kContended, "interrupted while waiting for other processes");
  }
  const Clock::time_point now = Clock::now();
  const bool is_news = last_missing_ != 0 && missing != last_missing_;
  if (options_.say && missing != 0 && (now >= next_words_ || is_news)) {
    options_.say(fmt::format("waiting for {} of {} of the benchmark '{}'", missing,
                             HumanQuantity(options_.processes, "process", "processes"),
                             options_.name));
    next_words_ = now + kBetweenWords;
    last_missing_ = missing;
  }
  // At random, so that processes which change the same text do not stay in step.
  const auto half = static_cast<uint64_t>(interval / std::chrono::microseconds(2));
  std::this_thread::sleep_for(std::chrono::microseconds(half + random_.Below(2 * half)));
  return Ok();
}

Result<Roster> Gather(Bootstrap& bootstrap, const BarrierOptions& options, RosterMember& self) {
  Newcomer newcomer(bootstrap, options, self);
  Result<Roster> roster = newcomer.Join();
  if (!roster) newcomer.Leave();
  return roster;
}

}  // namespace gossamer::bench
