// Looks after the record of a memory server's store as long as the server lives: a thread that lets
// a Member (common/bootstrap/member.h, which has the rules) look each Bootstrap::kLookInterval, and
// that logs what it finds.
//
// Each kind of finding is logged when it is new or says something else than the last one of its
// kind, and at most once in kLooksPerReport looks (a minute) otherwise.
#pragma once

#include <condition_variable>
#include <map>
#include <mutex>
#include <string>
#include <thread>

#include "common/bootstrap/member.h"

namespace gossamer {

// What of all looks goes to the log.
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

// Thread-safety: the methods belong to one thread.
class MembershipKeeper {
 public:
  // Starts looking. `bootstrap` outlives it.
  MembershipKeeper(Bootstrap& bootstrap, const Joined& joined, LivenessProbe probe);
  MembershipKeeper(const MembershipKeeper&) = delete;
  MembershipKeeper& operator=(const MembershipKeeper&) = delete;
  ~MembershipKeeper() { Stop(); }

  // Ends looking, once a look under way has ended, and takes the server out of the record. Once.
  Status Leave();

 private:
  void Run();
  void Stop();

  Member member_;
  std::mutex mutex_;
  std::condition_variable stopped_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace gossamer
