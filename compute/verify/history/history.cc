#include "compute/verify/history/history.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cassert>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <limits>
#include <unordered_map>

namespace gossamer::history {
namespace {

constexpr size_t kMaxProblems = 10;
constexpr size_t kWindowEvents = 1 << 15;
constexpr size_t kWindowBytes = kWindowEvents * sizeof(Event);  // whole pages
static_assert(kWindowBytes % 4096 == 0);
constexpr int64_t kBeforeAll = std::numeric_limits<int64_t>::min();

// An event that changes the key. `superseded`: the earliest end among changes that began after this
// one ended. No read that begins later may return its value.
struct Change {
  const Event* event;  // null: the absence at the beginning
  int64_t start;
  int64_t superseded = kNever;
  ValueId value = kAbsent;
};

std::vector<Change> FindChanges(std::span<const Event> events) {
  std::vector<const Event*> by_start;
  for (const Event& event : events) {
    if (IsChange(event)) by_start.push_back(&event);
  }
  std::sort(by_start.begin(), by_start.end(),
            [](const Event* a, const Event* b) { return a->start < b->start; });
  // first_end[i]: the earliest end among the changes from i on that have certainly happened.
  std::vector<int64_t> first_end(by_start.size() + 1, kNever);
  for (size_t i = by_start.size(); i-- > 0;) {
    // An expiry changes nothing where the key has another value by then.
    const bool has_happened =
        by_start[i]->outcome != Outcome::kUnknown && by_start[i]->kind != OperationKind::kExpire;
    first_end[i] = std::min(first_end[i + 1], has_happened ? by_start[i]->end : kNever);
  }
  std::unordered_map<ValueId, int64_t> expiries;
  for (const Event* event : by_start) {
    if (event->kind == OperationKind::kExpire) expiries.emplace(event->seen, event->end);
  }
  std::vector<Change> changes = {{nullptr, kBeforeAll, first_end[0], kAbsent}};
  for (const Event* event : by_start) {
    const auto behind =
        std::upper_bound(by_start.begin(), by_start.end(), event->end,
                         [](int64_t end, const Event* other) { return end < other->start; });
    changes.push_back({event, event->start,
                       first_end[static_cast<size_t>(behind - by_start.begin())],
                       Removes(*event) ? kAbsent : event->value});
    const auto expiry = expiries.find(changes.back().value);
    if (expiry == expiries.end()) continue;
    Change may_be_late = changes.back();
    changes.back().superseded = std::min(changes.back().superseded, expiry->second);
    may_be_late.value = kAbsent;
    if (expiry->second <= event->end) changes.push_back(may_be_late);
  }
  return changes;
}

// For a set of changes: how long any that began by a given moment may be read.
class Readable {
 public:
  // Requires: changes are added in order of start.
  void Add(const Change& change) {
    assert(starts_.empty() || starts_.back() <= change.start);
    const int64_t until = until_.empty() ? kBeforeAll : until_.back();
    starts_.push_back(change.start);
    until_.push_back(std::max(until, change.superseded));
  }
  bool CanBeReadBy(const Event& event) const {
    const auto later = std::upper_bound(starts_.begin(), starts_.end(), event.end);
    if (later == starts_.begin()) return false;
    return until_[static_cast<size_t>(later - starts_.begin()) - 1] >= event.start;
  }

 private:
  std::vector<int64_t> starts_;
  std::vector<int64_t> until_;
};

// The value that the operation says it has seen. Others say only whether the key was there, or
// nothing.
std::optional<ValueId> SeenBy(const Event& event) {
  switch (event.kind) {
    case OperationKind::kGet:
    case OperationKind::kScan: return event.value;
    case OperationKind::kModify: return event.seen;
    default: return std::nullopt;
  }
}

std::string Wrong(const Event& read, const std::string& what) {
  return fmt::format("key {}: {}: {}", read.key, ToString(read), what);
}

}  // namespace

std::string_view KindName(OperationKind kind) {
  constexpr std::string_view kNames[] = {"get",    "scan",   "put",   "insert", "update",
                                         "delete", "modify", "erase", "expire"};
  return kNames[static_cast<size_t>(kind)];
}

bool IsChange(const Event& event) {
  switch (event.kind) {
    case OperationKind::kGet:
    case OperationKind::kScan: return false;
    case OperationKind::kModify: return event.value != event.seen;
    default: return event.outcome != Outcome::kRefused;
  }
}

bool Removes(const Event& change) {
  return change.kind == OperationKind::kDelete || change.kind == OperationKind::kErase ||
         change.kind == OperationKind::kExpire ||
         (change.kind == OperationKind::kModify && change.value == kAbsent);
}

std::string ToString(const Event& event) {
  constexpr const char* kOutcomes[] = {"", " refused", " unknown"};
  const auto name = [](ValueId value) {
    if (value == kAbsent) return std::string(" absent");
    return value == kSomeValue ? " present" : fmt::format(" #{}", value);
  };
  std::string text = fmt::format("client {} {}{}", event.client, KindName(event.kind),
                                 kOutcomes[static_cast<size_t>(event.outcome)]);
  if (event.kind == OperationKind::kModify) {
    text += name(event.seen) + " ->" + name(event.value);
  } else if (event.kind == OperationKind::kExpire) {
    text += name(event.seen);
  } else if (event.outcome != Outcome::kRefused && !Removes(event)) {
    text += name(event.value);
  }
  return fmt::format("{} [{}, {}]", text, event.start,
                     event.end == kNever ? "-" : std::to_string(event.end));
}

std::optional<std::string> CheckOrder(std::span<const Event> events) {
  const std::vector<Change> changes = FindChanges(events);
  Readable absence;
  Readable presence;
  std::vector<const Change*> by_value;
  for (const Change& change : changes) {
    (change.value == kAbsent ? absence : presence).Add(change);
    if (change.value != kAbsent) by_value.push_back(&change);
  }
  std::sort(by_value.begin(), by_value.end(),
            [](const Change* a, const Change* b) { return a->value < b->value; });

  for (const Event& event : events) {
    const bool says_nothing = event.kind == OperationKind::kPut ||
                              event.kind == OperationKind::kErase ||
                              event.kind == OperationKind::kExpire;
    if (event.outcome == Outcome::kUnknown || says_nothing) continue;
    const std::optional<ValueId> seen = SeenBy(event);
    const bool refused = event.outcome == Outcome::kRefused;
    if (seen && *seen != kAbsent && *seen != kSomeValue) {
      const auto written = std::lower_bound(
          by_value.begin(), by_value.end(), *seen,
          [](const Change* change, ValueId value) { return change->value < value; });
      if (written == by_value.end() || (*written)->value != *seen) {
        return Wrong(event, "nobody wrote that value for this key");
      }
      if ((*written)->start > event.end) {
        return Wrong(event, "read before it was written by " + ToString(*(*written)->event));
      }
      if ((*written)->superseded < event.start) {
        return Wrong(
            event, "superseded before the read began; written by " + ToString(*(*written)->event));
      }
      continue;
    }
    // Other operations say whether the key existed. A successful update says that something
    // existed. That may be the update's own value in `presence`, so it is not evaluated here.
    const bool saw_absence =
        seen ? *seen == kAbsent : (event.kind == OperationKind::kInsert) != refused;
    if (saw_absence && !absence.CanBeReadBy(event)) {
      return Wrong(event, "the key was there all the time");
    }
    const bool saw_presence = !saw_absence && !(event.kind == OperationKind::kUpdate && !refused);
    if (saw_presence && !presence.CanBeReadBy(event)) {
      return Wrong(event, "the key was absent all the time");
    }
  }
  return std::nullopt;
}

HistoryReport CheckHistory(std::vector<Event>& events) {
  std::sort(events.begin(), events.end(), [](const Event& a, const Event& b) {
    return a.key != b.key ? a.key < b.key : a.start < b.start;
  });
  HistoryReport report;
  report.events = events.size();
  for (size_t from = 0; from < events.size();) {
    size_t to = from;
    while (to < events.size() && events[to].key == events[from].key) ++to;
    const std::span<const Event> one(events.data() + from, to - from);
    from = to;
    ++report.keys;
    std::optional<std::string> problem = CheckOrder(one);
    if (!problem) {
      Linearizability result = CheckLinearizable(one);
      if (!result.decided) ++report.undecided_keys;
      problem = std::move(result.problem);
    }
    if (!problem) continue;
    ++report.problem_count;
    if (report.problems.size() < kMaxProblems) report.problems.push_back(std::move(*problem));
  }
  return report;
}

Result<HistoryWriter> HistoryWriter::Create(const std::string& path) {
  const int file = open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (file < 0) {
    return MakeError(Code::kInvalidArgument,
                     "cannot write " + path + ": " + std::string(std::strerror(errno)));
  }
  return HistoryWriter(file);
}

HistoryWriter::~HistoryWriter() {
  for (Event* window : windows_) munmap(window, kWindowBytes);
  if (file_ >= 0) close(file_);
}

// Windows stay mapped: writes in any of them may still end.
Event& HistoryWriter::Next() {
  if (failed_) return nowhere_;
  if (windows_.empty() || used_ == kWindowEvents) {
    const auto at = static_cast<off_t>(windows_.size() * kWindowBytes);
    void* mapped = MAP_FAILED;
    // Allocate disk space now: a shortage later would be a signal.
    if (posix_fallocate(file_, at, kWindowBytes) == 0) {
      mapped = mmap(nullptr, kWindowBytes, PROT_READ | PROT_WRITE, MAP_SHARED, file_, at);
    }
    failed_ = mapped == MAP_FAILED;
    if (failed_) return nowhere_;
    windows_.push_back(static_cast<Event*>(mapped));
    used_ = 0;
  }
  return windows_.back()[used_++];
}

void HistoryWriter::Append(const Event& event) { Begin(event); }

// An event exists once its end is not 0. The end is written last: a killed process has executed a
// prefix of its instructions.
Event& HistoryWriter::Begin(Event event) {
  Event& slot = Next();
  const int64_t end = std::exchange(event.end, 0);
  slot = event;
  std::atomic_ref(slot.end).store(end, std::memory_order_release);
  return slot;
}

// The end is meaningless until the outcome is known.
void HistoryWriter::End(Event& begun, int64_t end, Outcome outcome) {
  begun.end = end;
  std::atomic_ref(begun.outcome).store(outcome, std::memory_order_release);
}

void HistoryWriter::Withdraw(Event& begun) {
  std::atomic_ref(begun.end).store(0, std::memory_order_release);
}

Status HistoryWriter::Close() {
  if (!failed_) return Ok();
  return MakeError(Code::kNoResources, "a log of operations could not be written");
}

Status ReadHistory(const std::string& path, std::vector<Event>& events) {
  std::FILE* file = std::fopen(path.c_str(), "rbe");
  if (file == nullptr) return MakeError(Code::kNotFound, "no log of operations at " + path);
  constexpr size_t kAtOnce = 1 << 14;
  std::vector<Event> some(kAtOnce);
  while (const size_t got = std::fread(some.data(), sizeof(Event), kAtOnce, file)) {
    for (Event& event : std::span(some).first(got)) {
      if (event.end == 0) continue;
      if (event.outcome == Outcome::kUnknown) event.end = kNever;
      if (event.outcome == Outcome::kRefused) event.value = kAbsent;
      events.push_back(event);
    }
  }
  std::fclose(file);
  return Ok();
}

}  // namespace gossamer::history
