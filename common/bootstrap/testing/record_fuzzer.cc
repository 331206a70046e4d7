// Fuzzes the records of stores. The input is texts that others write into the bootstrap, one after
// the other, with a line "--" between them; an empty text stands for a lost record.
//
// A text is refused with a sentence, or it is the one text of its record. A memory server looks at
// each text: it never writes what cannot be read, repairs a record with one look, and is not in the
// record once it has left.
#include <glog/logging.h>

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>

#include "common/bootstrap/member.h"
#include "common/bootstrap/record_snapshot.h"
#include "common/bootstrap/testing/memory_bootstrap.h"
#include "common/process.h"
#include "common/testing/fuzz_bytes.h"
#include "proto/store_record.h"

namespace gossamer {
namespace {

using Text = std::optional<std::string>;

constexpr uint64_t kStoreId = 0xd1ce5eed5a1ad5;

// The member is server 1 of this store.
StoreRecord OwnRecord() {
  StoreRecord record{"default", kStoreId, "shm", {1024, 32, 16}, 2, {}};
  record.servers.push_back({ServerId{0}, 0x1f, "ant", "-", "10.0.0.1:7471"});
  record.servers.push_back({ServerId{1}, 0x2f, "bee", "-", "10.0.0.2:7471"});
  return record;
}

// By its incarnation, so that a text decides which servers live.
Liveness Probe(const StoreRecord& /*record*/, const MemberRecord& member) {
  constexpr Liveness kStates[] = {Liveness::kDead, Liveness::kSilent, Liveness::kUnreachable,
                                  Liveness::kAlive};
  return kStates[member.incarnation % 4];
}

void CheckPrintable(std::string_view text) {
  CHECK(!text.empty());
  CHECK(std::ranges::all_of(text, [](char c) { return c >= ' ' && c <= '~'; })) << text;
}

void CheckValid(const StoreRecord& record) {
  CHECK(IsValidStoreName(record.store) && IsStorable(record.parameters));
  CHECK(IsValidToken(record.fabric));
  CHECK_LE(record.next_server, kMaxMemoryServers);
  int last = -1;
  for (const MemberRecord& member : record.servers) {
    const int id = ToInteger(member.server);
    CHECK(last < id && id < record.next_server);
    last = id;
    CHECK(IsValidToken(member.host) && IsValidToken(member.process));
    CHECK(IsValidToken(member.address) && record.Find(member.server) == &member);
    LookUpProcess(member.process);
    CheckPrintable(ProcessIdOf(member.process));
    JudgeSilence(record, member);
  }
}

std::optional<StoreRecord> ParseAndCheck(const std::string& text) {
  std::string problem;
  std::optional<StoreRecord> record = ParseStoreRecord(text, problem);
  CHECK_EQ(record.has_value(), problem.empty());
  if (!record) {
    CheckPrintable(problem);
    return record;
  }
  CheckValid(*record);
  CHECK_EQ(EncodeStoreRecord(*record), text) << "a record has more than one text";
  return record;
}

bool Changes(Finding finding) {
  return finding == Finding::kPutBack || finding == Finding::kMerged ||
         finding == Finding::kTookBack;
}

class Upkeep {
 public:
  Upkeep() {
    Joined joined;
    joined.record = OwnRecord();
    joined.identity.store_id = kStoreId;
    joined.identity.server = ServerId{1};
    joined.identity.incarnation = joined.record.servers[1].incarnation;
    joined_ = joined;
    member_.emplace(bootstrap_, joined_, Probe);
  }

  // Others write `text`, and the member looks twice.
  void Meet(const std::string& text) {
    const Text before = text.empty() ? Text() : Text(text);
    bootstrap_.Overwrite("default", before);
    const std::optional<StoreRecord> record = before ? ParseAndCheck(*before) : std::nullopt;
    CheckSnapshot(before, record);
    const Look look = member_->LookAfterRecord();
    const Text after = bootstrap_.Get("default").value();
    CHECK_EQ(look.sentence.empty(), look.finding == Finding::kInPlace);
    CHECK_EQ(after != before, Changes(look.finding)) << look.sentence;
    const bool is_unreadable = before && (!record || record->store != "default");
    CHECK_EQ(look.finding == Finding::kUnreadable, is_unreadable) << look.sentence;
    if (Changes(look.finding)) CheckRepaired(record, *after);
    const Look second = member_->LookAfterRecord();
    CHECK(bootstrap_.Get("default").value() == after) << "a second look changed something";
    CHECK(second.finding == (Changes(look.finding) ? Finding::kInPlace : look.finding));
  }

  void Leave() {
    const Text before = bootstrap_.Get("default").value();
    CHECK_EQ(member_->Leave().has_value(),
             !before || ReadRecord(bootstrap_, "default").has_value());
    const Text after = bootstrap_.Get("default").value();
    if (after == before || !after) return;
    const std::optional<StoreRecord> record = ParseAndCheck(*after);
    CHECK(record && record->store_id == kStoreId);
    const MemberRecord* entry = record->Find(ServerId{1});
    CHECK(entry == nullptr || entry->incarnation != joined_.identity.incarnation);
  }

 private:
  void CheckSnapshot(const Text& text, const std::optional<StoreRecord>& record) {
    const Result<RecordSnapshot> read = ReadRecord(bootstrap_, "default");
    CHECK_EQ(read.has_value(), !text || (record && record->store == "default"));
    if (!read) {
      CHECK(read.error().code == Code::kCorruption && !read.error().message.empty());
      return;
    }
    CHECK(read.value().text == text);
    CHECK_EQ(read.value().record.has_value(), record && !record->servers.empty());
    CHECK(!read.value().record || *read.value().record == *record);
  }

  // The member is in the record, whose other servers are all still there if it is its store's.
  void CheckRepaired(const std::optional<StoreRecord>& before, const std::string& text) {
    const std::optional<StoreRecord> after = ParseAndCheck(text);
    CHECK(after && after->store_id == kStoreId && *after == member_->known());
    const MemberRecord* self = after->Find(ServerId{1});
    CHECK(self != nullptr && self->incarnation == joined_.identity.incarnation);
    if (!before || before->servers.empty() || before->store_id != kStoreId) return;
    for (const MemberRecord& member : before->servers) {
      const MemberRecord* kept = after->Find(member.server);
      CHECK(kept != nullptr && *kept == member);
    }
    CHECK_GE(after->next_server, before->next_server);
  }

  MemoryBootstrap bootstrap_;
  Joined joined_;
  std::optional<Member> member_;
};

}  // namespace
}  // namespace gossamer

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr std::string_view kBetween = "--\n";
  std::string_view input = gossamer::TextOf(data, size);
  gossamer::Upkeep upkeep;
  for (;;) {
    const size_t end = input.find(kBetween);
    upkeep.Meet(std::string(input.substr(0, end)));
    if (end == std::string_view::npos) break;
    input.remove_prefix(end + kBetween.size());
  }
  upkeep.Leave();
  return 0;
}
