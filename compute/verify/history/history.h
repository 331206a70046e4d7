// What many clients saw of one store, and whether a correct store can behave like that.
//
// Every client logs each operation with the times of its call and its return, all on one clock (the
// nanoseconds of one machine, or the steps of a simulation). Every value is written once, so that a
// read identifies the write it saw. The keys of a store are independent: each key's history is
// checked alone, in two ways.
//
//   CheckOrder          Gossamer's promise for a get, stated directly: it returns a value written
//                       for that key before the get ended, and not superseded before the get began.
//                       n log n; its findings are easy to read.
//   CheckLinearizable   The whole promise: there is one order of all operations, each between its
//                       call and its return, in which a single-threaded map would have given the
//                       same results. Wing & Gong '93 with the just-in-time order of Lowe '17:
//                       exponential in the number of overlapping writes of known outcome at one
//                       key, up to quadratic in all other operations open at a time.
//
// Absence is a value too: one before the first write, and one after each delete.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "common/status.h"

namespace gossamer::history {

enum class OperationKind : uint8_t {
  kGet,
  kScan,
  kPut,
  kInsert,
  kUpdate,
  kDelete,
  kModify,  // a read-modify-write: replaces `Event::seen` by the value
  kErase,  // what a DeleteRange does to one key: a delete that does not say whether the key was there
  kExpire,  // the value `Event::seen` expires, if the key has it; who writes it later leaves the key
            // absent
};
inline constexpr size_t kOperationKinds = 9;
std::string_view KindName(OperationKind kind);

enum class Outcome : uint8_t {
  kDone,
  kRefused,  // an insert of an existing key; an update or a delete of an absent key
  kUnknown,  // a write that may happen at any time until its end (mostly kNever), or never
};

// A value's identity. 0 is never written and means "absent".
using ValueId = uint64_t;
inline constexpr ValueId kAbsent = 0;
// Never written: what a scan of keys alone saw of a key that was there.
inline constexpr ValueId kSomeValue = std::numeric_limits<ValueId>::max();
inline constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

struct Event {
  ValueId value = kAbsent;  // the value that a get or scan saw, or that a write left
  int64_t start = 0;        // on a clock that all clients share
  int64_t end = 0;
  uint32_t key = 0;
  uint16_t client = 0;
  OperationKind kind = OperationKind::kGet;
  Outcome outcome = Outcome::kDone;
  ValueId seen =
      kAbsent;  // the value that a modify replaced; it keeps the key as it is if that is `value`, too
};
static_assert(sizeof(Event) == 40 && std::is_trivially_copyable_v<Event>);

std::string ToString(const Event& event);
// Whether the operation has changed its key, or may have.
bool IsChange(const Event& event);
// Whether a change leaves the key absent.
bool Removes(const Event& change);

// A log of events in a file, 40 bytes each. The file is mapped, so it keeps everything written
// before the process is killed.
//
// Thread-safety: none.
class HistoryWriter {
 public:
  static Result<HistoryWriter> Create(const std::string& path);
  HistoryWriter(HistoryWriter&& other) noexcept
      : file_(std::exchange(other.file_, -1)),
        windows_(std::exchange(other.windows_, {})),
        used_(other.used_),
        failed_(other.failed_) {}
  HistoryWriter& operator=(HistoryWriter&&) = delete;
  ~HistoryWriter();

  void Append(const Event& event);

  // Logs a write that is about to begin. It counts as unknown if the process ends before `End`. The
  // event's address stays valid.
  Event& Begin(Event event);
  static void End(Event& begun, int64_t end, Outcome outcome);
  // The write certainly did nothing: removes it from the log.
  static void Withdraw(Event& begun);

  // Returns the error of any earlier Append or Begin.
  Status Close();

 private:
  explicit HistoryWriter(int file) : file_(file) {}
  Event& Next();

  int file_;
  std::vector<Event*> windows_;
  size_t used_ = 0;      // events of the last window
  bool failed_ = false;  // no space for another window
  Event nowhere_;        // receives events after a failure
};

Status ReadHistory(const std::string& path, std::vector<Event>& events);

struct HistoryReport {
  uint64_t keys = 0;
  uint64_t events = 0;
  uint64_t problem_count = 0;
  uint64_t undecided_keys = 0;        // too many overlapping writes for CheckLinearizable
  std::vector<std::string> problems;  // the first ones, with the events that show them
};

// Checks one key's events, in any order. Returns a sentence that says what is wrong, or nullopt.
std::optional<std::string> CheckOrder(std::span<const Event> events);

struct Linearizability {
  bool decided = true;
  std::optional<std::string> problem;
};
Linearizability CheckLinearizable(std::span<const Event> events);

// Runs both checks on every key. Sorts `events`.
HistoryReport CheckHistory(std::vector<Event>& events);

}  // namespace gossamer::history
