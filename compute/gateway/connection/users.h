// Users: the names and passwords with which clients may log in.
//
// Without users, clients need no password: all of them are the user `default`, as in Redis.
// Passwords are kept as their SHA-256 digests, so that neither a core file nor a metric shows one
// that was given as a digest.
//
// Thread-safety: const functions from any thread.
#pragma once

#include <array>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "common/status.h"

namespace gossamer::gateway {

inline constexpr std::string_view kDefaultUser = "default";

class Users {
 public:
  // Longer passwords are wrong without a look at them, so that a guess costs about a microsecond at
  // most.
  static constexpr size_t kMostPasswordBytes = 512;

  bool empty() const { return users_.empty(); }
  // In alphabetical order; of no users, `default`.
  std::vector<std::string> names() const;

  // Errors: InvalidArgument, a sentence, if there is such a user already, or the password is empty
  // or too long.
  Status Add(const std::string& name, std::string_view password);
  // Adds the users of a file: in each line a name and, behind blanks, a password up to the end of
  // the line, or "sha256:" and the 64 hexadecimal digits of its digest. Lines that begin with '#'
  // and empty lines are left out.
  // Errors: InvalidArgument, a sentence, if the file cannot be read, others may write to it, a line
  // is wrong, or it has no user.
  Status AddFile(const std::string& path);

  // Whether `password` is that of the user. Takes as long for every guess of one length, also of a
  // name that is not there.
  bool IsRight(std::string_view name, std::string_view password) const;

 private:
  using Digest = std::array<unsigned char, 32>;
  static Digest DigestOf(std::string_view password);
  Status AddLine(std::string_view line);
  Status AddDigest(const std::string& name, const Digest& digest);

  std::map<std::string, Digest, std::less<>> users_;
};

}  // namespace gossamer::gateway
