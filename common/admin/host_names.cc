#include "common/admin/host_names.h"

#include <arpa/inet.h>

#include <algorithm>
#include <boost/algorithm/string/predicate.hpp>
#include <boost/asio/ip/host_name.hpp>

namespace gossamer {
namespace {

bool IsNumeric(int family, std::string_view text) {
  in6_addr address;  // the larger of the two
  return inet_pton(family, std::string(text).c_str(), &address) == 1;
}

}  // namespace

bool IsServedHost(std::string_view host, const std::vector<std::string>& names) {
  // Browsers always name one.
  if (host.empty()) return true;
  if (host.front() == '[') {
    const size_t end = host.find(']');
    return end != std::string_view::npos && IsNumeric(AF_INET6, host.substr(1, end - 1));
  }
  host = host.substr(0, host.rfind(':'));
  if (host.ends_with('.')) host.remove_suffix(1);
  boost::system::error_code error;
  const std::string own_name = boost::asio::ip::host_name(error);  // empty after an error
  if (IsNumeric(AF_INET, host) || boost::iequals(host, "localhost") ||
      boost::iequals(host, own_name))
    return true;
  return std::ranges::any_of(
      names, [host](const std::string& name) { return boost::iequals(host, name); });
}

std::vector<std::string> SplitAtCommas(std::string_view text) {
  std::vector<std::string> names;
  while (!text.empty()) {
    const size_t comma = std::min(text.find(','), text.size());
    if (comma != 0) names.emplace_back(text.substr(0, comma));
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  return names;
}

}  // namespace gossamer
