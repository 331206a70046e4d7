// Replies of the Redis protocol (RESP2), as a client reads them.
//
// Thread-safety: none. Cost: no allocation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace gossamer::bench {

// Where the reply at the start of `bytes` ends: how long it is.
struct ReplyEnd {
  enum class Kind : uint8_t { kWhole, kNeedMore, kGarbled };
  Kind kind = Kind::kNeedMore;
  size_t bytes = 0;  // of a whole one
};
// Cost: looks at each element once; the bytes of bulks are passed over.
ReplyEnd FindReplyEnd(std::string_view bytes);

// A reply without an array, or the head of an array, of which the elements follow.
struct ReplyElement {
  enum class Kind : uint8_t { kText, kError, kInteger, kNull, kArray };
  Kind kind = Kind::kNull;
  std::string_view text;  // of kText and kError
  int64_t number = 0;     // of kInteger; of kArray: how many elements
};

// Goes through the elements of a whole reply.
class ReplyReader {
 public:
  explicit ReplyReader(std::string_view reply) : rest_(reply) {}
  // Requires: there is one more.
  ReplyElement Next();

 private:
  std::string_view rest_;
};

}  // namespace gossamer::bench
