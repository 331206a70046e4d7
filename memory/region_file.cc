#include "memory/region_file.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <glog/logging.h>
#include <linux/magic.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>

#include "common/process.h"
#include "common/random_id.h"
#include "common/text/human.h"
#include "memory/touch_memory.h"

namespace gossamer {
namespace {

// Of queue pairs, each of which has 8 KiB.
constexpr uint64_t kPagesBytes = uint64_t{16} << 20;
// A process that is killed gives back its memory for some time: 0.2 s for each GiB at worst.
constexpr std::chrono::seconds kEndPatience{30};
constexpr const char* kOrAnother =
    "; give another --region, remove the file, or give --create=new for a new store in its place";

std::string Reason() { return std::generic_category().message(errno); }

Error CannotUse(const std::string& path, Code code, const std::string& why) {
  return MakeError(code, (path.empty() ? "memory that outlives a server" : "--region=" + path) +
                             ": " + why);
}

// The pages of a file on hugetlbfs, or of another one.
bool HasHugePages(int file) {
  struct statfs info{};
  return ::fstatfs(file, &info) == 0 && info.f_type == HUGETLBFS_MAGIC;
}

// Zeros for one that is not open.
struct stat Facts(int file) {
  struct stat facts{};
  ::fstat(file, &facts);
  return facts;
}

bool IsFile(int file) { return S_ISREG(Facts(file).st_mode); }

// Whether `name` is "FILE." and 16 hexadecimal digits.
bool IsUnpublishedName(std::string_view name, std::string_view file) {
  constexpr size_t kDigits = 16;
  return name.size() == file.size() + 1 + kDigits && name.starts_with(file) &&
         name[file.size()] == '.' &&
         name.find_first_not_of("0123456789abcdef", file.size() + 1) == std::string_view::npos;
}

}  // namespace

Result<std::unique_ptr<RegionFile>> RegionFile::Open(const RegionFileWish& wish) {
  std::unique_ptr<RegionFile> file(new RegionFile(wish));
  bool exists = false;
  if (!wish.path.empty()) file->RemoveUnpublished();
  if (!wish.path.empty() && !wish.is_new) {
    BOOST_OUTCOME_TRY(found, file->OpenExisting());
    exists = found;
  }
  if (!exists) {
    BOOST_OUTCOME_TRYV(file->Create());
    BOOST_OUTCOME_TRYV(file->Map());
  }
  BOOST_OUTCOME_TRYV(file->TakePages());
  if (!exists)
    std::memcpy(file->memory().region.data() + kRegionFileHeaderAt, &file->header_,
                sizeof file->header_);
  return file;
}

Result<std::optional<RegionHeader>> RegionFile::LastHeader(const std::string& path) {
  RegionFileWish wish;
  wish.path = path;
  RegionFile file(std::move(wish));
  BOOST_OUTCOME_TRY(exists, file.OpenExisting());
  if (!exists) return std::nullopt;
  return file.last_life()->header;
}

Result<bool> RegionFile::OpenExisting() {
  BOOST_OUTCOME_TRY(exists, Take());
  if (!exists) return false;
  BOOST_OUTCOME_TRYV(ReadHeader());
  BOOST_OUTCOME_TRYV(CheckSizes());
  BOOST_OUTCOME_TRYV(Map());
  BOOST_OUTCOME_TRYV(CheckLastLife());
  return true;
}

Result<bool> RegionFile::Take() {
  const std::string& path = wish_.path;
  file_ = UniqueFd(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (!file_ && errno == ENOENT) return false;
  if (!file_) return CannotUse(path, Code::kInvalidArgument, "it cannot be opened: " + Reason());
  if (!IsFile(file_.get())) {
    return CannotUse(path, Code::kInvalidArgument, "it is no file; give the path of one");
  }
  BOOST_OUTCOME_TRYV(Lock());
  file_bytes_ = static_cast<uint64_t>(Facts(file_.get()).st_size);
  return true;
}

Status RegionFile::Lock() {
  const std::string file = fmt::format("/proc/self/fd/{}", file_.get());
  lock_ = UniqueFd(::open(file.c_str(), O_RDWR | O_CLOEXEC));
  if (lock_ && ::flock(lock_.get(), LOCK_EX | LOCK_NB) == 0) return Ok();
  const bool is_taken = lock_ && errno == EWOULDBLOCK;
  return CannotUse(wish_.path, Code::kInvalidArgument,
                   is_taken ? "another memory server uses it: a region has one server; stop that "
                              "one, or give another --region"
                            : "it cannot be locked: " + Reason());
}

void RegionFile::RemoveUnpublished() const {
  const std::filesystem::path path = wish_.path;
  std::error_code error;
  std::filesystem::directory_iterator entries(path.parent_path(), error);
  // One that is being made has a lock, but for a moment: see Create.
  for (; !error && entries != std::filesystem::directory_iterator(); entries.increment(error)) {
    const std::string unpublished = entries->path();
    if (!IsUnpublishedName(entries->path().filename().string(), path.filename().string())) continue;
    const UniqueFd file(::open(unpublished.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
    if (!file || !IsFile(file.get()) || ::flock(file.get(), LOCK_EX | LOCK_NB) != 0) continue;
    if (::unlink(unpublished.c_str()) != 0) continue;
    LOG(INFO) << "removed " << unpublished << ", a region that was never served";
  }
}

Status RegionFile::Create() {
  const std::string& path = wish_.path;
  header_ = {kRegionFileMagic,   kRegionFileVersion, 0,
             wish_.region_bytes, wish_.map_bytes,    kPagesBytes};
  header_.checksum = HeaderChecksum(header_);
  file_bytes_ = FileBytes(header_);
  if (path.empty()) {
    file_ = UniqueFd(::memfd_create("gossamer-region", MFD_CLOEXEC));
    return SetSize();
  }
  unpublished_ = fmt::format("{}.{:016x}", path, RandomId());
  file_ = UniqueFd(
      ::open(unpublished_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file_) {
    const std::string why = Reason();
    unpublished_.clear();
    return CannotUse(path, Code::kInvalidArgument, "a file cannot be created there: " + why);
  }
  struct statfs info{};
  if (::fstatfs(file_.get(), &info) == 0) {
    const uint64_t room =
        static_cast<uint64_t>(info.f_bavail) * static_cast<uint64_t>(info.f_bsize);
    if (room < file_bytes_) {
      return CannotUse(path, Code::kNoResources,
                       fmt::format("the file system has {} left, and the file needs {}: make room, "
                                   "give less --memory, or another --region",
                                   HumanBytes(room), HumanBytes(file_bytes_)));
    }
  }
  BOOST_OUTCOME_TRYV(Lock());
  if (Facts(file_.get()).st_nlink == 0) {
    return CannotUse(path, Code::kInvalidArgument,
                     "another memory server has started on it at the same time: a region has one "
                     "server");
  }
  return SetSize();
}

Status RegionFile::SetSize() {
  if (::ftruncate(file_.get(), static_cast<off_t>(file_bytes_)) != 0) {
    return CannotUse(wish_.path, Code::kNoResources,
                     fmt::format("a file of {}: {}", HumanBytes(file_bytes_), Reason()));
  }
  return Ok();
}

// The header of the region itself may be torn: it is written in each life.
Status RegionFile::ReadHeader() {
  const std::string& path = wish_.path;
  uint64_t magic = 0;
  const ssize_t has_magic = ::pread(file_.get(), &magic, sizeof magic, 0);
  const ssize_t has_header = ::pread(file_.get(), &header_, sizeof header_, kRegionFileHeaderAt);
  if (has_magic != sizeof magic || magic != kRegionMagic || has_header != sizeof header_ ||
      header_.magic != kRegionFileMagic) {
    return CannotUse(path, Code::kInvalidArgument, std::string("it is no region") + kOrAnother);
  }
  if (header_.version != kRegionFileVersion) {
    return CannotUse(path, Code::kUnsupported,
                     fmt::format("it has version {} of region files, this build has {}: start the "
                                 "build that made it, write the data to a file with `gossamer "
                                 "dump`, and load that into a new store",
                                 header_.version, kRegionFileVersion));
  }
  if (header_.checksum != HeaderChecksum(header_)) {
    return CannotUse(path, Code::kCorruption,
                     std::string("its header does not match its checksum") + kOrAnother);
  }
  return Ok();
}

Status RegionFile::CheckSizes() const {
  const std::string& path = wish_.path;
  if (file_bytes_ != FileBytes(header_)) {
    return CannotUse(path, Code::kCorruption,
                     fmt::format("the file has {} bytes, and its header says {}: a part of it is "
                                 "missing{}",
                                 file_bytes_, FileBytes(header_), kOrAnother));
  }
  if (wish_.region_bytes == 0) return Ok();
  if (header_.region_bytes != wish_.region_bytes) {
    return CannotUse(path, Code::kInvalidArgument,
                     fmt::format("it has a region of {0} bytes, and --memory says {1}: leave "
                                 "--memory out, or give --memory={0}",
                                 header_.region_bytes, wish_.region_bytes));
  }
  if (header_.map_bytes != wish_.map_bytes) {
    return CannotUse(
        path, Code::kInvalidArgument,
        std::string("its map of the memory has another size than this build's") + kOrAnother);
  }
  return Ok();
}

Status RegionFile::Map() {
  BOOST_OUTCOME_TRY(mapping, MapShared(file_.get(), 0, file_bytes_));
  mapping_ = std::move(mapping);
  const bool is_huge = HasHugePages(file_.get());
  if (!is_huge && wish_.huge_pages) {
    ::madvise(mapping_.data(), header_.region_bytes, MADV_HUGEPAGE);
  }
  Parts parts;
  parts.memory.region = mapping_.span().first(header_.region_bytes);
  parts.memory.description = is_huge ? "2 MB pages" : "4 KB pages";
  if (!wish_.path.empty()) parts.memory.description += ", " + wish_.path;
  parts.memory.file = file_.get();
  parts.memory.queue_pair_pages_at = PagesAt(header_);
  parts.memory.queue_pair_pages = mapping_.span().subspan(PagesAt(header_), header_.pages_bytes);
  parts.state = mapping_.span().subspan(StateAt(header_), kStateBytes);
  parts.map = mapping_.span().subspan(MapAt(header_), header_.map_bytes);
  Use(std::move(parts));
  return Ok();
}

Status RegionFile::CheckLastLife() {
  const std::string& path = wish_.path;
  const std::optional<RegionLife>& last = last_life();
  if (!last) {
    return CannotUse(
        path, Code::kCorruption,
        std::string("no life of a memory server on it matches its checksum") + kOrAnother);
  }
  std::string problem;
  if (!ParseRegionHeader(std::as_bytes(std::span(&last->header, 1)), problem)) {
    return CannotUse(path, Code::kUnsupported, problem + kOrAnother);
  }
  const std::string process(last->process.data(),
                            ::strnlen(last->process.data(), last->process.size()));
  if (LookUpProcess(process) == ProcessState::kOtherBoot && last->was_closed == 0) {
    return CannotUse(path, Code::kCorruption,
                     std::string("this is another machine, or it was restarted, while the region "
                                 "was in use: what it holds may be torn") +
                         kOrAnother);
  }
  // This process has given it up: it had the lock.
  if (process != OwnProcessIdentity() && !AwaitEnd(process, kEndPatience)) {
    return CannotUse(path, Code::kInvalidArgument,
                     "process " + ProcessIdOf(process) +
                         " has used it and has not ended yet; end it, and start this one again");
  }
  return Ok();
}

Status RegionFile::TakePages() {
  const uint64_t from = StateAt(header_);
  const uint64_t bytes = PagesAt(header_) - from;
  const Status taken = TouchMemory(mapping_.span().subspan(from, bytes), {});
  if (!taken) return CannotUse(wish_.path, taken.error().code, taken.error().message);
  return Ok();
}

uint64_t RegionFile::bytes_in_place() const {
  const uint64_t in_place = static_cast<uint64_t>(Facts(file_.get()).st_blocks) * 512;
  return in_place - std::min(in_place, PagesAt(header_) - StateAt(header_));
}

Status RegionFile::Publish() {
  if (unpublished_.empty()) return Ok();
  const std::string& path = wish_.path;
  const int renamed = wish_.is_new ? ::rename(unpublished_.c_str(), path.c_str())
                                   : ::renameat2(AT_FDCWD, unpublished_.c_str(), AT_FDCWD,
                                                 path.c_str(), RENAME_NOREPLACE);
  if (renamed != 0) {
    return CannotUse(path, Code::kInvalidArgument,
                     "the new file cannot get this name: " + Reason());
  }
  unpublished_.clear();
  return Ok();
}

Status RegionFile::Close() {
  if (!life() || !unpublished_.empty()) return Ok();
  if (::msync(mapping_.data(), mapping_.bytes(), MS_SYNC) != 0) {
    return CannotUse(wish_.path, Code::kNoResources, "it cannot be written back: " + Reason());
  }
  RegionLife closed = *life();
  ++closed.sequence;
  closed.was_closed = 1;
  WriteLife(closed);
  ::msync(parts().state.data(), parts().state.size(), MS_SYNC);
  return Ok();
}

RegionFile::~RegionFile() {
  if (!unpublished_.empty()) ::unlink(unpublished_.c_str());
}

}  // namespace gossamer
