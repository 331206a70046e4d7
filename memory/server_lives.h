// ServerLives: a memory server as its program has it: one life after the other, on memory that may
// outlive each of them, and the process.
//
// With saved files, the memory is loaded from one at the beginning, unless a region has outlived
// the process before. It is saved at the end, and whenever the store's record asks for it
// (common/bootstrap/requests.h): then a life ends, and the next one begins on the same memory,
// as after a kill. Clients notice a pause.
//
// While a restored store is not open, nothing can be written to it (common/bootstrap/restore.h). A
// server that ends then saves nothing. If the store goes back to an older set meanwhile, a life
// ends, and the next one begins with the file of that set.
//
// Thread-safety: one thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "common/status.h"
#include "memory/kept_region.h"
#include "memory/memory_server.h"
#include "memory/saved_files.h"

namespace gossamer {

struct SaveOptions {
  std::optional<SavedFiles> files;   // where to save; none: nothing is saved
  std::string load = {};             // the file to begin with; empty: one of `files`
  std::optional<SavedFile> to_load;  // what FileToLoad has opened
  bool salvage = false;              // go on without what is damaged there
  bool is_anew = false;              // what is in the region is of a store that never opened
  // Called by another thread when HasNewRequest or IsToGoBack.
  std::function<void()> on_request = {};
};

// Opens the saved file that this server of `store` is to begin with, by the store's record; none if
// it has none. Takes the server's files.
// Errors: those of SavedFiles::Take and Choose, and of SavedFile::Open; InvalidArgument if
// `save.load` is of another store.
Result<std::optional<SavedFile>> FileToLoad(SaveOptions& save, const std::string& store,
                                            Bootstrap& bootstrap);

class ServerLives {
 public:
  // `on_stop`: called by another thread when the store's record asks this server to stop.
  // Errors: those of MemoryServer::Start, RegionFile::Open, SavedFile::LoadInto. No file has changed
  // then.
  static Result<std::unique_ptr<ServerLives>> Begin(MemoryServerOptions options, SaveOptions save,
                                                    std::function<void()> on_stop);

  // Of the present life.
  const MemoryServer& server() const { return *server_; }
  // Whether the store's record asks for a save, and the present life has not made it.
  bool HasNewRequest() const;

  // Whether the store has gone back to an older set than the present life has begun with.
  bool IsToGoBack() const { return is_to_go_back_; }
  // Ends the life, and begins another one with the file of that set.
  // Errors: those of Begin. No life has begun then; no file has changed.
  Status GoBack();

  // Ends the life, saves, waits until the other servers of the store have saved too, and begins
  // another life. `is_to_stop`: polled while it waits; true ends that.
  // Errors: those of saving, also if another server has not saved in time. Another life has begun
  // all the same.
  Status SaveAndGoOn(const std::function<bool()>& is_to_stop);

  // Ends the last life. With saved files, saves, unless the store has not opened.
  // Errors: those of saving; if nothing else keeps the memory, another life has begun, and
  // `has_ended` is false.
  Status End();
  bool has_ended() const { return server_ == nullptr; }

 private:
  ServerLives(MemoryServerOptions options, SaveOptions save)
      : options_(std::move(options)), save_(std::move(save)) {}

  Status BeginFirstLife();
  Status OpenRegion();
  Status Load();
  // Tells the record which sets this server may begin with. `file`: what is loaded, if anything.
  Status NameSets(const std::optional<SavedFile>& file);
  Status StartServer();
  // Whether the store has gone back to another set than the one that was loaded. That is to be
  // loaded then.
  bool HasOtherSet();
  void LoadAnew(SavedFile file);
  // Whether the life that has ended can have changed nothing, as the store has not opened. Leaves
  // the record then.
  bool LeavesUnopened() const;
  // Until it succeeds: nothing else has the memory.
  void StartAgain();
  // Says what becomes of what the server holds.
  Status StopServer();
  // What the life that has ended has left. Returns the record with the note of it.
  Result<StoreRecord> Save();
  Status AwaitOthers(StoreRecord record, const std::function<bool()>& is_to_stop) const;
  // That of the store, as it is after the end of the life.
  Result<StoreRecord> ReadOwnRecord() const;

  MemoryServerOptions options_;
  SaveOptions save_;
  std::function<void()> on_stop_;
  std::unique_ptr<KeptRegion> region_;  // none if nothing is to outlive a life
  std::unique_ptr<MemoryServer> server_;
  MemberIdentity identity_;  // of the last life
  // `save` of the store's record: as it was last seen, and as it was when the life began.
  std::atomic<uint64_t> request_ = 0;
  std::atomic<uint64_t> done_request_ = 0;
  std::atomic<bool> was_open_ = false;  // the store has been seen open in this life
  std::atomic<bool> is_to_go_back_ = false;
};

}  // namespace gossamer
