#include "common/service_manager.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string_view>
#include <system_error>

namespace gossamer {
namespace {

constexpr int kFirstDescriptor = 3;  // SD_LISTEN_FDS_START

Error CannotTell(const std::string& state, const std::string& why) {
  return MakeError(Code::kNodeUnreachable, "cannot tell the service manager " +
                                               state.substr(0, state.find('\n')) + ": " + why);
}

std::string_view Variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? std::string_view() : value;
}

std::optional<uint64_t> Number(std::string_view text) {
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() ? std::optional(number)
                                                                  : std::nullopt;
}

// The unit of this process, as arguments of systemctl: "x.service", or "--user 'x.service'".
std::string OwnUnit(const std::string& root) {
  constexpr std::string_view kSuffix = ".service";
  std::ifstream groups(root + "/proc/self/cgroup");
  // A line reads "NUMBER:CONTROLLERS:PATH"; in version 2 CONTROLLERS is empty.
  for (std::string line; std::getline(groups, line);) {
    const std::string_view behind =
        std::string_view(line).substr(std::min(line.find(':'), line.size()));
    const bool is_of_systemd = behind.starts_with("::") || behind.starts_with(":name=systemd:");
    const size_t end = line.rfind(kSuffix);
    if (!is_of_systemd || end == std::string::npos) continue;
    const size_t begin = line.rfind('/', end) + 1;
    const std::string unit = line.substr(begin, end - begin) + std::string(kSuffix);
    // No name of a unit has other characters; a shell gets this one.
    if (unit.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                               ":_.@\\-") != std::string::npos) {
      continue;
    }
    const bool is_of_user = line.substr(0, begin).find("/user@") != std::string::npos;
    return (is_of_user ? "--user '" : "'") + unit + "'";
  }
  return {};
}

}  // namespace

bool HasServiceManager() { return !Variable("NOTIFY_SOCKET").empty(); }

Status TellServiceManager(const std::string& state, int descriptor) {
  const std::string_view path = Variable("NOTIFY_SOCKET");
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty()) return CannotTell(state, "there is none");
  if (path.size() >= sizeof address.sun_path) return CannotTell(state, "its address is too long");
  std::memcpy(address.sun_path, path.data(), path.size());
  if (path[0] == '@') address.sun_path[0] = '\0';  // An abstract name, without a file.
  iovec text{const_cast<char*>(state.data()), state.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof descriptor)> rights{};
  msghdr message{};
  message.msg_name = &address;
  message.msg_namelen = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size());
  message.msg_iov = &text;
  message.msg_iovlen = 1;
  if (descriptor >= 0) {
    message.msg_control = rights.data();
    message.msg_controllen = rights.size();
    cmsghdr* const header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof descriptor);
    std::memcpy(CMSG_DATA(header), &descriptor, sizeof descriptor);
  }
  const UniqueFd socket(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!socket || ::sendmsg(socket.get(), &message, MSG_NOSIGNAL) < 0) {
    return CannotTell(state, std::generic_category().message(errno));
  }
  return Ok();
}

Status AwaitServiceManager(std::chrono::milliseconds patience) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
    return CannotTell("BARRIER=1", std::generic_category().message(errno));
  }
  const UniqueFd own(ends[0]);
  {
    const UniqueFd its(ends[1]);
    BOOST_OUTCOME_TRYV(TellServiceManager("BARRIER=1", its.get()));
  }
  // It closes the other end when it gets there.
  pollfd closed{own.get(), 0, 0};
  if (::poll(&closed, 1, static_cast<int>(patience.count())) == 1) return Ok();
  return MakeError(Code::kNodeUnreachable, "the service manager has not answered within " +
                                               std::to_string(patience.count()) + " ms");
}

UniqueFd KeptDescriptor(const std::string& name) {
  const std::string_view names = Variable("LISTEN_FDNAMES");
  const uint64_t count = Number(Variable("LISTEN_FDS")).value_or(0);
  if (Number(Variable("LISTEN_PID")) != static_cast<uint64_t>(::getpid())) return UniqueFd();
  size_t begin = 0;
  for (uint64_t i = 0; i < count && begin <= names.size(); ++i) {
    const size_t end = std::min(names.find(':', begin), names.size());
    if (names.substr(begin, end - begin) == name) {
      return UniqueFd(::fcntl(kFirstDescriptor + static_cast<int>(i), F_DUPFD_CLOEXEC, 0));
    }
    begin = end + 1;
  }
  return UniqueFd();
}

// systemd says so by a variable from version 254 on.
std::optional<uint64_t> MostKeptDescriptors(const std::string& root) {
  if (const std::optional<uint64_t> most = Number(Variable("FDSTORE"))) return most;
  const std::string unit = OwnUnit(root);
  if (unit.empty()) return std::nullopt;
  const std::string command =
      "systemctl show --property=FileDescriptorStoreMax --value " + unit + " 2>/dev/null";
  std::FILE* const output = ::popen(command.c_str(), "re");
  if (output == nullptr) return std::nullopt;
  std::array<char, 32> line{};
  const bool has_line = std::fgets(line.data(), line.size(), output) != nullptr;
  ::pclose(output);
  const std::string_view text = line.data();
  return has_line ? Number(text.substr(0, text.find('\n'))) : std::nullopt;
}

}  // namespace gossamer
