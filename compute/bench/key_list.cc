#include "compute/bench/key_list.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <cerrno>
#include <cstring>
#include <functional>
#include <span>
#include <utility>

#include "common/random.h"
#include "common/text/progress.h"
#include "common/unique_fd.h"
#include "proto/store_parameters.h"

namespace gossamer::bench {
namespace {

constexpr uint64_t kLinesBetweenUpdates = 1 << 16;

Error Wrong(const std::string& sentence) { return MakeError(Code::kInvalidArgument, sentence); }

Error CannotRead(const std::string& path, int error) {
  return Wrong("cannot read " + path + ": " + std::strerror(error));
}

}  // namespace

Result<KeyList> KeyList::Read(const KeyListOptions& options) {
  const UniqueFd file(open(options.path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) return CannotRead(options.path, errno);
  KeyList list;
  list.path_ = options.path;
  BOOST_OUTCOME_TRYV(list.ReadLines(file.get(), options));
  if (list.lines_.empty()) return Wrong(options.path + " is empty: give one key on each line");
  BOOST_OUTCOME_TRYV(list.CheckDistinct(options));
  return list;
}

Status KeyList::ReadLines(int file, const KeyListOptions& options) {
  constexpr size_t kChunkBytes = 1 << 20;
  Progress progress({.verb = "reading", .unit = "keys", .total = options.most_lines});
  uint64_t line = 0;  // where the line that is being read begins
  const auto is_done = [&] { return options.most_lines != 0 && size() == options.most_lines; };
  while (!is_done()) {
    const size_t before = text_.size();
    text_.resize(before + kChunkBytes);
    const ssize_t got = read(file, text_.data() + before, kChunkBytes);
    const int error = errno;
    text_.resize(before + static_cast<size_t>(std::max<ssize_t>(got, 0)));
    if (got < 0 && error == EINTR) continue;
    if (got < 0) return CannotRead(options.path, error);
    if (got == 0) return line == before ? Ok() : AddLine(line, before - line, options);
    for (size_t end = 0; !is_done() && (end = text_.find('\n', std::max<size_t>(line, before))) !=
                                           std::string::npos;
         line = end + 1) {
      BOOST_OUTCOME_TRYV(AddLine(line, end - line, options));
      if (size() % kLinesBetweenUpdates == 0) progress.Update(size());
    }
    // Do not read the rest of a line that is too long.
    if (text_.size() - line > options.most_bytes && !is_done()) {
      BOOST_OUTCOME_TRYV(AddLine(line, text_.size() - line, options));
    }
  }
  return Ok();
}

Status KeyList::AddLine(uint64_t at, uint64_t length, const KeyListOptions& options) {
  static_assert(kMaxKeyBytes <= kMaxLength);
  const auto where = [&] { return fmt::format("line {} of {}", size() + 1, options.path); };
  if (length == 0) return Wrong(where() + " is empty: give one key on each line");
  if (length > options.most_bytes) {
    return Wrong(fmt::format("{} is too long for a key: give at most {} bytes", where(),
                             options.most_bytes));
  }
  lines_.push_back(at << kLengthBits | length);
  longest_ = std::max(longest_, static_cast<uint32_t>(length));
  bytes_ += length;
  return Ok();
}

// By a hash table of line numbers, half full at most.
Status KeyList::CheckDistinct(const KeyListOptions& options) const {
  Progress progress({.verb = "comparing", .unit = "keys", .total = size()});
  std::vector<uint64_t> table(std::bit_ceil(2 * size()));  // 1 for the first line; 0: free
  const std::hash<std::string_view> hash;
  for (uint64_t id = 0; id < size(); ++id) {
    uint64_t slot = hash(line(id)) & (table.size() - 1);
    for (; table[slot] != 0; slot = (slot + 1) & (table.size() - 1)) {
      if (line(table[slot] - 1) != line(id)) continue;
      return Wrong(fmt::format("line {} of {} is the same as line {}: give each key once", id + 1,
                               options.path, table[slot]));
    }
    table[slot] = id + 1;
    if (id % kLinesBetweenUpdates == 0) progress.Update(id);
  }
  return Ok();
}

void KeyList::Shuffle(uint64_t records) {
  assert(records <= size());
  Random random(records);
  const std::span<uint64_t> all(lines_);
  gossamer::Shuffle(all.first(records), random);
  gossamer::Shuffle(all.subspan(records), random);
}

}  // namespace gossamer::bench
