#include "memory/saved_files.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cinttypes>
#include <cstdio>
#include <filesystem>
#include <set>
#include <string_view>
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
constexpr const char* kNoteFormat =
    "store %16" SCNx64 " incarnation %16" SCNx64 " complete %16" SCNx64;

std::string FilePrefix(const std::string& store, ServerId server) {
  return fmt::format("{}-{}.", store, ToInteger(server));
}

std::string NameOf(uint64_t set, const char* ending) {
  return fmt::format("{:016x}{}", set, ending);
}

// Whether the name is `prefix`, a set, and `ending`. The name of another store may begin with the
// prefix.
bool IsFile(std::string_view name, std::string_view prefix, std::string_view ending) {
  constexpr size_t kSetDigits = 16;
  if (!name.starts_with(prefix) || !name.ends_with(ending)) return false;
  if (name.size() != prefix.size() + kSetDigits + ending.size()) return false;
  return std::ranges::all_of(name.substr(prefix.size(), kSetDigits), [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
  });
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
  const std::string begin = store_ + "-";
  std::error_code failure;
  for (const auto& entry : fs::directory_iterator(directory_, failure)) {
    const std::string name = entry.path().filename();
    if (!name.starts_with(begin)) continue;
    uint16_t server = 0;
    const auto [end, error] =
        std::from_chars(name.data() + begin.size(), name.data() + name.size(), server);
    if (error != std::errc()) continue;
    if (IsFile(name, FilePrefix(store_, static_cast<ServerId>(server)), kSavedEnding)) {
      servers.insert(server);
    }
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
  const Note note = ReadNote();
  const auto is_awaited = [&](const SavedFile& file) {
    return record && record->store_id != note.store_id &&
           record->AwaitedSetOf(*server_) == file.header().set;
  };
  const auto is_of_last_life = [&](const SavedFile& file) { return note.IsLast(file); };
  const auto is_of_store = [&](const SavedFile& file) {
    return record && record->store_id == file.header().region.store_id;
  };
  const auto is_of_entry = [&](const SavedFile& file) {
    const bool may_be = note.incarnation == 0 && is_of_store(file);
    const MemberRecord* const entry = may_be ? record->Find(*server_) : nullptr;
    return entry != nullptr && entry->incarnation == file.header().region.incarnation;
  };
  // Where some were killed, others may have a later file than these.
  const auto is_of_all = [&](const SavedFile& file) {
    return is_of_store(file) && std::ranges::all_of(record->servers, [&](const auto& member) {
             return member.server == *server_ || !member.saved ||
                    *member.saved == file.header().set;
           });
  };
  const auto is_complete = [&](const SavedFile& file) {
    return note.complete == file.header().set;
  };
  auto chosen = std::ranges::find_if(files, is_awaited);
  if (chosen == files.end()) chosen = std::ranges::find_if(files, is_of_last_life);
  if (chosen == files.end()) chosen = std::ranges::find_if(files, is_of_entry);
  if (chosen == files.end()) chosen = std::ranges::find_if(files, is_of_all);
  if (chosen == files.end()) chosen = std::ranges::find_if(files, is_complete);
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
  Note note = ReadNote();
  note.complete = set;
  // Without the note, nothing tells that the set is complete, and it is looked at once more.
  if (!WriteNote(note)) return;
  const auto files = OpenAll();
  if (!files) return;
  const auto kept = std::ranges::find(files.value(), Path(set), &SavedFile::path);
  if (kept == files.value().end()) return;
  for (const SavedFile& file : files.value()) {
    const bool is_earlier = file.header().sequence < kept->header().sequence;
    if (is_earlier) ::unlink(file.path().c_str());
  }
  for (const std::string& name : Names(Prefix(), kPartEnding)) {
    ::unlink((directory_ + "/" + name).c_str());
  }
}

size_t SavedFiles::SetAside(bool of_all) const {
  size_t count = 0;
  for (const uint16_t number : Servers()) {
    const auto server = static_cast<ServerId>(number);
    SavedFiles others(directory_, store_);
    const bool may = server == *server_ || (of_all && others.Take(server));
    if (!may) continue;
    for (const std::string& name : Names(FilePrefix(store_, server), kSavedEnding)) {
      const std::string path = directory_ + "/" + name;
      ::rename(path.c_str(), (path + kSetAsideEnding).c_str());
      ++count;
    }
  }
  return count;
}

SavedFiles::Note SavedFiles::ReadNote() const {
  std::array<char, 128> text{};
  Note note;
  if (!lock_ || ::pread(lock_.get(), text.data(), text.size() - 1, 0) <= 0) return note;
  const int found =
      std::sscanf(text.data(), kNoteFormat, &note.store_id, &note.incarnation, &note.complete);
  return found == 3 ? note : Note();
}

// Of one length, in one piece.
Status SavedFiles::WriteNote(const Note& note) const {
  const std::string text = fmt::format("store {:016x} incarnation {:016x} complete {:016x}\n",
                                       note.store_id, note.incarnation, note.complete);
  const bool is_written =
      ::pwrite(lock_.get(), text.data(), text.size(), 0) == static_cast<ssize_t>(text.size()) &&
      ::fdatasync(lock_.get()) == 0;
  if (is_written) return Ok();
  return MakeError(Code::kNoResources,
                   directory_ + "/" + Prefix() + "lock cannot be written: " + ErrnoReason());
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
    if (IsFile(name, prefix, ending)) names.push_back(name);
  }
  std::ranges::sort(names);
  return names;
}

}  // namespace gossamer
