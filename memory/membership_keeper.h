// Maintains the record of a memory server's store while the server lives. A thread lets a Member
// look at the record every Bootstrap::kLookInterval and logs what it finds.
// common/bootstrap/member.h has the rules.
//
// A finding is logged if its kind is new or its text differs from the last one of its kind.
// Otherwise its kind is logged at most once in kLooksPerReport looks (a minute).
#pragma once

#include <functional>
#include <map>
#include <stop_token>
#include <string>
#include <thread>

#include "common/bootstrap/member.h"

namespace gossamer {

// Decides which findings are logged.
class LookReport {
 public:
  static constexpr uint64_t kLooksPerReport = 120;

  bool IsWorthALine(const Look& look);

 private:
  struct Reported {
    std::string sentence;
    uint64_t look;
  };

  uint64_t looks_ = 0;
  std::map<Finding, Reported> reported_;
};

// Thread-safety: one thread calls the methods.
class MembershipKeeper {
 public:
  using Note = std::function<void(const StoreRecord&)>;

  // Starts the thread. `bootstrap` must outlive this object. `note`, unless empty, is called with
  // each record that differs from the one before, first that of `joined`.
  MembershipKeeper(Bootstrap& bootstrap, const Joined& joined, LivenessProbe probe, Note note = {});
  MembershipKeeper(const MembershipKeeper&) = delete;
  MembershipKeeper& operator=(const MembershipKeeper&) = delete;

  // Stops looking, after the look under way.
  void Stop() { thread_ = {}; }
  // Likewise, and takes the server out of the record. Call once.
  Status Leave();

 private:
  void Run(const std::stop_token& stop);
  void NoteKnown();

  Member member_;
  const Note note_;
  StoreRecord noted_;
  std::jthread thread_;
};

}  // namespace gossamer
