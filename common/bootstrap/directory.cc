#include "common/bootstrap/directory.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <thread>

#include "common/unique_fd.h"
#include "proto/store_record.h"

namespace gossamer {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds kLockPollInterval{20};
constexpr milliseconds kChangePatience{5000};  // A change takes well under a millisecond.
// In a directory that a server has made: its time is when.
constexpr const char* kMadeFile = "made";

// Closing the file releases its lock.
Held HeldFile(UniqueFd file) { return std::make_shared<UniqueFd>(std::move(file)); }

Error Unusable(const std::string& directory, const std::string& what, int error) {
  std::string text = "cannot " + what + " the bootstrap directory " + directory + ": " +
                     std::strerror(error) + "; give --bootstrap=dir:PATH with ";
  text += error == EACCES || error == EPERM || error == EROFS
              ? fmt::format("a directory that user {} may write to", geteuid())
              : std::string("another one");
  return MakeError(Code::kNodeUnreachable, std::move(text));
}

// The directory of the files. Each operation opens the directory and works relative to the opened
// one, so that it cannot be swapped meanwhile, and a directory that was removed and recreated is
// found.
class Place {
 public:
  Place(std::string path, bool must_be_private)
      : path_(std::move(path)), must_be_private_(must_be_private) {}

  const std::string& path() const { return path_; }

  // nullopt if there is none.
  Result<std::optional<UniqueFd>> Open() const {
    // A sentence of its own for a path that is no directory: open() has several errors for it.
    struct stat named{};
    const int found = must_be_private_ ? lstat(path_.c_str(), &named) : stat(path_.c_str(), &named);
    if (found != 0 && errno == ENOENT) return std::optional<UniqueFd>();
    if (found != 0) return Unusable(path_, "use", errno);
    if (!S_ISDIR(named.st_mode)) return IsNoDirectory(S_ISLNK(named.st_mode));
    UniqueFd opened(open(path_.c_str(),
                         O_RDONLY | O_DIRECTORY | O_CLOEXEC | (must_be_private_ ? O_NOFOLLOW : 0)));
    if (opened.get() < 0 && errno == ENOENT) return std::optional<UniqueFd>();
    if (opened.get() < 0) return Unusable(path_, "open", errno);
    BOOST_OUTCOME_TRYV(CheckPrivate(opened));
    return std::optional<UniqueFd>(std::move(opened));
  }

  Result<UniqueFd> OpenOrMake() const {
    BOOST_OUTCOME_TRY(present, Open());
    if (present) return *std::move(present);
    BOOST_OUTCOME_TRYV(Make());
    BOOST_OUTCOME_TRY(made, Open());
    if (!made) return Unusable(path_, "open", ENOENT);
    return *std::move(made);
  }

 private:
  // Makes the directory with kMadeFile in it, in one step: under another name first. Another
  // process may be quicker.
  Status Make() const {
    std::error_code ignored;  // mkdtemp reports the error.
    std::filesystem::create_directories(std::filesystem::path(path_).parent_path(), ignored);
    std::string name = path_ + ".XXXXXX";
    if (mkdtemp(name.data()) == nullptr) return Unusable(path_, "make", errno);
    const std::string file = name + "/" + kMadeFile;
    const UniqueFd made(open(file.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    const int error = made.get() < 0 || rename(name.c_str(), path_.c_str()) != 0 ? errno : 0;
    if (error == 0) return Ok();
    unlink(file.c_str());
    rmdir(name.c_str());
    const bool is_there = error == EEXIST || error == ENOTEMPTY || error == ENOTDIR;
    return is_there ? Ok() : Status(Unusable(path_, "make", error));
  }

  Error IsNoDirectory(bool is_link) const {
    return MakeError(Code::kNodeUnreachable,
                     path_ +
                         (is_link ? " is a symbolic link, which anyone may have put there"
                                  : " is not a directory") +
                         "; remove it, or give --bootstrap=dir:PATH with another one");
  }

  Status CheckPrivate(const UniqueFd& opened) const {
    if (!must_be_private_) return Ok();
    struct stat info{};
    if (fstat(opened.get(), &info) != 0) return Unusable(path_, "examine", errno);
    if (info.st_uid == geteuid() && (info.st_mode & 077) == 0) return Ok();
    return MakeError(Code::kNodeUnreachable,
                     path_ +
                         " belongs to somebody else or is open to others; remove it, or give "
                         "--bootstrap=dir:PATH with a directory of your own");
  }

  const std::string path_;
  const bool must_be_private_;
};

std::string FileOf(const std::string& name) {
  return name + (IsNoteName(name) ? ".note" : ".store");
}

// All notes share one lock file: a file for each would stay when its note is removed.
std::string LockOf(const std::string& name) { return IsNoteName(name) ? "+.lock" : name + ".lock"; }

class DirectoryBootstrap final : public Bootstrap {
 public:
  explicit DirectoryBootstrap(Place place) : place_(std::move(place)) {}

  Result<std::optional<std::string>> Get(const std::string& name) override {
    BOOST_OUTCOME_TRY(CheckTextName(name));
    BOOST_OUTCOME_TRY(directory, place_.Open());
    if (!directory) return std::optional<std::string>();
    return Read(*directory, name);
  }

  Result<bool> CompareAndSwap(const std::string& name, const std::optional<std::string>& expected,
                              const std::optional<std::string>& desired) override {
    BOOST_OUTCOME_TRY(CheckTextName(name));
    if (!desired) {
      BOOST_OUTCOME_TRY(present, place_.Open());
      if (!present) return !expected;  // Create nothing only to remove something from it.
    }
    BOOST_OUTCOME_TRY(directory, place_.OpenOrMake());
    BOOST_OUTCOME_TRY(lock, Lock(directory, LockOf(name), kChangePatience));
    (void)lock;  // Held to the end.
    BOOST_OUTCOME_TRY(current, Read(directory, name));
    if (current != expected) return false;
    const std::string file = FileOf(name);
    if (desired) {
      BOOST_OUTCOME_TRY(Write(directory, name, *desired));
    } else if (current && unlinkat(directory.get(), file.c_str(), 0) != 0) {
      return Problem("remove", file);
    }
    fsync(directory.get());
    return true;
  }

  Result<Held> LockForJoin(const std::string& store, milliseconds patience) override {
    BOOST_OUTCOME_TRY(CheckStoreName(store));
    BOOST_OUTCOME_TRY(directory, place_.OpenOrMake());
    BOOST_OUTCOME_TRY(lock, Lock(directory, store + ".join", patience));
    return HeldFile(std::move(lock));
  }

  Result<Held> Announce(const std::string& store) override {
    BOOST_OUTCOME_TRY(CheckStoreName(store));
    BOOST_OUTCOME_TRY(directory, place_.OpenOrMake());
    // Only another process's MayHaveMembers can be in the way, for a moment.
    BOOST_OUTCOME_TRYV(Flock(directory, LOCK_SH, "", kChangePatience));
    return HeldFile(std::move(directory));
  }

  Result<bool> MayHaveMembers(const std::string& store) override {
    BOOST_OUTCOME_TRY(CheckStoreName(store));
    BOOST_OUTCOME_TRY(directory, place_.Open());
    // A removed directory cannot be distinguished from one that never existed. Nor can one that a
    // server has just made, until members have looked and announced themselves there.
    if (!directory || IsMadeAnew(*directory)) return true;
    return flock(directory->get(), LOCK_EX | LOCK_NB) != 0;
  }

  milliseconds republish_wait() const override { return 3 * kLookInterval; }

  std::string url() const override { return "dir:" + place_.path(); }

 private:
  // Whether a server has made the directory within the last republish_wait(). If that is still to
  // come, the clock was set back meanwhile: the time becomes now, so that the directory counts as
  // made anew for no longer than one that was made now.
  bool IsMadeAnew(const UniqueFd& directory) const {
    struct stat made{};
    if (fstatat(directory.get(), kMadeFile, &made, AT_SYMLINK_NOFOLLOW) != 0) return false;
    timespec now{};
    clock_gettime(CLOCK_REALTIME, &now);
    const auto since = std::chrono::seconds(now.tv_sec - made.st_mtim.tv_sec) +
                       std::chrono::nanoseconds(now.tv_nsec - made.st_mtim.tv_nsec);
    if (since < std::chrono::nanoseconds(0)) {
      utimensat(directory.get(), kMadeFile, nullptr, AT_SYMLINK_NOFOLLOW);
    }
    return since < republish_wait();
  }

  Error Problem(const char* verb, const std::string& file) const {
    const int error = errno;
    std::string text = std::string("cannot ") + verb + " " + place_.path() + "/" + file + ": " +
                       std::strerror(error);
    if (error == EACCES || error == EPERM || error == EROFS) {
      text += fmt::format("; give --bootstrap=dir:PATH with a directory that user {} may write to",
                          geteuid());
    } else if (error == ENOENT) {
      text += "; the bootstrap directory was removed meanwhile, try again";
    } else if (error == ENOSPC || error == EDQUOT) {
      text += "; free some space there";
    }
    return MakeError(Code::kNodeUnreachable, std::move(text));
  }

  // Polls flock, because a blocking flock could not be bounded.
  Result<UniqueFd> Lock(const UniqueFd& directory, const std::string& file, milliseconds patience) {
    UniqueFd lock(
        openat(directory.get(), file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (lock.get() < 0) return Problem("open", file);
    BOOST_OUTCOME_TRYV(Flock(lock, LOCK_EX, file, patience));
    return lock;
  }

  Status Flock(const UniqueFd& file, int operation, const std::string& name,
               milliseconds patience) const {
    const auto deadline = steady_clock::now() + patience;
    while (flock(file.get(), operation | LOCK_NB) != 0) {
      if (errno != EWOULDBLOCK && errno != EINTR) return Problem("lock", name);
      if (steady_clock::now() >= deadline) {
        return MakeError(Code::kContended,
                         fmt::format("another process has held {}/{} for {} ms; try again",
                                     place_.path(), name, patience.count()));
      }
      std::this_thread::sleep_for(kLockPollInterval);
    }
    return Ok();
  }

  Result<std::optional<std::string>> Read(const UniqueFd& directory,
                                          const std::string& name) const {
    const std::string file = FileOf(name);
    const UniqueFd in(openat(directory.get(), file.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
    if (in.get() < 0) {
      if (errno == ENOENT) return std::optional<std::string>();
      return Problem("read", file);
    }
    std::string text;
    char buffer[4096];
    while (text.size() <= kMaxStoreRecordBytes) {
      const ssize_t got = read(in.get(), buffer, sizeof buffer);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return Problem("read", file);
      if (got == 0) break;
      text.append(buffer, static_cast<size_t>(got));
    }
    return std::optional<std::string>(std::move(text));
  }

  // Requires (unchecked): the lock is held, so one name for the temporary file is enough.
  Status Write(const UniqueFd& directory, const std::string& name, const std::string& text) {
    const std::string temporary = name + ".new";
    const UniqueFd out(openat(directory.get(), temporary.c_str(),
                              O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (out.get() < 0) return Problem("write", temporary);
    for (size_t done = 0; done < text.size();) {
      const ssize_t put = write(out.get(), text.data() + done, text.size() - done);
      if (put < 0 && errno == EINTR) continue;
      if (put < 0) return Problem("write", temporary);
      done += static_cast<size_t>(put);
    }
    if (fsync(out.get()) != 0) return Problem("sync", temporary);
    if (renameat(directory.get(), temporary.c_str(), directory.get(), FileOf(name).c_str()) != 0) {
      return Problem("rename", temporary);
    }
    return Ok();
  }

  const Place place_;
};

}  // namespace

Result<std::unique_ptr<Bootstrap>> OpenDirectory(const std::string& path, bool must_be_private) {
  std::error_code error;
  const std::filesystem::path absolute = std::filesystem::absolute(path, error);
  const Place place(error ? path : absolute.lexically_normal().string(), must_be_private);
  BOOST_OUTCOME_TRYV(place.Open());  // Reports errors early.
  return std::unique_ptr<Bootstrap>(std::make_unique<DirectoryBootstrap>(place));
}

}  // namespace gossamer
