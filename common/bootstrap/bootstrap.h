// Bootstrap: the small shared place where memory servers and clients find each other.
//
// It keeps one text per store, changes it by compare-and-swap, and serialises memory servers that
// join a store. There are two implementations: memcached (many machines) and a directory (one
// machine). The bootstrap does not interpret the text: see proto/store_record.h and membership.h.
//
// Programs that work together for a while keep *notes* beside the records: texts with names that no
// store can have (NoteName).
//
// Cost: every call asks the outside world, in about 0.1 ms; nothing is cached.
// Errors: NodeUnreachable with a sentence that names the place and the remedy.
// Thread-safety: all calls from any thread.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "common/status.h"

namespace gossamer {

// Released with the last copy, and when the process dies.
using Held = std::shared_ptr<void>;

class Bootstrap {
 public:
  static constexpr int kJoinLockSeconds = 20;
  static constexpr int kNoteSeconds = 3600;  // a crash leaves no litter for longer
  // How often a member checks the record of its store; see member.h.
  static constexpr std::chrono::milliseconds kLookInterval{500};

  virtual ~Bootstrap() = default;

  // The text of that name, a store's or a note's; nullopt when there is none. Errors:
  // InvalidArgument for a name that is neither.
  virtual Result<std::optional<std::string>> Get(const std::string& name) = 0;
  // Atomically replaces `expected` by `desired`; nullopt means absence. Returns false, and changes
  // nothing, when the text differs from `expected`. memcached forgets a note kNoteSeconds after its
  // last change.
  virtual Result<bool> CompareAndSwap(const std::string& name,
                                      const std::optional<std::string>& expected,
                                      const std::optional<std::string>& desired) = 0;
  // Waits until no other server joins `store`. Returns what is held while this one does; when the
  // process dies, it is released at once in a directory, after kJoinLockSeconds in memcached.
  // Errors: Contended after `patience`.
  virtual Result<Held> LockForJoin(const std::string& store,
                                   std::chrono::milliseconds patience) = 0;

  // A text may be lost while the members of its store live: memcached forgets, files are removed.
  //
  // MayHaveMembers is true here as long as a member holds the result and its process lives. With a
  // directory that is removed goes the announcement: a member announces itself with each look.
  virtual Result<Held> Announce(const std::string& store) = 0;
  // False: no member of `store` lives here, so an absent text means that there is no store.
  virtual Result<bool> MayHaveMembers(const std::string& store) = 0;
  // The time within which live members have noticed a loss: longer than kLookInterval and an
  // unanswered call.
  virtual std::chrono::milliseconds republish_wait() const = 0;

  // As in --bootstrap=URL.
  virtual std::string url() const = 0;
};

// Opens "memcached://HOST[:PORT]", "dir:PATH", or, for "", DefaultBootstrapUrl(). Does not contact
// memcached, and creates no directory. Errors: InvalidArgument for any other URL; NodeUnreachable
// for a directory that cannot be used.
Result<std::unique_ptr<Bootstrap>> OpenBootstrap(const std::string& url);

// "dir:" and a directory of this user: $XDG_RUNTIME_DIR/gossamer, else /tmp/gossamer-UID.
std::string DefaultBootstrapUrl();

// Errors: InvalidArgument with the rule, unless `store` is a valid store name.
Status CheckStoreName(const std::string& store);

// The name of a note: "bench+NAME". Both parts have the characters of store names, which have no
// '+'. `name` may be that of another note.
std::string NoteName(const std::string& kind, const std::string& name);
bool IsNoteName(const std::string& name);
// Errors: InvalidArgument, as for a store name, unless `name` is that of a store or a note.
Status CheckTextName(const std::string& name);

}  // namespace gossamer
