// ServerLives: a memory server as its program has it: one life after the other, on memory that may
// outlive each of them, and the process.
//
// With saved files, the memory is loaded from one at the beginning, unless a region has outlived
// the process before. It is saved at the end, and whenever the store's record asks for it
// (common/bootstrap/requests.h): then a life ends, and the next one begins on the same memory,
// as after a kill. Clients notice a pause.
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
  std::optional<SavedFile> to_load;  // what to begin with
  bool salvage = false;              // go on without what is damaged there
  // Called by another thread when the store's record asks for a save.
  std::function<void()> on_request = {};
};

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

  // Ends the life, saves, waits until the other servers of the store have saved too, and begins
  // another life. `is_to_stop`: polled while it waits; true ends that.
  // Errors: those of saving, also if another server has not saved in time. Another life has begun
  // all the same.
  // If `has_ended` then, no life could begin.
  Status SaveAndGoOn(const std::function<bool()>& is_to_stop);

  // Ends the last life. With saved files, saves.
  // Errors: those of saving; if nothing else keeps the memory, another life has begun, and
  // `has_ended` is false.
  Status End();
  bool has_ended() const { return server_ == nullptr; }

 private:
  ServerLives(MemoryServerOptions options, SaveOptions save)
      : options_(std::move(options)), save_(std::move(save)) {}

  Status OpenRegion();
  // Takes and notes, before clients can reach the life.
  Status OnBegin(const MemberIdentity& identity);
  void RemoveOthersIfAllHave(const StoreRecord& record);
  Status Load();
  Status StartServer();
  // Until it succeeds, as nothing else has the memory; or until the store of that is lost.
  // Errors: those of StartServer.
  Status StartAgain();
  // Whether the store of this memory is gone with its server 0, so that the memory is of no use.
  bool IsOfLostStore() const;
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
  bool is_new_ = false;      // the memory is of no life before
  uint64_t complete_ = 0;    // the set of which is known that all servers have it
  // `save` of the store's record: as it was last seen, and as it was when the life began.
  std::atomic<uint64_t> request_ = 0;
  std::atomic<uint64_t> done_request_ = 0;
};

}  // namespace gossamer
