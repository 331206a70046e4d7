#include "memory/region_file.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <system_error>
#include <utility>

#include "common/errno_reason.h"
#include "common/file_lock.h"
#include "common/process.h"
#include "memory/touch_memory.h"

namespace gossamer {
namespace {

// Of queue pairs, each of which has 8 KiB.
constexpr uint64_t kPagesBytes = uint64_t{16} << 20;
// A process that is killed gives back its memory for some time: 0.2 s for each GiB at worst.
constexpr std::chrono::seconds kEndPatience{30};
constexpr const char* kOrAnother =
    "; give another --region, or remove the file (with --save, the server goes on with what it has "
    "saved then), or give --create=new for a new store in its place";

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

}  // namespace

RegionFile::RegionFile(RegionFileWish wish)
    : wish_(std::move(wish)), place_(RegionPlace::Of(wish_.path)) {}

Result<std::unique_ptr<RegionFile>> RegionFile::Open(const RegionFileWish& wish) {
  std::unique_ptr<RegionFile> file(new RegionFile(wish));
  if (!wish.is_new) {
    BOOST_OUTCOME_TRYV(file->OpenExisting());
  }
  if (!file->file_) {
    BOOST_OUTCOME_TRYV(file->Create());
  }
  BOOST_OUTCOME_TRYV(file->TakePages());
  if (!file->is_published_) file->WriteHeader();
  return file;
}

Result<std::optional<RegionHeader>> RegionFile::LastHeader(const std::string& path) {
  RegionFileWish wish;
  wish.path = path;
  RegionFile file(std::move(wish));
  BOOST_OUTCOME_TRYV(file.OpenExisting());
  if (!file.file_) return std::nullopt;
  return file.last_life()->header;
}

Status RegionFile::OpenExisting() {
  BOOST_OUTCOME_TRY(file, place_->Find());
  file_ = std::move(file);
  if (!file_) return Ok();
  is_published_ = true;
  file_bytes_ = static_cast<uint64_t>(Facts(file_.get()).st_size);
  BOOST_OUTCOME_TRYV(Lock());
  BOOST_OUTCOME_TRYV(ReadHeader());
  BOOST_OUTCOME_TRYV(CheckSizes());
  BOOST_OUTCOME_TRYV(Map());
  return CheckLastLife();
}

Status RegionFile::Lock() {
  const std::string file = fmt::format("/proc/self/fd/{}", file_.get());
  lock_ = UniqueFd(::open(file.c_str(), O_RDWR | O_CLOEXEC));
  if (lock_ && LockFile(lock_.get())) return Ok();
  const bool is_taken = lock_ && errno == EWOULDBLOCK;
  return CannotUse(Code::kInvalidArgument,
                   is_taken ? "another memory server uses it: a region has one server; stop that "
                              "one, or give another --region"
                            : "it cannot be locked: " + ErrnoReason());
}

Status RegionFile::Create() {
  header_ = {kRegionFileMagic,   kRegionFileVersion, 0,
             wish_.region_bytes, wish_.map_bytes,    kPagesBytes};
  header_.checksum = HeaderChecksum(header_);
  file_bytes_ = FileBytes(header_);
  BOOST_OUTCOME_TRY(file, place_->Create(file_bytes_, wish_.huge_pages));
  file_ = std::move(file);
  BOOST_OUTCOME_TRYV(Lock());
  return Map();
}

void RegionFile::WriteHeader() {
  std::memcpy(memory().region.data() + kRegionFileHeaderAt, &header_, sizeof header_);
}

// The header of the region itself may be torn: it is written in each life.
Status RegionFile::ReadHeader() {
  uint64_t magic = 0;
  const ssize_t has_magic = ::pread(file_.get(), &magic, sizeof magic, 0);
  const ssize_t has_header = ::pread(file_.get(), &header_, sizeof header_, kRegionFileHeaderAt);
  if (has_magic != sizeof magic || magic != kRegionMagic || has_header != sizeof header_ ||
      header_.magic != kRegionFileMagic) {
    return CannotUse(Code::kInvalidArgument, std::string("it is no region") + kOrAnother);
  }
  if (header_.version != kRegionFileVersion) {
    return CannotUse(Code::kUnsupported,
                     fmt::format("it has version {} of region files, this build has {}: start the "
                                 "build that made it, write the data to a file with `gossamer "
                                 "dump`, and load that into a new store",
                                 header_.version, kRegionFileVersion));
  }
  if (header_.checksum != HeaderChecksum(header_)) {
    return CannotUse(Code::kCorruption,
                     std::string("its header does not match its checksum") + kOrAnother);
  }
  return Ok();
}

Status RegionFile::CheckSizes() const {
  if (file_bytes_ != FileBytes(header_)) {
    return CannotUse(Code::kCorruption,
                     fmt::format("the file has {} bytes, and its header says {}: a part of it is "
                                 "missing{}",
                                 file_bytes_, FileBytes(header_), kOrAnother));
  }
  if (wish_.region_bytes == 0) return Ok();
  if (header_.region_bytes != wish_.region_bytes) {
    return CannotUse(Code::kInvalidArgument,
                     fmt::format("it has a region of {0} bytes, and --memory says {1}: leave "
                                 "--memory out, or give --memory={0}",
                                 header_.region_bytes, wish_.region_bytes));
  }
  if (header_.map_bytes != wish_.map_bytes) {
    return CannotUse(
        Code::kInvalidArgument,
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
  const std::optional<RegionLife>& last = last_life();
  if (!last) {
    return CannotUse(
        Code::kCorruption,
        std::string("no life of a memory server on it matches its checksum") + kOrAnother);
  }
  std::string problem;
  if (!ParseRegionHeader(std::as_bytes(std::span(&last->header, 1)), problem,
                         kFirstFormatVersion)) {
    return CannotUse(Code::kUnsupported,
                     problem + "; go on with the programs that wrote it" + kOrAnother);
  }
  const std::string process(last->process.data(),
                            ::strnlen(last->process.data(), last->process.size()));
  if (LookUpProcess(process) == ProcessState::kOtherBoot && last->was_closed == 0) {
    return CannotUse(Code::kCorruption,
                     std::string("this is another machine, or it was restarted, while the region "
                                 "was in use: what it holds may be torn") +
                         kOrAnother);
  }
  // This process has given it up: it had the lock.
  if (process != OwnProcessIdentity() && !AwaitEnd(process, kEndPatience)) {
    return CannotUse(Code::kInvalidArgument,
                     "process " + ProcessIdOf(process) +
                         " has used it and has not ended yet; end it, and start this one again");
  }
  return Ok();
}

Status RegionFile::TakePages() {
  const uint64_t from = StateAt(header_);
  const uint64_t bytes = PagesAt(header_) - from;
  const Status taken = TouchMemory(mapping_.span().subspan(from, bytes), {});
  if (!taken) return CannotUse(taken.error().code, taken.error().message);
  return Ok();
}

uint64_t RegionFile::bytes_in_place() const {
  // A mapping of huge pages reserves them.
  if (HasHugePages(file_.get())) return header_.region_bytes;
  const uint64_t in_place = static_cast<uint64_t>(Facts(file_.get()).st_blocks) * 512;
  return in_place - std::min(in_place, PagesAt(header_) - StateAt(header_));
}

Status RegionFile::Publish() {
  if (is_published_) return Ok();
  BOOST_OUTCOME_TRYV(place_->Publish(file_.get(), wish_.is_new));
  is_published_ = true;
  return Ok();
}

Status RegionFile::Close() {
  if (!life() || !is_published_) return Ok();
  if (::msync(mapping_.data(), mapping_.bytes(), MS_SYNC) != 0) {
    return CannotUse(Code::kNoResources, "it cannot be written back: " + ErrnoReason());
  }
  RegionLife closed = *life();
  ++closed.sequence;
  closed.was_closed = 1;
  WriteLife(closed);
  ::msync(parts().state.data(), parts().state.size(), MS_SYNC);
  return Ok();
}

}  // namespace gossamer
