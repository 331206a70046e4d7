#include "compute/store/keeping/expiry_sweeper.h"

#include <glog/logging.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "compute/store/keeping/leaf_draw.h"
#include "compute/tree/tree.h"

namespace gossamer {
namespace {

// They tell a share of 5 % to some 2 %, if it is the same everywhere.
constexpr int kLeaves = 32;
// Where much has expired, half of the time is for the sweep, else a quarter.
constexpr double kMuch = 0.2;

// What a leaf has; nullopt if the tree has changed on the way to it.
Task<Result<std::optional<ExpirySweeper::Sample>>> LookAtOne(Tree& tree, Random& random) {
  std::optional<ExpirySweeper::Sample> sample;
  BOOST_OUTCOME_CO_TRY(drawn, co_await DrawLeaves(tree, random, 1));
  if (drawn.leaves.empty()) co_return sample;
  sample.emplace();
  const uint64_t now_ms = tree.context().clock.EarliestMs();
  ForEachEntry(tree, drawn.leaves.front(), [&](const Entry& entry) {
    ++sample->keys;
    sample->expiring += entry.expires() ? 1 : 0;
    sample->expired += entry.HasExpiredAt(now_ms) ? 1 : 0;
  });
  co_return sample;
}

}  // namespace

Task<Result<ExpirySweeper::Sample>> ExpirySweeper::Look(Tree& tree, Random& random) {
  Sample all;
  for (int i = 0; i < kLeaves; ++i) {
    const Result<std::optional<Sample>> one = co_await LookAtOne(tree, random);
    // A node that was merged meanwhile looks damaged.
    if (!one && one.error().code != Code::kCorruption) co_return one.error();
    if (!one || !one.value()) continue;
    all.keys += one.value()->keys;
    all.expiring += one.value()->expiring;
    all.expired += one.value()->expired;
  }
  co_return all;
}

void ExpirySweeper::Start() {
  const Status started = thread_.Start("delete keys that have expired", [this] { Run(); });
  if (!started) {
    LOG_FIRST_N(WARNING, 1) << "keys that have expired keep their memory until they are met: "
                            << started.error().ToString();
  }
}

void ExpirySweeper::Run() {
  Clock::time_point swept = Clock::now();
  std::chrono::milliseconds pause = pace_.look;
  for (;;) {
    // Compute servers that were started together do not look together.
    const auto jitter = std::chrono::milliseconds(
        random_.Below(static_cast<uint32_t>(std::max<int64_t>(pause.count() / 2, 1))));
    if (!thread_.Rest(pause + jitter)) return;
    // Each time another one: it has queue pairs, which it needs for some milliseconds a minute.
    const Result<std::unique_ptr<OpenSession>> opened = new_session_();
    if (!opened) continue;
    OpenSession& session = *opened.value();
    const Result<Sample> sample = session.scheduler().Run(Look(session.tree(), random_));
    if (!sample) continue;  // what fails is told by operations
    const Sample& seen = sample.value();
    pause = seen.expiring == 0 ? std::min(2 * pause, pace_.longest_look) : pace_.look;
    const bool is_late = seen.expired != 0 && Clock::now() - swept >= pace_.longest;
    if (seen.share() < pace_.worth && !is_late) continue;
    Sweep(session, seen.share());
    swept = Clock::now();
  }
}

void ExpirySweeper::Sweep(OpenSession& session, double share) {
  const int rest = share >= kMuch ? 1 : 3;
  const Clock::time_point begun = Clock::now();
  Clock::time_point woken = begun;
  const RangeDeletion done = session.DeleteExpired([&](uint64_t /*deleted*/) {
    const bool goes_on = thread_.Rest(rest * (Clock::now() - woken));
    woken = Clock::now();
    return goes_on;
  });
  VLOG(1) << "deleted " << done.deleted << " keys that had expired in "
          << std::chrono::duration<double>(Clock::now() - begun).count() << " s"
          << (done.status ? "" : ": " + done.status.error().ToString());
}

}  // namespace gossamer
