#include "common/bootstrap/bootstrap.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <ranges>

#include "common/bootstrap/directory.h"
#include "common/bootstrap/memcached.h"
#include "proto/store_record.h"

namespace gossamer {
namespace {

constexpr std::string_view kDirectoryScheme = "dir:";
constexpr std::string_view kMemcachedScheme = "memcached://";
constexpr uint16_t kMemcachedPort = 11211;

Error BadUrl(const std::string& url, const std::string& why) {
  return MakeError(Code::kInvalidArgument,
                   "bootstrap '" + url + "' " + why +
                       "; give --bootstrap=memcached://HOST:PORT or --bootstrap=dir:PATH");
}

Result<std::unique_ptr<Bootstrap>> OpenMemcachedUrl(const std::string& url) {
  std::string_view host = std::string_view(url).substr(kMemcachedScheme.size());
  uint16_t port = kMemcachedPort;
  const size_t bracket = host.rfind(']');
  const size_t colon = host.rfind(':');
  if (colon != std::string_view::npos && (bracket == std::string_view::npos || colon > bracket)) {
    const std::string_view digits = host.substr(colon + 1);
    const auto [end, error] = std::from_chars(digits.begin(), digits.end(), port);
    if (error != std::errc() || end != digits.end() || port == 0) {
      return BadUrl(url, "has no port between 1 and 65535 behind the last ':'");
    }
    host = host.substr(0, colon);
  }
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  if (host.empty() || host.find_first_of("/ ,") != std::string_view::npos) {
    return BadUrl(url, "names no host");
  }
  return OpenMemcached(std::string(host), port);
}

}  // namespace

Result<std::unique_ptr<Bootstrap>> OpenBootstrap(const std::string& url) {
  if (url.empty())
    return OpenDirectory(DefaultBootstrapUrl().substr(kDirectoryScheme.size()), true);
  if (url.starts_with(kMemcachedScheme)) return OpenMemcachedUrl(url);
  if (url.starts_with(kDirectoryScheme)) {
    if (url.size() == kDirectoryScheme.size()) return BadUrl(url, "names no directory");
    return OpenDirectory(url.substr(kDirectoryScheme.size()), false);
  }
  return BadUrl(url, "is of no known kind");
}

std::string DefaultBootstrapUrl() {
  const char* runtime = std::getenv("XDG_RUNTIME_DIR");
  if (runtime != nullptr && runtime[0] == '/') return "dir:" + std::string(runtime) + "/gossamer";
  return fmt::format("dir:/tmp/gossamer-{}", geteuid());
}

Status CheckStoreName(const std::string& store) {
  if (IsValidStoreName(store)) return Ok();
  return MakeError(Code::kInvalidArgument,
                   "store name '" + store + "': use 1 to 64 of the characters A-Z a-z 0-9 . _ -");
}

std::string NoteName(const std::string& kind, const std::string& name) { return kind + "+" + name; }

bool IsNoteName(const std::string& name) {
  if (name.find('+') == std::string::npos) return false;
  return std::ranges::all_of(std::views::split(name, '+'), [](auto part) {
    return IsValidStoreName(std::string_view(part.begin(), part.end()));
  });
}

Status CheckTextName(const std::string& name) {
  return IsNoteName(name) ? Ok() : CheckStoreName(name);
}

}  // namespace gossamer
