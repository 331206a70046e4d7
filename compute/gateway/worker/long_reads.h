// LongReads: requests of one client that read long values. They are done and answered in parts, so
// that neither their values nor their replies are in memory together, and that others are not held
// up.
//
// Thread-safety: none.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "compute/gateway/commands/read_reply.h"
#include "compute/gateway/worker/batch.h"
#include "compute/gateway/worker/scan_positions.h"
#include "gossamer/store.h"

namespace gossamer::gateway {

class LongReads {
 public:
  // `batch`: of one client, and not begun.
  explicit LongReads(std::unique_ptr<Batch> batch)
      : batch_(std::move(batch)),
        has_large_lists_(batch_->has_large_lists_),
        part_keys_(has_large_lists_ ? 1 : 4) {}
  LongReads(const LongReads&) = delete;
  LongReads& operator=(const LongReads&) = delete;

  // Does a part, which brings about `most_bytes`, and appends its answers to the client's output.
  // Call again, once the client has taken them, until it returns true: that was all. `values`: for
  // those of the part, any.
  Task<bool> RunPart(Session& session, ScanPositions& positions, size_t most_bytes, Values& values);
  // Whether an error came in the middle of a reply that the client has a part of. Then it can only
  // be disconnected.
  bool is_broken() const { return is_broken_; }
  const Batch& batch() const { return *batch_; }
  // The time that all parts so far have taken.
  std::chrono::nanoseconds spent() const { return spent_; }

 private:
  // Goes on with the replies to reads. Returns false if that takes values that were not got.
  bool AnswerReads();
  // Gives the client the answers of this part so far.
  void TakePart();
  void ChooseNextPart(size_t most_bytes);
  Client& client() { return *batch_->clients_.front(); }

  std::unique_ptr<Batch> batch_;
  const bool has_large_lists_;  // each is a part: how long it is does not show in the values
  size_t next_request_ = 0;     // the first one that is not answered
  size_t next_read_ = 0;        // likewise, of the batch's reads
  size_t part_begin_ = 0;       // the first read of this part
  size_t part_keys_;
  std::string part_;                // answers of this part
  std::optional<ReadReply> reply_;  // the reply that is being made, in `part_`
  bool has_begun_reply_ = false;    // the client has got some of it
  bool is_broken_ = false;
  std::chrono::nanoseconds spent_{};
};

}  // namespace gossamer::gateway
