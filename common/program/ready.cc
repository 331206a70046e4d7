#include "common/program/ready.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <glog/logging.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <iostream>

#include "common/program/standard_streams.h"
#include "common/service_manager.h"

namespace gossamer {
namespace {

Error CannotWrite(int ready_fd, int error) {
  return MakeError(Code::kInvalidArgument,
                   fmt::format("cannot write to --ready_fd={}: {}; give a descriptor that is open",
                               ready_fd, std::strerror(error)));
}

Status WriteReady(int ready_fd) {
  if (ready_fd < 0) return Ok();
  constexpr char kText[] = "READY\n";
  constexpr auto kBytes = static_cast<ssize_t>(sizeof kText - 1);
  if (write(ready_fd, kText, kBytes) != kBytes) return CannotWrite(ready_fd, errno);
  if (ready_fd > STDERR_FILENO) close(ready_fd);
  return Ok();
}

}  // namespace

Status CheckReadyFd(int ready_fd) {
  if (ready_fd == -1) return Ok();
  if (ready_fd < -1) {
    return MakeError(Code::kInvalidArgument,
                     "--ready_fd: give a descriptor that is open, or -1 for none");
  }
  const int flags = fcntl(ready_fd, F_GETFL);
  if (flags < 0) return CannotWrite(ready_fd, errno);
  if ((flags & O_ACCMODE) == O_RDONLY) return CannotWrite(ready_fd, EBADF);
  return Ok();
}

Status AnnounceReady(std::string_view line, int ready_fd) {
  std::cout << line << '\n';
  if (const Status said = FlushOutput(std::cout); !said) {
    LOG(WARNING) << "ready, but " << said.error().message;
  }
  BOOST_OUTCOME_TRYV(WriteReady(ready_fd));
  NotifyServiceManager("READY=1");
  return Ok();
}

void NotifyServiceManager(const std::string& state) {
  if (!HasServiceManager()) return;
  const Status told = TellServiceManager(state);
  if (!told) LOG(WARNING) << told.error().message;
}

}  // namespace gossamer
