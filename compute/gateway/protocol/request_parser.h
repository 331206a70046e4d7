// RequestParser: cuts what a Redis client sends into requests.
//
// A request is an array of bulk strings, "*2\r\n$3\r\nGET\r\n$1\r\nk\r\n", or a line of words (an
// inline command, as typed into telnet), in which "..." with escapes and '...' are words. Source:
// the protocol specification of Redis, RESP2 and RESP3, which have the same requests; errors are
// worded as Redis 7 words them.
//
// Arguments are views into the bytes that were given, so nothing is copied, but for quoted words of
// an inline command. A request that has not arrived whole is looked at again when more is there,
// from where its parsing stopped: the cost of a request is linear in its bytes, however small the
// pieces are in which it arrives.
//
// Thread-safety: none; one for each connection. Cost: no allocation once the vectors have grown.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gossamer::gateway {

struct RequestLimits {
  uint64_t arguments = 1024 * 1024;
  uint64_t argument_bytes = uint64_t{512} << 20;
  uint64_t line_bytes = 64 * 1024;  // of an inline command, or of a number's line
  // How the error of a request with more or longer arguments begins: "invalid bulk length".
  std::string_view breach = "invalid";
};

class RequestParser {
 public:
  enum class Outcome : uint8_t {
    kRequest,   // `arguments` has one, possibly without arguments: nothing is to be answered then
    kNeedMore,  // the rest has not arrived
    kError,     // `error` says why; the connection cannot be used any more
  };

  explicit RequestParser(const RequestLimits& limits = {}) : limits_(limits) {}

  void set_limits(const RequestLimits& limits) { limits_ = limits; }

  // Looks for a request at the front of `bytes`. After kNeedMore, call again with the same bytes,
  // perhaps elsewhere in memory, and more behind them. After kRequest, `consumed` of them belong to
  // the request: leave them out of the next call.
  Outcome Next(std::string_view bytes);

  // The vector is valid until the next call of Next. The views in it are valid as long as the bytes
  // stay where they are, but for a line.
  const std::vector<std::string_view>& arguments() const { return arguments_; }
  size_t consumed() const { return consumed_; }
  // Whether the arguments are words of a line: these are the parser's own, and gone with the next
  // call of Next.
  bool is_line() const { return is_line_; }
  // "Protocol error: invalid bulk length"
  const std::string& error() const { return error_; }
  // What it holds of a request of many words.
  size_t held_bytes() const {
    return pieces_.capacity() * sizeof(Piece) + arguments_.capacity() * sizeof(std::string_view);
  }
  // Gives it back. Requires (unchecked): no request is being parsed, and nobody uses the last one's
  // arguments.
  void GiveBack();
  // So many bytes are needed at least, before a call of Next can succeed: a hint for the size of a
  // buffer. 0: unknown.
  size_t wanted() const { return wanted_; }

 private:
  struct Piece {
    size_t at;
    size_t size;
  };

  // What a number's line says, and how its errors name it.
  struct Length {
    std::string_view line;
    std::string_view name;
    int64_t least;
    uint64_t most;
  };

  Outcome NextArray(std::string_view bytes);
  Outcome NextLine(std::string_view bytes);
  Outcome Fail(std::string sentence);
  // Takes an array that has arrived whole, if all its numbers are short. Returns false, and changes
  // nothing but the arguments, if it has not, or if something is wrong with it.
  bool TakeWhole(std::string_view bytes);
  // Takes the number of the line that starts at `start`: `at_` is behind that then. Returns an
  // outcome if there is none.
  std::optional<Outcome> TakeLength(std::string_view bytes, size_t start, const Length& what,
                                    int64_t& length);
  void Finish();

  RequestLimits limits_;
  std::vector<std::string_view> arguments_;
  std::vector<Piece> pieces_;     // of the request that is being parsed
  std::vector<std::string> own_;  // words of a line that had escapes
  std::string error_;
  size_t consumed_ = 0;
  size_t wanted_ = 0;
  size_t at_ = 0;          // parsed so far
  size_t scanned_ = 0;     // no end of line before this
  uint64_t expected_ = 0;  // arguments of the array
  bool in_array_ = false;
  bool is_line_ = false;
};

}  // namespace gossamer::gateway
