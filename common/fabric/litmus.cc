#include "common/fabric/litmus.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <coroutine>
#include <cstring>
#include <optional>
#include <span>
#include <utility>

namespace gossamer {
namespace {

uint64_t LoadWord(const std::byte* data) {
  uint64_t word;
  std::memcpy(&word, data, sizeof word);
  return word;
}

// One side of a round: two verbs in one batch, or in two, the second posted after the first has
// completed.
class Side {
 public:
  Side(Endpoint& endpoint, ServerId server, BufferLease buffer)
      : buffer_(std::move(buffer)), endpoint_(endpoint), batch_(server) {}

  // Local buffers of the data and of the atomic's old value.
  std::span<std::byte> data(uint32_t bytes) { return {buffer_.data(), bytes}; }
  LocalAddress data_address(uint32_t at = 0) const { return buffer_.address(at); }
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
  uint64_t old_value() const { return LoadWord(buffer_.data() + kLitmusBytes); }

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

constexpr uint32_t kWordBytes = sizeof(uint64_t);

// What WRITEs without an atomic count from: no count of atomics is as high, so neither kind of
// round takes the other's data for its own.
constexpr uint64_t kFirstOfWrites = uint64_t{1} << 63;

bool AllWordsAre(std::span<const std::byte> data, uint64_t expected) {
  for (; !data.empty(); data = data.subspan(kWordBytes)) {
    if (LoadWord(data.data()) != expected) return false;
  }
  return true;
}

void FillWords(std::span<std::byte> data, uint64_t value) {
  for (; !data.empty(); data = data.subspan(kWordBytes)) {
    std::memcpy(data.data(), &value, sizeof value);
  }
}

class Litmus {
 public:
  // `bytes`: of the data; several words.
  Litmus(Endpoint& writer, BufferLease writer_buffer, Endpoint& reader, BufferLease reader_buffer,
         ServerId server, const LitmusScratch& scratch, uint32_t bytes)
      : writer_(writer, server, std::move(writer_buffer)),
        reader_(reader, server, std::move(reader_buffer)),
        scratch_(scratch),
        bytes_(bytes) {}

  Status Prepare() {
    BOOST_OUTCOME_TRYV(AddToWord(0));
    word_ = writer_.old_value();
    start_ = word_;
    return Ok();
  }

  // The data, then an atomic. The side under test has its verbs `together` in one batch.
  Status RoundOfAtomic(bool writer_together, bool reader_together, LitmusReport::Pair& pair) {
    const uint64_t next = word_ + 1;
    FillWords(writer_.data(bytes_), next);
    const Verb write = Verb::Write(scratch_.data_offset, bytes_, writer_.data_address());
    const Verb read = Verb::Read(scratch_.data_offset, bytes_, reader_.data_address());
    BOOST_OUTCOME_TRYV(Race({write, Add(writer_, 1), writer_together},
                            {Add(reader_, 0), read, reader_together}, pair.rounds));
    word_ = next;
    Judge(reader_.old_value() == next, reader_.data(bytes_), next, pair);
    return Ok();
  }

  // The data but for its last word, then its last word. The writer has its verbs together.
  Status RoundOfWrites(LitmusReport::Pair& pair) {
    const uint32_t first_bytes = bytes_ - kWordBytes;
    const uint64_t second_offset = scratch_.data_offset + first_bytes;
    const uint64_t next = ++writes_;
    FillWords(writer_.data(bytes_), next);
    const Verb first = Verb::Write(scratch_.data_offset, first_bytes, writer_.data_address());
    const Verb second = Verb::Write(second_offset, kWordBytes, writer_.data_address(first_bytes));
    if (scratch_.view != nullptr) return Watch({first, second, true}, next, pair);
    BOOST_OUTCOME_TRYV(
        Race({first, second, true},
             {Verb::Read(second_offset, kWordBytes, reader_.data_address(first_bytes)),
              Verb::Read(scratch_.data_offset, first_bytes, reader_.data_address()), false},
             pair.rounds));
    const std::span<const std::byte> seen = reader_.data(bytes_);
    Judge(LoadWord(&seen[first_bytes]) == next, seen.first(first_bytes), next, pair);
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

  // What one side posts; see `Side::Start`.
  struct Verbs {
    Verb first;
    Verb second;
    bool together;
  };

  // The reader's start varies over the writer's duration, so that over the rounds it strikes at
  // every point of it.
  Status Race(const Verbs& writes, const Verbs& reads, uint64_t round) {
    writer_.Start(writes.first, writes.second, writes.together);
    const uint64_t delay = round % (last_polls_ + 2);
    uint64_t polls = 0;
    bool reader_started = false;
    for (bool writing = true, reading = true; writing || reading; ++polls) {
      if (!reader_started && polls >= delay) {
        reader_.Start(reads.first, reads.second, reads.together);
        reader_started = true;
      }
      if (writing) {
        writing = writer_.Advance();
        if (!writing) last_polls_ = polls;
      }
      if (reader_started) reading = reader_.Advance();
    }
    BOOST_OUTCOME_TRYV(Check(writer_));
    return Check(reader_);
  }

  // Looks at the memory itself, from the moment at which the last word is `next`.
  Status Watch(const Verbs& writes, uint64_t next, LitmusReport::Pair& pair) {
    constexpr int kLooksPerPoll = 64;
    const uint32_t first_bytes = bytes_ - kWordBytes;
    std::array<std::byte, kLitmusBytes> seen{};
    writer_.Start(writes.first, writes.second, writes.together);
    bool saw_later = false;
    for (bool writing = true; !saw_later; writing = writer_.Advance()) {
      for (int look = 0; look < kLooksPerPoll && !saw_later; ++look) {
        saw_later = SharedWord(first_bytes) == next;
      }
      if (!writing) break;
    }
    for (uint32_t at = 0; at < first_bytes; at += kWordBytes) {
      const uint64_t word = SharedWord(at);
      std::memcpy(&seen[at], &word, sizeof word);
    }
    while (writer_.Advance()) {
    }
    BOOST_OUTCOME_TRYV(Check(writer_));
    Judge(saw_later, std::span(seen).first(first_bytes), next, pair);
    return Ok();
  }

  // A word of the data, which the device may be writing. Loads do not overtake each other.
  uint64_t SharedWord(uint32_t at) const {
    const auto* word = reinterpret_cast<const uint64_t*>(scratch_.view + at);
    return __atomic_load_n(word, __ATOMIC_ACQUIRE);
  }

  // `saw_later`: the reader saw the writer's second verb, so all words of `data` must be `next`.
  static void Judge(bool saw_later, std::span<const std::byte> data, uint64_t next,
                    LitmusReport::Pair& pair) {
    ++pair.rounds;
    if (!saw_later) return;
    ++pair.decisive;
    if (!AllWordsAre(data, next)) ++pair.failures;
  }

  static Status Check(const Side& side) {
    if (side.status() == VerbStatus::kSuccess) return Ok();
    return MakeError(Code::kNodeUnreachable,
                     "litmus test: " + std::string(VerbStatusName(side.status())));
  }

  Side writer_;
  Side reader_;
  const LitmusScratch scratch_;
  const uint32_t bytes_;
  uint64_t start_ = 0;
  uint64_t word_ = 0;
  uint64_t writes_ = kFirstOfWrites;
  uint64_t last_polls_ = 0;  // polls that the writer's last round took
};

std::string PairText(const char* name, const LitmusReport::Pair& pair) {
  return fmt::format("{}: {} of {} failed ({} decisive)", name, pair.failures, pair.rounds,
                     pair.decisive);
}

}  // namespace

std::string LitmusReport::ToString() const {
  return PairText("atomic before READ", atomic_before_read) + "; " +
         PairText("WRITE before atomic", write_before_atomic) + "; " +
         PairText("WRITE before WRITE", write_before_write);
}

Result<LitmusReport> RunLitmus(Endpoint& writer, Endpoint& reader, ServerId server,
                               const LitmusScratch& scratch, const LitmusOptions& options) {
  assert(&writer != &reader);
  BOOST_OUTCOME_TRY(writer_buffer, writer.buffers().Allocate(size_t{2} * kLitmusBytes));
  BOOST_OUTCOME_TRY(reader_buffer, reader.buffers().Allocate(size_t{2} * kLitmusBytes));
  // One packet each, as a node has.
  const uint32_t bytes =
      std::min({kLitmusBytes, writer.limits().path_mtu, reader.limits().path_mtu});
  Litmus litmus(writer, std::move(writer_buffer), reader, std::move(reader_buffer), server, scratch,
                bytes);
  BOOST_OUTCOME_TRYV(litmus.Prepare());
  LitmusReport report;
  const auto end = std::chrono::steady_clock::now() + options.time_limit;
  for (uint32_t i = 0; i < options.rounds && std::chrono::steady_clock::now() < end; ++i) {
    BOOST_OUTCOME_TRYV(litmus.RoundOfAtomic(false, true, report.atomic_before_read));
    BOOST_OUTCOME_TRYV(litmus.RoundOfAtomic(true, false, report.write_before_atomic));
    BOOST_OUTCOME_TRYV(litmus.RoundOfWrites(report.write_before_write));
  }
  BOOST_OUTCOME_TRYV(litmus.Restore());
  return report;
}

}  // namespace gossamer
