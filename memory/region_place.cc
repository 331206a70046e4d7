#include "memory/region_place.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <glog/logging.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include "common/errno_reason.h"
#include "common/fabric/shm/handles.h"
#include "common/huge_pages.h"
#include "common/random_id.h"
#include "common/service_manager.h"
#include "common/text/human.h"
#include "proto/store_record.h"

namespace gossamer {
namespace {

// ---- At a path

// Whether `name` is "FILE." and 16 hexadecimal digits.
bool IsUnpublishedName(std::string_view name, std::string_view file) {
  constexpr size_t kDigits = 16;
  return name.size() == file.size() + 1 + kDigits && name.starts_with(file) &&
         name[file.size()] == '.' &&
         name.find_first_not_of("0123456789abcdef", file.size() + 1) == std::string_view::npos;
}

bool IsFile(int file) {
  struct stat facts{};
  return ::fstat(file, &facts) == 0 && S_ISREG(facts.st_mode);
}

class PathPlace final : public RegionPlace {
 public:
  explicit PathPlace(std::string path) : path_(std::move(path)) {}
  PathPlace(const PathPlace&) = delete;
  PathPlace& operator=(const PathPlace&) = delete;
  ~PathPlace() override {
    if (!unpublished_.empty()) ::unlink(unpublished_.c_str());
  }

  Result<UniqueFd> Find() override {
    UniqueFd file(::open(path_.c_str(), O_RDWR | O_CLOEXEC));
    if (!file && errno == ENOENT) return file;
    if (!file) return CannotUse(Code::kInvalidArgument, "it cannot be opened: " + ErrnoReason());
    if (!IsFile(file.get())) {
      return CannotUse(Code::kInvalidArgument, "it is no file; give the path of one");
    }
    // Whoever can write to it can change what clients read. Others can make files in /dev/shm.
    struct stat facts{};
    if (::fstat(file.get(), &facts) == 0 && facts.st_uid != ::geteuid()) {
      return CannotUse(Code::kInvalidArgument,
                       fmt::format("it belongs to user {}, and this server runs as user {}: change "
                                   "its owner, or give another path",
                                   facts.st_uid, ::geteuid()));
    }
    return file;
  }

  // Where a file system has huge pages, its files have them.
  Result<UniqueFd> Create(uint64_t bytes, bool /*huge_pages*/) override {
    unpublished_ = fmt::format("{}.{:016x}", path_, RandomId());
    UniqueFd file(
        ::open(unpublished_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!file) {
      const std::string why = ErrnoReason();
      unpublished_.clear();
      return CannotUse(Code::kInvalidArgument, "a file cannot be created there: " + why);
    }
    struct statfs info{};
    if (::fstatfs(file.get(), &info) == 0) {
      const uint64_t room =
          static_cast<uint64_t>(info.f_bavail) * static_cast<uint64_t>(info.f_bsize);
      if (room < bytes) {
        return CannotUse(Code::kNoResources,
                         fmt::format("the file system has {} left, and the file needs {}: make "
                                     "room, give less --memory, or another --region",
                                     HumanBytes(room), HumanBytes(bytes)));
      }
    }
    if (::ftruncate(file.get(), static_cast<off_t>(bytes)) != 0) {
      return CannotUse(Code::kNoResources,
                       fmt::format("a file of {}: {}", HumanBytes(bytes), ErrnoReason()));
    }
    return file;
  }

  Status Publish(int /*file*/, bool replaces) override {
    const int renamed = replaces ? ::rename(unpublished_.c_str(), path_.c_str())
                                 : ::renameat2(AT_FDCWD, unpublished_.c_str(), AT_FDCWD,
                                               path_.c_str(), RENAME_NOREPLACE);
    if (renamed != 0) {
      return CannotUse(Code::kInvalidArgument,
                       "the new file cannot get this name: " + ErrnoReason());
    }
    unpublished_.clear();
    return Ok();
  }

  // Removes files that were to get the name, of processes that have ended. Others have a lock.
  void RemoveUnpublished() const {
    const std::filesystem::path path = path_;
    std::error_code error;
    std::filesystem::directory_iterator entries(path.parent_path(), error);
    for (; !error && entries != std::filesystem::directory_iterator(); entries.increment(error)) {
      const std::filesystem::path& entry = entries->path();
      if (!IsUnpublishedName(entry.filename().string(), path.filename().string())) continue;
      const UniqueFd file(::open(entry.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
      if (!file || !IsFile(file.get()) || ::flock(file.get(), LOCK_EX | LOCK_NB) != 0) continue;
      if (::unlink(entry.c_str()) != 0) continue;
      LOG(INFO) << "removed " << entry.string() << ", a region that was never served";
    }
  }

 private:
  Error CannotUse(Code code, const std::string& why) const {
    return CannotUseRegion(path_, code, why);
  }

  const std::string path_;
  std::string unpublished_;  // the name of a new file until it is published
};

// ---- In memory

constexpr const char* kDescriptorName = "gossamer-region";

Result<UniqueFd> CreateUnnamed(uint64_t bytes, bool huge_pages) {
  if (huge_pages) {
    Result<UniqueFd> file = shm::CreateMemfd(kDescriptorName, bytes, true);
    // The first mapping reserves the pages of the file.
    if (file && MapShared(file.value().get(), 0, bytes)) return file;
  }
  return shm::CreateMemfd(kDescriptorName, bytes, false);
}

class NoPlace final : public RegionPlace {
 public:
  Result<UniqueFd> Find() override { return UniqueFd(); }
  Result<UniqueFd> Create(uint64_t bytes, bool huge_pages) override {
    return CreateUnnamed(bytes, huge_pages);
  }
  Status Publish(int /*file*/, bool /*replaces*/) override { return Ok(); }
};

// ---- With systemd

constexpr std::chrono::seconds kPatience{10};

class SystemdPlace final : public RegionPlace {
 public:
  Result<UniqueFd> Find() override {
    BOOST_OUTCOME_TRYV(CheckStarted());
    return KeptDescriptor(kDescriptorName);
  }

  Result<UniqueFd> Create(uint64_t bytes, bool huge_pages) override {
    BOOST_OUTCOME_TRYV(CheckStarted());
    const std::optional<uint64_t> most = MostKeptDescriptors();
    if (most == uint64_t{0}) {
      return CannotUse(Code::kInvalidArgument,
                       "systemd keeps no file descriptors of this service: set "
                       "FileDescriptorStoreMax=1 in its unit");
    }
    if (!most) {
      LOG(WARNING) << "it cannot be seen whether systemd keeps file descriptors of this service: "
                   << "without FileDescriptorStoreMax=1 in its unit, the memory ends with it";
    }
    LOG(INFO) << "systemd has no memory of this service: this is new memory";
    return CreateUnnamed(bytes, huge_pages);
  }

  Status Publish(int file, bool replaces) override {
    const std::string name = fmt::format("FDNAME={}", kDescriptorName);
    if (replaces) {
      BOOST_OUTCOME_TRYV(Tell("FDSTOREREMOVE=1\n" + name));
    }
    BOOST_OUTCOME_TRYV(Tell("FDSTORE=1\n" + name, file));
    // It takes nothing from a process that has ended.
    const Status taken = AwaitServiceManager(kPatience);
    return taken ? Ok() : Status(CannotUse(taken.error().code, taken.error().message));
  }

 private:
  static Status CheckStarted() {
    if (HasServiceManager()) return Ok();
    return CannotUse(
        Code::kInvalidArgument,
        "systemd has not started this process: it keeps the memory of a service with Type=notify "
        "and FileDescriptorStoreMax=1, and from version 254 on also while that is stopped, with "
        "FileDescriptorStorePreserve=yes; give --region=PATH to keep it in a file");
  }
  static Error CannotUse(Code code, const std::string& why) {
    return CannotUseRegion(std::string(kKeptBySystemd), code, why);
  }
  static Status Tell(const std::string& state, int descriptor = -1) {
    const Status told = TellServiceManager(state, descriptor);
    return told ? Ok() : Status(CannotUse(told.error().code, told.error().message));
  }
};

}  // namespace

Error CannotUseRegion(const std::string& region, Code code, const std::string& why) {
  return MakeError(code, (region.empty() ? "memory" : "--region=" + region) + ": " + why);
}

std::unique_ptr<RegionPlace> RegionPlace::Of(const std::string& region) {
  if (region.empty()) return std::make_unique<NoPlace>();
  if (region == kKeptBySystemd) return std::make_unique<SystemdPlace>();
  auto place = std::make_unique<PathPlace>(region);
  place->RemoveUnpublished();
  return place;
}

}  // namespace gossamer
