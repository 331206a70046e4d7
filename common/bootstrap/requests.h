// What is asked of memory servers through the store's record: to save together, and to stop.
//
// Saving together: how the memory servers of a store save what they hold at one moment.
//
// Somebody asks for it in the record (RequestSave). Each server that sees the request stops
// serving, reads the record, writes its file, notes its *set* in the record (NoteSaved), and serves
// again, as another incarnation, once all servers have noted the same set.
//
// The set names the store and the incarnations of all its servers, as the record had them when the
// server had stopped. Files of one set were saved at one moment: each server had stopped before it
// read that record, and none had begun to serve again, because the record would have named that
// incarnation. So at the last of these reads all servers were stopped.
//
// A server that is stopped for good saves in the same way, and waits for nobody: the files of all
// servers are of one set if they are all stopped.
#pragma once

#include <cstdint>
#include <string>

#include "common/bootstrap/bootstrap.h"
#include "common/status.h"
#include "proto/store_record.h"

namespace gossamer {

// Never 0. Source: CRC32C, with two seeds, of the store's id and its servers' incarnations.
uint64_t SetOf(const StoreRecord& record);

// Whether the files of all servers are of that set, and none is awaited.
bool HaveAllSaved(const StoreRecord& record, uint64_t set);

// Errors: NodeUnreachable with the name of a server that has not come back with its saved file.
Status CheckNoneAwaited(const StoreRecord& record);

// Asks all servers to save. Returns the record with the request.
// Errors: NotFound if there is no such store; those of CheckNoneAwaited; Unsupported with the name
// of a server that saves nothing; Contended when the record keeps changing; those of Bootstrap::Get.
Result<StoreRecord> RequestSave(Bootstrap& bootstrap, const std::string& store);

// Notes that a server has saved a file of that set. `region`: where its memory is meanwhile, as in
// MemberRecord. Returns the record with the note.
// Errors: NotFound if the record does not name that incarnation of the server.
Result<StoreRecord> NoteSaved(Bootstrap& bootstrap, const std::string& store,
                              const MemberIdentity& server, uint64_t set,
                              const std::string& region);

// Asks a server to stop. Returns the record with the request.
// Errors: NotFound if the record does not name it; those of RequestSave.
Result<StoreRecord> RequestStop(Bootstrap& bootstrap, const std::string& store, ServerId server);

}  // namespace gossamer
