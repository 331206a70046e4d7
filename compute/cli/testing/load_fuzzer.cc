// Fuzzes files for `load`. The input is such a file.
//
// Wherever reads end, the file has the same lines. Any bytes, written as `dump` writes them, load
// as the same key and value. A load that skips bad lines stores the good ones. A load that ends at
// each bad line, and is resumed where its report says, stores the same.
#include <glog/logging.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "common/testing/fuzz_bytes.h"
#include "common/text/escape.h"
#include "common/unique_fd.h"
#include "compute/cli/line_reader.h"
#include "compute/cli/load.h"
#include "compute/cli/load_line.h"
#include "compute/testing/fake_store.h"

namespace gossamer::cli {
namespace {

constexpr size_t kMaxLine = 24;     // so that short inputs have longer ones
constexpr size_t kMostPieces = 24;  // more may not fit into a socket's buffer

struct Line {
  std::string text;
  bool is_too_long = false;
  bool is_terminated = true;

  bool operator==(const Line&) const = default;
};

std::vector<Line> Split(std::string_view text) {
  std::vector<Line> lines;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    const bool is_too_long = line.size() > kMaxLine;
    lines.push_back({std::string(is_too_long ? "" : line), is_too_long, end != text.npos});
    text.remove_prefix(end == text.npos ? text.size() : end + 1);
  }
  return lines;
}

// Each read gets one piece: sockets of this type keep messages apart.
std::vector<Line> ReadInPieces(std::string_view text) {
  int sockets[2];
  PCHECK(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, sockets) == 0);
  const UniqueFd reading(sockets[0]);
  UniqueFd writing(sockets[1]);
  std::mt19937_64 random(HashOf(text));
  std::vector<size_t> ends(random() % kMostPieces);
  for (size_t& end : ends) end = random() % (text.size() + 1);
  ends.push_back(text.size());
  std::ranges::sort(ends);
  size_t sent = 0;
  for (const size_t end : ends) {
    if (end == sent) continue;  // an empty message would be the end
    const std::string_view piece = text.substr(sent, end - sent);
    PCHECK(send(writing.get(), piece.data(), piece.size(), MSG_DONTWAIT) ==
           static_cast<ssize_t>(piece.size()));
    sent = end;
  }
  writing = UniqueFd();

  LineReader reader(reading.get(), kMaxLine);
  std::vector<Line> lines;
  for (;;) {
    const LineReader::Next next = reader.Advance();
    if (next == LineReader::Next::kEnd) break;
    CHECK(next == LineReader::Next::kLine || next == LineReader::Next::kTooLong);
    const bool is_too_long = next == LineReader::Next::kTooLong;
    lines.push_back(
        {std::string(is_too_long ? "" : reader.line()), is_too_long, reader.terminated()});
    CHECK_EQ(reader.number(), lines.size());
  }
  CHECK_EQ(reader.bytes_read(), text.size());
  return lines;
}

// The first half of the bytes as a key, the second as its value.
void CheckRoundTrip(std::string_view bytes) {
  StoreParameters parameters;
  const size_t key_bytes = std::min<size_t>(bytes.size() / 2, parameters.max_key_bytes);
  const std::string_view key = bytes.substr(0, key_bytes);
  const std::string_view value = bytes.substr(key_bytes);
  const std::string line = Escaped(key) + "\t" + Escaped(value);
  CHECK(
      std::ranges::none_of(Escaped(value), [](char c) { return (c >= 0 && c < ' ') || c == 127; }));
  LoadBatch batch;
  batch.bytes = "before";
  const Result<LoadBatch::Line> decoded =
      DecodeLine(line, LineForm::kEscaped, parameters, batch.bytes);
  CHECK(decoded.has_value()) << line;
  CHECK_EQ(batch.key(decoded.value()), key);
  CHECK_EQ(batch.value(decoded.value()), value);
}

using Map = std::map<std::string, std::string, std::less<>>;

struct Expected {
  Map map;
  uint64_t lines = 0;
  uint64_t bad = 0;
};

Expected Decode(std::string_view text, const StoreParameters& parameters) {
  Expected expected;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    LoadBatch batch;
    const Result<LoadBatch::Line> line =
        DecodeLine(text.substr(0, end), LineForm::kEscaped, parameters, batch.bytes);
    ++expected.lines;
    if (line) {
      expected.map[std::string(batch.key(line.value()))] = batch.value(line.value());
    } else {
      ++expected.bad;
      CHECK(batch.bytes.empty()) << "a bad line left something behind";
      CHECK(line.error().code == Code::kInvalidArgument && !line.error().message.empty());
    }
    text.remove_prefix(end == text.npos ? text.size() : end + 1);
  }
  return expected;
}

class File {
 public:
  explicit File(std::string_view text) : fd_(memfd_create("lines", MFD_CLOEXEC)) {
    PCHECK(pwrite(fd_.get(), text.data(), text.size(), 0) == static_cast<ssize_t>(text.size()));
  }
  LoadReport LoadInto(FakeStore& store, const LoadOptions& options, uint64_t& skipped) const {
    Result<InputFile> file = InputFile::Open("/proc/self/fd/" + std::to_string(fd_.get()));
    CHECK(file.has_value()) << file.error().message;
    Stop stop;
    return Load(store, file.value(), options, stop, [&](const LoadError&) { ++skipped; });
  }

 private:
  UniqueFd fd_;
};

void CheckLoads(std::string_view text) {
  constexpr uint64_t kMostBad = 3;  // each of them is one more load
  const File file(text);
  FakeStore store;
  const Expected expected = Decode(text, store.parameters());
  LoadOptions options;
  options.skip_errors = true;
  uint64_t skipped = 0;
  const LoadReport report = file.LoadInto(store, options, skipped);
  CHECK(report.complete() && !report.resume_line);
  CHECK_EQ(report.lines, expected.lines);
  CHECK_EQ(report.skipped, expected.bad);
  CHECK_EQ(skipped, expected.bad);
  CHECK_EQ(report.loaded, expected.lines - expected.bad);
  CHECK_EQ(report.last_line_unterminated, !text.empty() && text.back() != '\n');
  CHECK(store.state().map == expected.map);

  if (expected.bad == 0 || expected.bad > kMostBad) return;
  FakeStore resumed;
  options.skip_errors = false;
  for (uint64_t load = 0; load < expected.bad; ++load) {
    const LoadReport part = file.LoadInto(resumed, options, skipped);
    CHECK(part.error && part.resume_line && *part.resume_line > options.from_line - (load == 0));
    CHECK(part.resumes_behind_bad_line);
    options.from_line = *part.resume_line;
  }
  CHECK(file.LoadInto(resumed, options, skipped).complete());
  CHECK_EQ(skipped, expected.bad) << "a line was skipped that should have ended the load";
  CHECK(resumed.state().map == expected.map);
}

}  // namespace
}  // namespace gossamer::cli

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace gossamer::cli;
  const std::string_view text = gossamer::TextOf(data, size);
  CHECK(ReadInPieces(text) == Split(text)) << "lines depend on where reads end";
  CheckRoundTrip(text);
  CheckLoads(text);
  return 0;
}
