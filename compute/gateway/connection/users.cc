#include "compute/gateway/connection/users.h"

#include <openssl/crypto.h>
#include <openssl/sha.h>

#include <sstream>

#include "common/text/text_file.h"
#include "compute/gateway/protocol/words.h"

namespace gossamer::gateway {
namespace {

constexpr std::string_view kHash = "sha256:";

Error Wrong(std::string sentence) { return MakeError(Code::kInvalidArgument, std::move(sentence)); }

std::string_view WithoutBlanks(std::string_view text) {
  while (!text.empty() && IsBlank(text.front())) text.remove_prefix(1);
  while (!text.empty() && IsBlank(text.back())) text.remove_suffix(1);
  return text;
}

}  // namespace

std::vector<std::string> Users::names() const {
  std::vector<std::string> names;
  for (const auto& [name, digest] : users_) names.push_back(name);
  if (names.empty()) names.emplace_back(kDefaultUser);
  return names;
}

Users::Digest Users::DigestOf(std::string_view password) {
  Digest digest;
  SHA256(reinterpret_cast<const unsigned char*>(password.data()), password.size(), digest.data());
  return digest;
}

Status Users::AddDigest(const std::string& name, const Digest& digest) {
  if (digest == DigestOf("")) return Wrong("user " + name + " has an empty password: give it one");
  if (users_.emplace(name, digest).second) return Ok();
  return Wrong("user " + name + " has two passwords: leave one of them out");
}

Status Users::Add(const std::string& name, std::string_view password) {
  if (password.size() > kMostPasswordBytes) {
    return Wrong("the password of user " + name + " is longer than " +
                 std::to_string(kMostPasswordBytes) + " bytes: give a shorter one");
  }
  return AddDigest(name, DigestOf(password));
}

Status Users::AddLine(std::string_view line) {
  const size_t name_bytes = std::min(line.find_first_of(" \t"), line.size());
  const std::string name(line.substr(0, name_bytes));
  const std::string_view password = WithoutBlanks(line.substr(name_bytes));
  if (!password.starts_with(kHash)) return Add(name, password);
  const std::string hex(password.substr(kHash.size()));
  Digest digest;
  size_t bytes = 0;
  const bool is_hex =
      hex.size() == 2 * digest.size() &&
      OPENSSL_hexstr2buf_ex(digest.data(), digest.size(), &bytes, hex.c_str(), '\0') == 1;
  if (!is_hex || bytes != digest.size()) {
    return Wrong("give user " + name + " 64 hexadecimal digits behind sha256:");
  }
  return AddDigest(name, digest);
}

Status Users::AddFile(const std::string& path) {
  BOOST_OUTCOME_TRY(file, ReadTextFile(path));
  BOOST_OUTCOME_TRYV(CheckOnlyOwnerWrites(file, path));
  const size_t before = users_.size();
  std::istringstream lines(file.text);
  std::string line;
  for (size_t number = 1; std::getline(lines, line); ++number) {
    const std::string_view words = WithoutBlanks(line);
    if (words.empty() || words.front() == '#') continue;
    const Status added = AddLine(words);
    if (!added) {
      return Wrong(path + " line " + std::to_string(number) + ": " + added.error().message);
    }
  }
  if (users_.size() != before) return Ok();
  return Wrong(path + " has no users: give each a line with a name and a password");
}

bool Users::IsRight(std::string_view name, std::string_view password) const {
  if (users_.empty()) return name == kDefaultUser;
  if (password.size() > kMostPasswordBytes) return false;
  static constexpr Digest kNobody{};
  const auto found = users_.find(name);
  const bool is_there = found != users_.end();
  const Digest given = DigestOf(password);
  const Digest& wanted = is_there ? found->second : kNobody;
  return CRYPTO_memcmp(given.data(), wanted.data(), given.size()) == 0 && is_there;
}

}  // namespace gossamer::gateway
