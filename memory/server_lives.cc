#include "memory/server_lives.h"

#include <fmt/core.h>
#include <glog/logging.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "common/bootstrap/record_snapshot.h"
#include "common/bootstrap/requests.h"
#include "common/bootstrap/server_probe.h"
#include "common/text/human.h"
#include "common/text/progress.h"

namespace gossamer {
namespace {

using std::chrono::steady_clock;

// For the other servers of the store to save, from when this one has.
constexpr std::chrono::seconds kPatienceWithOthers{60};
constexpr std::chrono::milliseconds kPollInterval{20};
constexpr std::chrono::seconds kRetryInterval{1};

uint64_t NowInMs() {
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::milliseconds>(
                                   std::chrono::system_clock::now().time_since_epoch())
                                   .count());
}

double SecondsSince(steady_clock::time_point then) {
  return std::chrono::duration<double>(steady_clock::now() - then).count();
}

// Whether the record, which was lost and put back since `noted`, does not name all servers of that.
bool LacksServers(const StoreRecord& record, const std::string& noted) {
  std::string problem;
  const std::optional<StoreRecord> before = ParseStoreRecord(noted, problem);
  return before && before->store_id == record.store_id && before->restored != record.restored &&
         std::ranges::any_of(before->servers, [&record](const MemberRecord& member) {
           return record.Find(member.server) == nullptr;
         });
}

// Progress in MiB.
class InMebibytes {
 public:
  explicit InMebibytes(const char* verb) : verb_(verb) {}
  void operator()(uint64_t done, uint64_t total) {
    constexpr int kMebibyte = 20;
    if (!progress_) {
      progress_.emplace(ProgressOptions{.verb = verb_, .unit = "MiB", .total = total >> kMebibyte});
    }
    progress_->Update(done >> kMebibyte);
  }

 private:
  const char* const verb_;
  std::optional<Progress> progress_;
};

}  // namespace

Result<std::unique_ptr<ServerLives>> ServerLives::Begin(MemoryServerOptions options,
                                                        SaveOptions save,
                                                        std::function<void()> on_stop) {
  std::unique_ptr<ServerLives> lives(new ServerLives(std::move(options), std::move(save)));
  lives->on_stop_ = std::move(on_stop);
  BOOST_OUTCOME_TRYV(lives->OpenRegion());
  BOOST_OUTCOME_TRYV(lives->Load());
  BOOST_OUTCOME_TRYV(lives->StartServer());
  return lives;
}

Status ServerLives::OpenRegion() {
  if (options_.region.empty() && !save_.files && !save_.to_load) return Ok();
  BOOST_OUTCOME_TRY(opened, OpenRegionFor(options_));
  region_ = std::move(opened);
  is_new_ = !region_->last_life();
  options_.kept = region_.get();
  if (!save_.files || is_new_) return Ok();
  const auto server = static_cast<ServerId>(region_->last_life()->header.server_id);
  BOOST_OUTCOME_TRYV(save_.files->Take(server));
  const uint64_t last = save_.files->ReadNote().incarnation;
  const std::vector<uint64_t> lives = region_->earlier();
  if (last == 0 || std::ranges::count(lives, last) != 0) return Ok();
  return MakeError(Code::kInvalidArgument,
                   fmt::format("--region={}: server {} has gone on without that, and saved in {}: "
                               "remove the region, to go on with what was saved, or give another "
                               "--save, to go back to the region",
                               options_.region, ToInteger(server), save_.files->directory()));
}

Status ServerLives::OnBegin(const MemberIdentity& identity) {
  if (!save_.files) return Ok();
  BOOST_OUTCOME_TRYV(save_.files->Take(identity.server));
  SavedFiles::Note note = save_.files->ReadNote();
  note.store_id = identity.store_id;
  note.incarnation = identity.incarnation;
  return save_.files->WriteNote(note);
}

Status ServerLives::Load() {
  if (save_.files) options_.join.saved = 0;
  const std::optional<SavedFile> file = std::exchange(save_.to_load, std::nullopt);
  if (!file || region_->last_life()) return Ok();
  is_new_ = false;
  const auto start = steady_clock::now();
  InMebibytes progress("loading");
  BOOST_OUTCOME_TRY(loaded, file->LoadInto(*region_, save_.salvage, std::ref(progress)));
  const SavedFiles::Note note = save_.files ? save_.files->ReadNote() : SavedFiles::Note();
  options_.loaded_set = file->header().set;
  options_.is_of_last_life = note.IsLast(*file);
  options_.been_in = note.store_id;
  if (save_.files) options_.join.saved = file->header().set;
  LOG(INFO) << fmt::format("loaded {} in {:.2f} s: {} MiB of memory", file->path(),
                           SecondsSince(start), loaded.blocks);
  if (loaded.damaged != 0) {
    LOG(WARNING) << fmt::format(
        "{} is damaged in {} places, first at byte {}{}: what was there is lost; `gossamer check` "
        "says what it was, and `gossamer dump --salvage` writes what is left",
        file->path(), loaded.damaged, loaded.first_damaged_at,
        loaded.is_cut ? ", and its end is missing" : "");
  }
  return Ok();
}

Status ServerLives::StartServer() {
  // A save that the record asks for when a life begins was asked of an earlier one.
  options_.on_record = [this, is_first = true, is_told = false](const StoreRecord& record,
                                                                const MemberRecord* own) mutable {
    if (std::exchange(is_first, false)) done_request_ = record.save;
    request_ = record.save;
    RemoveOthersIfAllHave(record);
    if (HasNewRequest() && save_.on_request) save_.on_request();
    const bool is_to_stop = own != nullptr && own->stop;
    if (is_to_stop && !std::exchange(is_told, true) && on_stop_) on_stop_();
  };
  options_.on_begin = [this](const MemberIdentity& identity) { return OnBegin(identity); };
  BOOST_OUTCOME_TRY(started, MemoryServer::Start(options_));
  server_ = std::move(started);
  identity_ = server_->identity();
  options_.loaded_set = 0;
  if (!std::exchange(is_new_, false) || !save_.files) return Ok();
  const size_t others = save_.files->SetAside(identity_.server == ServerId{0});
  if (others != 0) {
    LOG(WARNING) << others << " saved files of a store before this one, in "
                 << save_.files->directory() << ", were set aside: their names end with .before";
  }
  return Ok();
}

// One that stopped before others has not seen that these have saved, too.
void ServerLives::RemoveOthersIfAllHave(const StoreRecord& record) {
  const uint64_t set = options_.join.saved.value_or(0);
  if (set == 0 || set == complete_ || !HaveAllSaved(record, set)) return;
  // A record that was lost and put back may lack servers.
  const auto file = SavedFile::Open(save_.files->Path(set));
  if (!file || record.servers.size() < file.value().header().servers) return;
  complete_ = set;
  save_.files->RemoveOthers(set);
}

bool ServerLives::HasNewRequest() const {
  return save_.files && request_.load() != done_request_.load();
}

Status ServerLives::StartAgain() {
  // A request to stop must not end this process before what it holds is saved.
  options_.join.is_to_stop = {};
  Status started = StartServer();
  while (!started) {
    if (IsOfLostStore()) {
      return MakeError(started.error().code,
                       "what this server held is of no use, because the store is another one now, "
                       "and server 0 of the one before is gone: " +
                           started.error().message);
    }
    LOG(ERROR) << "what this server holds is in this process alone, and it cannot serve: "
               << started.error().message << "; trying again (SIGKILL ends it, and loses that)";
    std::this_thread::sleep_for(kRetryInterval);
    started = StartServer();
  }
  return started;
}

bool ServerLives::IsOfLostStore() const {
  if (identity_.server == ServerId{0}) return false;
  const auto seen = ReadRecord(*options_.bootstrap, options_.join.store);
  const bool is_another =
      seen && seen.value().record && seen.value().record->store_id != identity_.store_id;
  std::string problem;
  const std::optional<StoreRecord> own = ParseStoreRecord(region_->record(), problem);
  const MemberRecord* const root = own ? own->Find(ServerId{0}) : nullptr;
  if (!is_another || root == nullptr) return false;
  return FabricProbe()(*own, *root).liveness == Liveness::kDead && !MayReturn(*root);
}

Result<StoreRecord> ServerLives::ReadOwnRecord() const {
  const std::string& store = options_.join.store;
  // Another server of the store may have to put it back first, or itself in it.
  const auto deadline = steady_clock::now() + options_.bootstrap->republish_wait();
  for (;;) {
    BOOST_OUTCOME_TRY(seen, ReadRecord(*options_.bootstrap, store));
    const bool names_this = seen.record && EntryOf(*seen.record, identity_) != nullptr;
    if (names_this && !LacksServers(*seen.record, region_->record())) return *seen.record;
    if (steady_clock::now() >= deadline) {
      return MakeError(Code::kNotFound,
                       "the record of " + Named(store, *options_.bootstrap) +
                           (names_this ? " was lost, and does not name all servers again: try again"
                                       : " does not name this server any more"));
    }
    std::this_thread::sleep_for(kPollInterval);
  }
}

Result<StoreRecord> ServerLives::Save() {
  const auto start = steady_clock::now();
  BOOST_OUTCOME_TRY(record, ReadOwnRecord());
  // The file is to name all servers that the tree may refer to: their ids are never given again.
  region_->NoteRecord(EncodeStoreRecord(record));
  const SavedFiles& files = *save_.files;
  SavedFileHeader header{};
  header.set = SetOf(record);
  header.sequence = files.NextSequence();
  header.saved_at_ms = NowInMs();
  header.servers = static_cast<uint16_t>(record.servers.size());
  options_.join.store.copy(header.store.data(), header.store.size());
  InMebibytes progress("saving");
  const std::string part = files.PartPath(header.set);
  BOOST_OUTCOME_TRY(bytes, WriteSavedFile(part, header, *region_, std::ref(progress)));
  BOOST_OUTCOME_TRYV(files.Publish(header.set));
  options_.join.saved = header.set;
  const std::string path = files.Path(header.set);
  LOG(INFO) << fmt::format("saved {} in {:.2f} s: {}", path, SecondsSince(start),
                           HumanBytes(bytes));
  return NoteSaved(*options_.bootstrap, options_.join.store, identity_, header.set,
                   options_.region.empty() ? path : options_.region);
}

Status ServerLives::AwaitOthers(StoreRecord record, const std::function<bool()>& is_to_stop) const {
  const uint64_t set = *options_.join.saved;
  const StoreRecord of_set = record;
  // One that serves again without the file could not save.
  const auto has_failed = [&](const MemberRecord& before) {
    const MemberRecord* const now = record.Find(before.server);
    return now == nullptr || (now->incarnation != before.incarnation && now->saved != set);
  };
  const auto deadline = steady_clock::now() + kPatienceWithOthers;
  while (!HaveAllSaved(record, set)) {
    if (std::ranges::any_of(of_set.servers, has_failed) || steady_clock::now() >= deadline ||
        is_to_stop()) {
      return MakeError(Code::kContended,
                       "another server of " + Named(record.store, *options_.bootstrap) +
                           " has not saved, or not in time: the files of before are kept");
    }
    std::this_thread::sleep_for(kPollInterval);
    BOOST_OUTCOME_TRY(now, ReadOwnRecord());
    record = std::move(now);
  }
  save_.files->RemoveOthers(set);
  return Ok();
}

Status ServerLives::SaveAndGoOn(const std::function<bool()>& is_to_stop) {
  const Status stopped = StopServer();
  if (!stopped) LOG(WARNING) << stopped.error().message;
  const auto record = Save();
  Status saved = record ? AwaitOthers(record.value(), is_to_stop) : Status(record.error());
  BOOST_OUTCOME_TRYV(StartAgain());
  return saved;
}

Status ServerLives::End() {
  Status stopped = StopServer();
  if (!save_.files) return stopped;
  auto record = Save();
  if (!record && record.error().code == Code::kNotFound && options_.region.empty()) {
    // The record is lost, or another store's: this server puts it back, if it may.
    BOOST_OUTCOME_TRYV(StartAgain());
    stopped = StopServer();
    record = Save();
  }
  if (record && HaveAllSaved(record.value(), *options_.join.saved)) {
    save_.files->RemoveOthers(*options_.join.saved);
  }
  if (record) return stopped;
  if (options_.region.empty()) {
    BOOST_OUTCOME_TRYV(StartAgain());
  }
  return MakeError(record.error().code, "it cannot save: " + record.error().message);
}

Status ServerLives::StopServer() {
  const control::Usage usage = server_->Stat().usage;
  const uint64_t handed_out = usage.heap_bytes - usage.free_bytes;
  Status stopped = server_->Stop();
  server_.reset();
  if (region_ != nullptr) {
    region_->EndLife();
  } else if (!stopped) {
    stopped =
        MakeError(stopped.error().code, "it cannot leave the store: " + stopped.error().message);
  }
  if (options_.region == kKeptBySystemd) {
    LOG(INFO) << "systemd has what this server holds, and gives it to the next process of this "
                 "service, after a restart or a crash; once the service has stopped or failed, "
                 "only with FileDescriptorStorePreserve=yes in its unit (systemd 254)";
  } else if (!options_.region.empty()) {
    LOG(INFO) << "what this server holds is kept: --region=" << options_.region;
  } else if (!save_.files && handed_out != 0) {
    LOG(WARNING) << "what store " << options_.join.store << " kept in the "
                 << HumanBytes(handed_out) << " that server " << ToInteger(identity_.server)
                 << " had handed out is gone with it: with --region or --save it would be kept";
  }
  return stopped;
}

}  // namespace gossamer
