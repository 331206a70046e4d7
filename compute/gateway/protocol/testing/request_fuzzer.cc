// Fuzzes the parser of requests. The input is what a client sends.
//
// However it is cut into arrivals, the parser finds the same requests and the same error. Arguments
// lie within the bytes given and keep the limits; hints are right; nothing is looked at twice; and
// what was parsed, encoded again, parses to the same.
#include <glog/logging.h>

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "common/testing/fuzz_bytes.h"
#include "compute/gateway/protocol/request_parser.h"

namespace gossamer::gateway {
namespace {

using Outcome = RequestParser::Outcome;

struct Parsed {
  struct Request {
    std::vector<std::string> arguments;
    size_t end;  // in the input
    bool is_line;
    std::vector<size_t> ends;  // in the input, of the arguments of an array

    bool operator==(const Request&) const = default;
  };
  std::vector<Request> requests;
  std::string error;

  bool operator==(const Parsed&) const = default;
};

void CheckLimits(const RequestParser& parser, std::string_view bytes, const RequestLimits& limits) {
  CHECK_GT(parser.consumed(), 0U);
  CHECK_LE(parser.consumed(), bytes.size());
  if (parser.is_line()) {
    CHECK_LE(parser.consumed(), limits.line_bytes + 1);
    return;
  }
  CHECK_LE(parser.arguments().size(), limits.arguments);
  const char* last = bytes.data();
  for (const std::string_view one : parser.arguments()) {
    CHECK_LE(one.size(), limits.argument_bytes);
    CHECK(one.data() >= last && one.data() + one.size() <= bytes.data() + parser.consumed());
    last = one.data() + one.size();
  }
}

Parsed::Request RequestOf(const RequestParser& parser, std::string_view input) {
  Parsed::Request request;
  request.arguments.assign(parser.arguments().begin(), parser.arguments().end());
  request.is_line = parser.is_line();
  if (request.is_line) return request;
  for (const std::string_view one : parser.arguments()) {
    request.ends.push_back(static_cast<size_t>(one.data() + one.size() - input.data()));
  }
  return request;
}

// Parses what arrives in pieces that end at `ends`, each time in memory of exactly its size.
Parsed Parse(std::string_view text, const std::vector<size_t>& ends, const RequestLimits& limits) {
  RequestParser parser(limits);
  Parsed parsed;
  size_t taken = 0;
  size_t wanted = 0;
  for (const size_t end : ends) {
    for (;;) {
      const size_t size = end - taken;
      const auto copy = std::make_unique<char[]>(size);
      std::ranges::copy(text.substr(taken, size), copy.get());
      const std::string_view bytes(copy.get(), size);
      const Outcome outcome = parser.Next(bytes);
      if (outcome == Outcome::kError) {
        parsed.error = parser.error();
        CHECK(parsed.error.starts_with("Protocol error: "));
        return parsed;
      }
      if (outcome == Outcome::kNeedMore) {
        wanted = std::max(wanted, parser.wanted());
        CHECK(parser.wanted() == 0 || parser.wanted() > size);
        break;
      }
      CheckLimits(parser, bytes, limits);
      CHECK_LE(wanted, parser.consumed()) << "more bytes were wanted than needed";
      wanted = 0;
      parsed.requests.push_back(RequestOf(parser, bytes));
      for (size_t& one : parsed.requests.back().ends) one += taken;
      taken += parser.consumed();
      parsed.requests.back().end = taken;
    }
  }
  return parsed;
}

// Parses what arrives byte by byte, as Parse has found it at once. Bytes that were parsed already
// become others before the next
// call: a parser that looks at them again, and takes quadratic time with that, finds something
// else.
Parsed ParseForgetful(std::string_view text, const Parsed& expected, const RequestLimits& limits) {
  RequestParser parser(limits);
  Parsed parsed;
  std::string bytes;  // of the present request, from `taken` on
  size_t taken = 0;
  for (const char c : text) {
    bytes += c;
    const size_t at = parsed.requests.size();
    const bool is_known = at < expected.requests.size();
    if (is_known && expected.requests[at].is_line) {
      const size_t size = expected.requests[at].end - taken;
      // The whole line is needed once more, when its end is found.
      if (bytes.size() == size) bytes = text.substr(taken, size);
      if (bytes.size() < size && bytes.size() > 2) bytes[bytes.size() - 2] = '\n';
    } else if (is_known) {
      for (const size_t end : expected.requests[at].ends) {
        if (taken + bytes.size() == end + 3) std::fill_n(bytes.begin() + 1, end - taken + 1, '\r');
      }
    }
    const Outcome outcome = parser.Next(bytes);
    if (outcome == Outcome::kNeedMore) continue;
    if (outcome == Outcome::kError) {
      parsed.error = parser.error();
      return parsed;
    }
    CHECK_EQ(parser.consumed(), bytes.size()) << "the request was complete before";
    Parsed::Request request = RequestOf(parser, bytes);
    for (size_t& one : request.ends) one += taken;
    taken += parser.consumed();
    request.end = taken;
    // Of an array, only where the arguments are can be compared: their bytes are others.
    if (is_known && !request.is_line) request.arguments = expected.requests[at].arguments;
    parsed.requests.push_back(std::move(request));
    bytes.clear();
  }
  return parsed;
}

std::string Encode(const std::vector<Parsed::Request>& requests) {
  std::string text;
  for (const Parsed::Request& request : requests) {
    text += "*" + std::to_string(request.arguments.size()) + "\r\n";
    for (const std::string& one : request.arguments) {
      text += "$" + std::to_string(one.size()) + "\r\n" + one + "\r\n";
    }
  }
  return text;
}

std::vector<size_t> RandomEnds(std::string_view text) {
  std::mt19937_64 random(HashOf(text));
  std::vector<size_t> ends(random() % 8);
  for (size_t& end : ends) end = random() % (text.size() + 1);
  ends.push_back(text.size());
  std::ranges::sort(ends);
  return ends;
}

Parsed ParseAllWays(std::string_view text, const RequestLimits& limits) {
  const Parsed whole = Parse(text, {text.size()}, limits);
  const Parsed in_pieces = Parse(text, RandomEnds(text), limits);
  CHECK_EQ(whole.error, in_pieces.error);
  CHECK(whole == in_pieces) << "requests depend on how they arrive";
  const Parsed forgetful = ParseForgetful(text, whole, limits);
  CHECK_EQ(whole.error, forgetful.error);
  CHECK(whole == forgetful) << "requests depend on how they arrive, or bytes are parsed twice";
  return whole;
}

}  // namespace
}  // namespace gossamer::gateway

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace gossamer::gateway;
  const std::string_view text = gossamer::TextOf(data, size);
  const Parsed parsed = ParseAllWays(text, {});
  // Limits that short inputs exceed.
  ParseAllWays(text, {.arguments = 3, .argument_bytes = 12, .line_bytes = 24});

  const std::string again = Encode(parsed.requests);
  const Parsed reparsed = Parse(again, {again.size()}, {});
  CHECK_EQ(reparsed.error, "");
  CHECK_EQ(reparsed.requests.size(), parsed.requests.size());
  for (size_t i = 0; i < parsed.requests.size(); ++i) {
    CHECK(reparsed.requests[i].arguments == parsed.requests[i].arguments) << "request " << i;
  }
  return 0;
}
