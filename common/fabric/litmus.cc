#include "common/fabric/litmus.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <coroutine>
#include <cstring>
#include <optional>
#include <utility>

namespace gossamer {
namespace {

// One side of a round: two verbs in one batch, or in two, the second posted after the first has
// completed.
class Side {
 public:
  Side(Endpoint& endpoint, ServerId server, BufferLease buffer)
      : buffer_(std::move(buffer)), endpoint_(endpoint), batch_(server) {}

  // Local buffers of the data and of the atomic's old value.
  std::byte* data() { return buffer_.data(); }
  LocalAddress data_address() const { return buffer_.address(); }
  LocalAddress word_address() const { return buffer_.address(kLitmusBytes); }

  // `together`: post both in one batch, in this order; else the second waits for the first.
  void Start(const Verb& first, const Verb& second, bool together) {
    batch_.Reset(batch_.server());
    batch_.Add(first);
    if (together) batch_.Add(second);
    waiting_ = together ? std::nullopt : std::optional(second);
    Post();
  }

  // Returns: whether this side still waits for something.
  bool Advance() {
    if (completion_.remaining != 0) endpoint_.Poll();
    if (completion_.remaining != 0) return true;
    if (!waiting_ || status() != VerbStatus::kSuccess) return false;
    batch_.Reset(batch_.server());
    batch_.Add(*std::exchange(waiting_, std::nullopt));
    Post();
    return true;
  }

  VerbStatus status() const { return batch_.status(); }
  uint64_t old_value() const {
    uint64_t value;
    std::memcpy(&value, buffer_.data() + kLitmusBytes, sizeof value);
    return value;
  }

 private:
  void Post() {
    completion_ = {1, std::noop_coroutine()};
    batch_.completion = &completion_;
    endpoint_.Post(batch_);
  }

  BufferLease buffer_;
  Endpoint& endpoint_;
  InlineBatch<2> batch_;
  std::optional<Verb> waiting_;
  Completion completion_;
};

constexpr uint64_t kWords = kLitmusBytes / sizeof(uint64_t);

bool AllWordsAre(const std::byte* data, uint64_t expected) {
  std::array<uint64_t, kWords> words;
  std::memcpy(words.data(), data, sizeof words);
  return std::ranges::all_of(words, [expected](uint64_t word) { return word == expected; });
}

void FillWords(std::byte* data, uint64_t value) {
  std::array<uint64_t, kWords> words;
  words.fill(value);
  std::memcpy(data, words.data(), sizeof words);
}

class Litmus {
 public:
  Litmus(Endpoint& writer, BufferLease writer_buffer, Endpoint& reader, BufferLease reader_buffer,
         ServerId server, const LitmusScratch& scratch)
      : writer_(writer, server, std::move(writer_buffer)),
        reader_(reader, server, std::move(reader_buffer)),
        scratch_(scratch) {}

  Status Prepare() {
    BOOST_OUTCOME_TRYV(AddToWord(0));
    word_ = writer_.old_value();
    start_ = word_;
    return Ok();
  }

  // One round of `pair`; the side under test has its verbs `together` in one batch.
  Status Round(bool writer_together, bool reader_together, LitmusReport::Pair& pair) {
    const uint64_t next = word_ + 1;
    FillWords(writer_.data(), next);
    writer_.Start(Verb::Write(scratch_.data_offset, kLitmusBytes, writer_.data_address()),
                  Add(writer_, 1), writer_together);
    // Vary the reader's start over the writer's duration, so that over the rounds it strikes at
    // every point of it.
    const uint64_t delay = pair.rounds % (last_polls_ + 2);
    uint64_t polls = 0;
    bool reader_started = false;
    for (bool writing = true, reading = true; writing || reading; ++polls) {
      if (!reader_started && polls >= delay) {
        reader_.Start(Add(reader_, 0),
                      Verb::Read(scratch_.data_offset, kLitmusBytes, reader_.data_address()),
                      reader_together);
        reader_started = true;
      }
      if (writing) {
        writing = writer_.Advance();
        if (!writing) last_polls_ = polls;
      }
      if (reader_started) reading = reader_.Advance();
    }
    BOOST_OUTCOME_TRYV(Check(writer_));
    BOOST_OUTCOME_TRYV(Check(reader_));
    word_ = next;
    ++pair.rounds;
    // The reader saw the atomic of this round, so it must have seen all of this round's WRITE.
    if (reader_.old_value() == next) {
      ++pair.decisive;
      if (!AllWordsAre(reader_.data(), next)) ++pair.failures;
    }
    return Ok();
  }

  Status Restore() { return AddToWord(start_ - word_); }

 private:
  Status AddToWord(uint64_t addend) {
    const Verb nothing = Verb::Read(scratch_.data_offset, 0, writer_.data_address());
    writer_.Start(Add(writer_, addend), nothing, true);
    while (writer_.Advance()) {
    }
    return Check(writer_);
  }
  Verb Add(const Side& side, uint64_t addend) const {
    return Verb::FetchAdd(scratch_.word_space, scratch_.word_offset, addend, side.word_address());
  }

  static Status Check(const Side& side) {
    if (side.status() == VerbStatus::kSuccess) return Ok();
    return MakeError(Code::kNodeUnreachable,
                     "litmus test: " + std::string(VerbStatusName(side.status())));
  }

  Side writer_;
  Side reader_;
  const LitmusScratch scratch_;
  uint64_t start_ = 0;
  uint64_t word_ = 0;
  uint64_t last_polls_ = 0;  // polls that the writer's last round took
};

std::string PairText(const char* name, const LitmusReport::Pair& pair) {
  return fmt::format("{}: {} of {} failed ({} decisive)", name, pair.failures, pair.rounds,
                     pair.decisive);
}

}  // namespace

std::string LitmusReport::ToString() const {
  return PairText("atomic before READ", atomic_before_read) + "; " +
         PairText("WRITE before atomic", write_before_atomic);
}

Result<LitmusReport> RunLitmus(Endpoint& writer, Endpoint& reader, ServerId server,
                               const LitmusScratch& scratch, const LitmusOptions& options) {
  assert(&writer != &reader);
  if (writer.limits().path_mtu < kLitmusBytes) {
    return MakeError(Code::kInvalidArgument, fmt::format("litmus test: path MTU {} is below {}",
                                                         writer.limits().path_mtu, kLitmusBytes));
  }
  BOOST_OUTCOME_TRY(writer_buffer, writer.buffers().Allocate(size_t{2} * kLitmusBytes));
  BOOST_OUTCOME_TRY(reader_buffer, reader.buffers().Allocate(size_t{2} * kLitmusBytes));
  Litmus litmus(writer, std::move(writer_buffer), reader, std::move(reader_buffer), server,
                scratch);
  BOOST_OUTCOME_TRYV(litmus.Prepare());
  LitmusReport report;
  const auto end = std::chrono::steady_clock::now() + options.time_limit;
  for (uint32_t i = 0; i < options.rounds && std::chrono::steady_clock::now() < end; ++i) {
    BOOST_OUTCOME_TRYV(litmus.Round(false, true, report.atomic_before_read));
    BOOST_OUTCOME_TRYV(litmus.Round(true, false, report.write_before_atomic));
  }
  BOOST_OUTCOME_TRYV(litmus.Restore());
  return report;
}

}  // namespace gossamer
