#include "memory/server_lives.h"

#include <fmt/core.h>
#include <glog/logging.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "common/bootstrap/record_snapshot.h"
#include "common/bootstrap/requests.h"
#include "common/bootstrap/restore.h"
#include "common/bootstrap/server_probe.h"
#include "common/text/human.h"
#include "common/text/progress.h"
#include "memory/region_file.h"

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

// Whether that record of a store, which a region has noted, was open.
bool WasOpen(const std::string& text) {
  std::string problem;
  const std::optional<StoreRecord> record = ParseStoreRecord(text, problem);
  return !record || record->is_open();
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

Result<std::optional<SavedFile>> FileToLoad(SaveOptions& save, const std::string& store,
                                            Bootstrap& bootstrap) {
  if (!save.load.empty()) {
    BOOST_OUTCOME_TRY(file, SavedFile::Open(save.load));
    if (file.store() != store) {
      return MakeError(Code::kInvalidArgument,
                       fmt::format("--load={}: it is of store '{}', and --store says '{}': give "
                                   "another file, or --store={}",
                                   save.load, file.store(), store, file.store()));
    }
    if (save.files) {
      BOOST_OUTCOME_TRYV(save.files->Take(static_cast<ServerId>(file.header().region.server_id)));
    }
    return std::optional(std::move(file));
  }
  if (!save.files) return std::nullopt;
  const SavedFiles::Taken taken = save.files->TakeAny();
  if (taken == SavedFiles::Taken::kYes) return save.files->Choose(bootstrap, FabricProbe());
  if (taken == SavedFiles::Taken::kThereAreNone) return std::nullopt;
  // Beside those that have them, it may join. But it must not begin an empty store in place of what
  // they have.
  BOOST_OUTCOME_TRY(seen, ReadRecord(bootstrap, store));
  if (seen.record) return std::nullopt;
  return MakeError(Code::kInvalidArgument,
                   fmt::format("{}: other processes have all saved files of store '{}' there, and "
                               "there is no record of the store: start this server again once they "
                               "have ended, or are ready; or give another --save",
                               save.files->directory(), store));
}

Result<std::unique_ptr<ServerLives>> ServerLives::Begin(MemoryServerOptions options,
                                                        SaveOptions save,
                                                        std::function<void()> on_stop) {
  std::unique_ptr<ServerLives> lives(new ServerLives(std::move(options), std::move(save)));
  lives->on_stop_ = std::move(on_stop);
  BOOST_OUTCOME_TRYV(lives->BeginFirstLife());
  return lives;
}

Status ServerLives::BeginFirstLife() {
  for (;;) {
    BOOST_OUTCOME_TRYV(OpenRegion());
    BOOST_OUTCOME_TRYV(Load());
    Status started = StartServer();
    if (started || !HasOtherSet()) return started;
  }
}

Status ServerLives::OpenRegion() {
  if (options_.region.empty() && !save_.files && !save_.to_load) return Ok();
  if (save_.is_anew && !options_.region.empty()) {
    BOOST_OUTCOME_TRYV(RegionFile::Remove(options_.region));
  }
  BOOST_OUTCOME_TRY(opened, OpenRegionFor(options_, save_.is_anew));
  region_ = std::move(opened);
  options_.kept = region_.get();
  return Ok();
}

Status ServerLives::Load() {
  if (save_.files) options_.join.saved = 0;
  const std::optional<SavedFile> file = std::exchange(save_.to_load, std::nullopt);
  if (region_ == nullptr) return Ok();
  BOOST_OUTCOME_TRYV(NameSets(file));
  if (!file || region_->last_life()) return Ok();
  const auto start = steady_clock::now();
  InMebibytes progress("loading");
  BOOST_OUTCOME_TRY(loaded, file->LoadInto(*region_, save_.salvage, std::ref(progress)));
  options_.loaded_set = file->header().set;
  // One from elsewhere is not where this server saves.
  const bool is_own = save_.files && file->path() == save_.files->Path(file->header().set);
  if (is_own) options_.join.saved = file->header().set;
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

Status ServerLives::NameSets(const std::optional<SavedFile>& file) {
  options_.join.sets.clear();
  if (file && !save_.load.empty()) {
    options_.join.sets = {file->header().set};
    return Ok();
  }
  if (!save_.files) return Ok();
  const std::optional<RegionLife>& left = region_->last_life();
  if (left) {
    BOOST_OUTCOME_TRYV(save_.files->Take(static_cast<ServerId>(left->header.server_id)));
  }
  BOOST_OUTCOME_TRY(files, save_.files->OpenAll());
  if (left && !files.empty()) options_.join.saved = files.front().header().set;
  // What a region holds of a store that was open, no file has.
  if (!left || !WasOpen(region_->record())) options_.join.sets = SetsOf(files);
  return Ok();
}

bool ServerLives::HasOtherSet() {
  if (options_.loaded_set == 0) return false;
  Result<std::optional<SavedFile>> file =
      FileToLoad(save_, options_.join.store, *options_.bootstrap);
  if (!file || !file.value()) return false;
  const uint64_t set = file.value()->header().set;
  if (set == std::exchange(options_.loaded_set, 0)) return false;
  LOG(INFO) << fmt::format("the store has gone back to set {:016x} meanwhile", set);
  LoadAnew(*std::move(file).value());
  return true;
}

void ServerLives::LoadAnew(SavedFile file) {
  options_.kept = nullptr;
  region_.reset();
  save_.is_anew = true;
  save_.to_load = std::move(file);
}

Status ServerLives::GoBack() {
  const Status stopped = server_->Stop();
  if (!stopped) LOG(WARNING) << stopped.error().message;
  server_.reset();
  is_to_go_back_ = false;
  BOOST_OUTCOME_TRY(file, FileToLoad(save_, options_.join.store, *options_.bootstrap));
  if (!file) {
    return MakeError(Code::kNotFound,
                     "the saved files of this server are gone: put them back, "
                     "and start it again");
  }
  LoadAnew(*std::move(file));
  return BeginFirstLife();
}

Status ServerLives::StartServer() {
  // A save that the record asks for when a life begins was asked of an earlier one.
  options_.on_record = [this, is_first = true, is_told = false](const StoreRecord& record,
                                                                const MemberRecord* own) mutable {
    if (std::exchange(is_first, false)) done_request_ = record.save;
    request_ = record.save;
    if (record.is_open()) was_open_ = true;
    if (HasNewRequest() && save_.on_request) save_.on_request();
    const bool is_to_stop = own != nullptr && own->stop;
    if (is_to_stop && !std::exchange(is_told, true) && on_stop_) on_stop_();
  };
  was_open_ = false;
  options_.on_goes_back = [this] {
    is_to_go_back_ = true;
    if (save_.on_request) save_.on_request();
  };
  BOOST_OUTCOME_TRY(started, MemoryServer::Start(options_));
  server_ = std::move(started);
  identity_ = server_->identity();
  options_.loaded_set = 0;
  // Its number is known only now.
  if (save_.files) {
    BOOST_OUTCOME_TRYV(save_.files->Take(identity_.server));
  }
  return Ok();
}

bool ServerLives::HasNewRequest() const {
  return save_.files && request_.load() != done_request_.load();
}

void ServerLives::StartAgain() {
  // A request to stop must not end this process before what it holds is saved.
  options_.join.is_to_stop = {};
  options_.join.sets.clear();
  for (Status started = StartServer(); !started; started = StartServer()) {
    LOG(ERROR) << "what this server holds is in this process alone, and it cannot serve: "
               << started.error().message << "; trying again";
    std::this_thread::sleep_for(kRetryInterval);
  }
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
  const SavedFiles& files = *save_.files;
  // All have the set that this server has saved last: it needs nothing from before that.
  const uint64_t last = options_.join.saved.value_or(0);
  if (last != 0 && HaveAllSaved(record, last)) files.RemoveOthers(last);
  // The file names the servers of its set.
  region_->NoteRecord(EncodeStoreRecord(record));
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
  const auto deadline = steady_clock::now() + kPatienceWithOthers;
  while (!HaveAllSaved(record, set)) {
    if (steady_clock::now() >= deadline || is_to_stop()) {
      return MakeError(Code::kContended,
                       "another server of " + Named(record.store, *options_.bootstrap) +
                           " has not saved in time: the files of before are kept");
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
  const Status saved = record ? AwaitOthers(record.value(), is_to_stop) : Status(record.error());
  StartAgain();
  return saved;
}

Status ServerLives::End() {
  Status stopped = StopServer();
  if (LeavesUnopened() || !save_.files) return stopped;
  const auto record = Save();
  if (record && HaveAllSaved(record.value(), *options_.join.saved)) {
    save_.files->RemoveOthers(*options_.join.saved);
  }
  if (record) return stopped;
  if (options_.region.empty()) StartAgain();
  return MakeError(record.error().code, "it cannot save: " + record.error().message);
}

bool ServerLives::LeavesUnopened() const {
  if (options_.join.sets.empty() || was_open_) return false;
  const auto before = LeaveUnopened(*options_.bootstrap, options_.join.store, identity_);
  const bool was_opened = before && !before.value().servers.empty() && before.value().is_open();
  if (!was_opened) LOG(INFO) << "the store was not open: the saved files have what it held";
  return !was_opened;
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
