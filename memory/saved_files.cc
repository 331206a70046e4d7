#include "memory/saved_files.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <filesystem>
#include <set>
#include <system_error>
#include <thread>

#include "common/errno_reason.h"
#include "common/file_lock.h"

namespace gossamer {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSavedEnding = ".saved";
constexpr const char* kPartEnding = ".part";
constexpr const char* kSetAsideEnding = ".before";

std::string FilePrefix(const std::string& store, ServerId server) {
  return fmt::format("{}-{}.", store, ToInteger(server));
}

std::string NameOf(uint64_t set, const char* ending) {
  return fmt::format("{:016x}{}", set, ending);
}

Error CannotUse(const std::string& directory, const std::string& why) {
  return MakeError(Code::kInvalidArgument, "--save=" + directory + ": " + why);
}

}  // namespace

Result<SavedFiles> SavedFiles::Open(const std::string& given, const std::string& store) {
  std::error_code error;
  const std::string directory = fs::absolute(given, error).lexically_normal();
  if (!fs::is_directory(directory, error)) {
    return CannotUse(directory, "it is no directory; create it, or give another one");
  }
  if (::access(directory.c_str(), R_OK | W_OK | X_OK) != 0) {
    return CannotUse(directory, "files cannot be made there: " + ErrnoReason());
  }
  const auto longest = static_cast<ServerId>(kMaxMemoryServers - 1);
  if (IsValidToken(directory + "/" + FilePrefix(store, longest) +
                   NameOf(UINT64_MAX, kSavedEnding))) {
    return SavedFiles(directory, store);
  }
  return CannotUse(directory,
                   fmt::format("a store's record names the files: give a path of printable ASCII "
                               "characters, without blanks, so that theirs have at most {}",
                               kMaxTokenBytes));
}

std::set<uint16_t> SavedFiles::Servers() const {
  std::set<uint16_t> servers;
  for (const std::string& name : Names(store_ + "-", kSavedEnding)) {
    const char* const from = name.data() + store_.size() + 1;
    uint16_t server = 0;
    const auto [end, error] = std::from_chars(from, name.data() + name.size(), server);
    if (error == std::errc() && *end == '.') servers.insert(server);
  }
  return servers;
}

SavedFiles::Taken SavedFiles::TakeAny() {
  constexpr std::chrono::milliseconds kPollInterval{20};
  const auto deadline = std::chrono::steady_clock::now() + kLockPatience;
  for (;;) {
    const std::set<uint16_t> servers = Servers();
    if (servers.empty()) return Taken::kThereAreNone;
    for (const uint16_t server : servers) {
      if (Take(static_cast<ServerId>(server))) return Taken::kYes;
    }
    if (std::chrono::steady_clock::now() >= deadline) return Taken::kOthersHaveThem;
    std::this_thread::sleep_for(kPollInterval);
  }
}

Status SavedFiles::Take(ServerId server) {
  if (server_ == server) return Ok();
  const std::string path = directory_ + "/" + FilePrefix(store_, server) + "lock";
  UniqueFd lock(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!lock || ::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
    return CannotUse(directory_, lock && errno == EWOULDBLOCK
                                     ? fmt::format("another memory server has the files of server "
                                                   "{} of store '{}'",
                                                   ToInteger(server), store_)
                                     : path + " cannot be locked: " + ErrnoReason());
  }
  lock_ = std::move(lock);
  server_ = server;
  return Ok();
}

Result<std::vector<SavedFile>> SavedFiles::OpenAll() const {
  std::vector<SavedFile> files;
  for (const std::string& name : Names(Prefix(), kSavedEnding)) {
    BOOST_OUTCOME_TRY(file, SavedFile::Open(directory_ + "/" + name));
    files.push_back(std::move(file));
  }
  std::ranges::sort(files, std::ranges::greater(),
                    [](const SavedFile& file) { return file.header().sequence; });
  return files;
}

Result<std::optional<SavedFile>> SavedFiles::Choose(
    const std::optional<StoreRecord>& record) const {
  BOOST_OUTCOME_TRY(files, OpenAll());
  if (files.empty()) return std::nullopt;
  const auto is_awaited = [&](const SavedFile& file) {
    return record && record->AwaitedSetOf(*server_) == file.header().set;
  };
  const auto is_of_store = [&](const SavedFile& file) {
    return record && record->store_id == file.header().region.store_id;
  };
  const auto is_last = [&](const SavedFile& file) {
    const MemberRecord* const entry = is_of_store(file) ? record->Find(*server_) : nullptr;
    return entry != nullptr && entry->incarnation == file.header().region.incarnation;
  };
  // Where some were killed, others may have a later file than these.
  const auto is_of_all = [&](const SavedFile& file) {
    return is_of_store(file) && std::ranges::all_of(record->servers, [&](const auto& member) {
             return member.server == *server_ || !member.saved ||
                    *member.saved == file.header().set;
           });
  };
  auto chosen = std::ranges::find_if(files, is_awaited);
  if (chosen == files.end()) chosen = std::ranges::find_if(files, is_last);
  if (chosen == files.end()) chosen = std::ranges::find_if(files, is_of_all);
  if (chosen == files.end()) chosen = files.begin();
  return std::optional(std::move(*chosen));
}

Result<std::optional<SavedFile>> SavedFiles::FindLaterThan(const SavedFile& other) const {
  BOOST_OUTCOME_TRY(files, OpenAll());
  if (files.empty() || files.front().header().sequence <= other.header().sequence) {
    return std::nullopt;
  }
  return std::optional(std::move(files.front()));
}

uint64_t SavedFiles::NextSequence() const {
  uint64_t highest = 0;
  for (const std::string& name : Names(Prefix(), kSavedEnding)) {
    const auto file = SavedFile::Open(directory_ + "/" + name);
    if (file) highest = std::max(highest, file.value().header().sequence);
  }
  return highest + 1;
}

Status SavedFiles::Publish(uint64_t set) const {
  const UniqueFd directory(::open(directory_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (::rename(PartPath(set).c_str(), Path(set).c_str()) == 0 && directory &&
      ::fsync(directory.get()) == 0) {
    return Ok();
  }
  return MakeError(Code::kNoResources, Path(set) + " cannot get its name: " + ErrnoReason());
}

void SavedFiles::RemoveOthers(uint64_t set) const {
  const std::string kept = fs::path(Path(set)).filename();
  for (const char* ending : {kSavedEnding, kPartEnding}) {
    for (const std::string& name : Names(Prefix(), ending)) {
      if (name != kept) ::unlink((directory_ + "/" + name).c_str());
    }
  }
}

size_t SavedFiles::SetAside() const {
  const std::vector<std::string> names = Names(Prefix(), kSavedEnding);
  for (const std::string& name : names) {
    const std::string path = directory_ + "/" + name;
    ::rename(path.c_str(), (path + kSetAsideEnding).c_str());
  }
  return names.size();
}

std::string SavedFiles::Prefix() const { return FilePrefix(store_, *server_); }

std::string SavedFiles::PartPath(uint64_t set) const {
  return directory_ + "/" + Prefix() + NameOf(set, kPartEnding);
}

std::string SavedFiles::Path(uint64_t set) const {
  return directory_ + "/" + Prefix() + NameOf(set, kSavedEnding);
}

std::vector<std::string> SavedFiles::Names(const std::string& prefix,
                                           const std::string& ending) const {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(directory_, error)) {
    const std::string name = entry.path().filename();
    if (name.starts_with(prefix) && name.ends_with(ending)) names.push_back(name);
  }
  std::ranges::sort(names);
  return names;
}

}  // namespace gossamer
