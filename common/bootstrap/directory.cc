#include "common/bootstrap/directory.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <thread>

#include "proto/store_record.h"

namespace gossamer {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds kPollInterval{20};
constexpr milliseconds kChangePatience{5000};  // A change takes well under a millisecond.

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&&) = delete;
  ~Descriptor() {
    if (fd_ >= 0) close(fd_);
  }
  int get() const { return fd_; }

 private:
  int fd_;
};

class FileLock final : public JoinLock {
 public:
  explicit FileLock(Descriptor file) : file_(std::move(file)) {}

 private:
  Descriptor file_;  // Closing it releases the lock.
};

class DirectoryBootstrap final : public Bootstrap {
 public:
  explicit DirectoryBootstrap(std::string path) : path_(std::move(path)) {}

  Result<std::optional<std::string>> Get(const std::string& store) override {
    BOOST_OUTCOME_TRY(CheckStoreName(store));
    return Read(store);
  }

  Result<bool> CompareAndSwap(const std::string& store, const std::optional<std::string>& expected,
                              const std::optional<std::string>& desired) override {
    BOOST_OUTCOME_TRY(CheckStoreName(store));
    BOOST_OUTCOME_TRY(lock, Lock(store, ".lock", kChangePatience));
    (void)lock;  // Held to the end.
    BOOST_OUTCOME_TRY(current, Read(store));
    if (current != expected) return false;
    if (desired) {
      BOOST_OUTCOME_TRY(Write(store, *desired));
    } else if (current && unlink(File(store, ".store").c_str()) != 0) {
      return Problem("remove", File(store, ".store"));
    }
    SyncDirectory();
    return true;
  }

  Result<std::unique_ptr<JoinLock>> LockForJoin(const std::string& store,
                                                milliseconds patience) override {
    BOOST_OUTCOME_TRY(CheckStoreName(store));
    BOOST_OUTCOME_TRY(lock, Lock(store, ".join", patience));
    return std::unique_ptr<JoinLock>(std::make_unique<FileLock>(std::move(lock)));
  }

  std::string url() const override { return "dir:" + path_; }

 private:
  std::string File(const std::string& store, const char* suffix) const {
    return path_ + "/" + store + suffix;
  }

  Error Problem(const char* verb, const std::string& file) const {
    const int error = errno;
    std::string text = std::string("cannot ") + verb + " " + file + ": " + std::strerror(error);
    if (error == EACCES || error == EPERM || error == EROFS) {
      text += "; give --bootstrap=dir:PATH with a directory that user " +
              std::to_string(geteuid()) + " may write to";
    } else if (error == ENOENT) {
      text += "; the bootstrap directory was removed meanwhile";
    } else if (error == ENOSPC || error == EDQUOT) {
      text += "; free some space there";
    }
    return MakeError(Code::kNodeUnreachable, std::move(text));
  }

  // flock polls, as a blocking one could not be bounded.
  Result<Descriptor> Lock(const std::string& store, const char* suffix, milliseconds patience) {
    const std::string file = File(store, suffix);
    Descriptor lock(open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (lock.get() < 0) return Problem("open", file);
    const auto deadline = steady_clock::now() + patience;
    while (flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
      if (errno != EWOULDBLOCK && errno != EINTR) return Problem("lock", file);
      if (steady_clock::now() >= deadline) {
        return MakeError(Code::kContended, "another process has held " + file + " for " +
                                               std::to_string(patience.count()) + " ms; try again");
      }
      std::this_thread::sleep_for(kPollInterval);
    }
    return lock;
  }

  Result<std::optional<std::string>> Read(const std::string& store) const {
    const std::string file = File(store, ".store");
    const Descriptor in(open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
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

  // Under the lock, so that one name for the temporary file is enough.
  Status Write(const std::string& store, const std::string& text) {
    const std::string temporary = File(store, ".new");
    const Descriptor out(
        open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (out.get() < 0) return Problem("write", temporary);
    for (size_t done = 0; done < text.size();) {
      const ssize_t put = write(out.get(), text.data() + done, text.size() - done);
      if (put < 0 && errno == EINTR) continue;
      if (put < 0) return Problem("write", temporary);
      done += static_cast<size_t>(put);
    }
    if (fsync(out.get()) != 0) return Problem("sync", temporary);
    if (rename(temporary.c_str(), File(store, ".store").c_str()) != 0)
      return Problem("rename", temporary);
    return Ok();
  }

  void SyncDirectory() const {
    const Descriptor directory(open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (directory.get() >= 0) fsync(directory.get());
  }

  const std::string path_;
};

}  // namespace

Result<std::unique_ptr<Bootstrap>> OpenDirectory(const std::string& path, bool must_be_private) {
  std::error_code error;
  const std::filesystem::path absolute = std::filesystem::absolute(path, error);
  const std::string name = error ? path : absolute.lexically_normal().string();
  if (absolute.has_parent_path())
    std::filesystem::create_directories(absolute.parent_path(), error);
  if (mkdir(name.c_str(), 0700) != 0 && errno != EEXIST) {
    return MakeError(Code::kNodeUnreachable, "cannot make the bootstrap directory " + name + ": " +
                                                 std::strerror(errno) +
                                                 "; give --bootstrap=dir:PATH with another one");
  }
  struct stat info{};
  if (stat(name.c_str(), &info) != 0 || !S_ISDIR(info.st_mode)) {
    return MakeError(Code::kNodeUnreachable,
                     name + " is not a directory; give --bootstrap=dir:PATH with another one");
  }
  if (must_be_private && (info.st_uid != geteuid() || (info.st_mode & 077) != 0)) {
    return MakeError(Code::kNodeUnreachable,
                     name +
                         " belongs to somebody else or is open to others; remove it, or give "
                         "--bootstrap=dir:PATH with a directory of your own");
  }
  return std::unique_ptr<Bootstrap>(std::make_unique<DirectoryBootstrap>(name));
}

}  // namespace gossamer
