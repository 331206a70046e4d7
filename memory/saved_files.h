// SavedFiles: the saved files of one memory server, in a directory that servers may share.
//
//   STORE-SERVER.SET.saved    a file, whole and on its disk; SET as 16 hex digits
//   STORE-SERVER.SET.part     one that is being written, or whose writer was killed
//   STORE-SERVER.SET.saved.before  one of a store in whose place another one was created
//   STORE-SERVER.lock         locked by the process whose files these are. It has a note: the last
//                             life of the server, and the last set that all servers had
//
// A file of the last life is all that the server held: it goes on with that as with a region.
//
// Thread-safety: none.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/status.h"
#include "common/unique_fd.h"
#include "memory/saved_file.h"
#include "proto/remote_ptr.h"
#include "proto/store_record.h"

namespace gossamer {

class SavedFiles {
 public:
  // For files of `store` in a directory that exists.
  // Errors: InvalidArgument for one that does not, or that cannot be written to.
  static Result<SavedFiles> Open(const std::string& directory, const std::string& store);

  const std::string& directory() const { return directory_; }
  struct Note {
    uint64_t store_id = 0;  // that the last life was part of; 0: none is known
    uint64_t incarnation = 0;
    uint64_t complete = 0;  // the last set that all servers had; 0: none

    bool IsLast(const SavedFile& file) const {
      return incarnation != 0 && file.header().region.incarnation == incarnation;
    }
  };
  enum class Taken : uint8_t { kYes, kThereAreNone, kOthersHaveThem };
  // Takes the files of the server with the lowest number that has any and that no process has
  // taken. If others have all, waits for up to kLockPatience: they may be those of a process that
  // was killed.
  Taken TakeAny();
  // Takes the files of that server, which may be none. Does nothing if it has them.
  // Errors: InvalidArgument if another process has them.
  Status Take(ServerId server);

  // The rest is of the server that was taken.

  // What is noted; what cannot be read counts as not known.
  Note ReadNote() const;
  // Errors: NoResources.
  Status WriteNote(const Note& note) const;

  // Opens the file that this server is to begin with: the first of these that there is. Or none.
  //   - that with which `record` awaits it, if it has not been in that store yet
  //   - that of its last life
  //   - that of the incarnation that the record names, if no life is noted
  //   - the latest whose set all servers have that the record names
  //   - that of the last set that all servers had
  //   - the latest
  // Errors: as SavedFile::Open.
  Result<std::optional<SavedFile>> Choose(const std::optional<StoreRecord>& record) const;

  // The latest file of all, if that is later than `other`.
  // Errors: as Choose.
  Result<std::optional<SavedFile>> FindLaterThan(const SavedFile& other) const;

  // A sequence for the next file: higher than those of all that are there. Lives alone do not order
  // files: a store that has gone back to an earlier file, or is a new one, has fewer.
  uint64_t NextSequence() const;

  // Where to write a file of that set, and its name once it is published.
  std::string PartPath(uint64_t set) const;
  std::string Path(uint64_t set) const;
  // Gives the file of that set its name.
  // Errors: NoResources.
  Status Publish(uint64_t set) const;
  // Removes all files that are earlier than that of this set, and parts, and notes that all servers
  // of the store have this set.
  void RemoveOthers(uint64_t set) const;
  // Renames all files, so that they are neither chosen nor removed: they are of another store than
  // that of this server. With `of_all`, also those of other servers which no process has. Returns
  // how many.
  size_t SetAside(bool of_all) const;

 private:
  SavedFiles(std::string directory, std::string store)
      : directory_(std::move(directory)), store_(std::move(store)) {}

  // The files, the latest first.
  Result<std::vector<SavedFile>> OpenAll() const;
  // Those of the store that have files.
  std::set<uint16_t> Servers() const;
  std::string Prefix() const;
  // The names that are `prefix`, a set, and `ending`.
  std::vector<std::string> Names(const std::string& prefix, const std::string& ending) const;

  std::string directory_;
  std::string store_;
  std::optional<ServerId> server_;
  UniqueFd lock_;
};

}  // namespace gossamer
