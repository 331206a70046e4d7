// The store record: the bootstrap's entry for a store, by which clients and memory servers find it.
//
//   gossamer-store 1
//   store=default
//   store_id=00d1ce5eed5a1ad5
//   fabric=verbs
//   node_bytes=1024
//   max_key_bytes=32
//   inline_value_bytes=16
//   next_server=2
//   server=0 incarnation=1f0a… host=ant process=0b5a…/4026531836/812/99120 address=10.0.0.1:7471
//   server=1 incarnation=77c4… host=bee process=91d0…/4026531836/640/1207 address=10.0.0.2:7471
//
// The line of a memory server goes on with " formats=" and the formats that it reads (formats.h).
// That of a server whose memory outlives its process goes on with " region=" and the path of its
// file, or kKeptBySystemd. It comes back under the same id, with another incarnation. The line of a
// server that saves goes on with " saved=" and the set of its last saved file (saved_file.h), as 16
// hex digits, or 0 if it has saved nothing yet. Behind the line of a server that is to stop stands
// " stop".
//
// A record has exactly one text: lines in this order, each ended by '\n', servers by rising id,
// decimal numbers without leading zeros, 16 lower-case hex digits. Any other text is rejected. A
// store never reuses a server id, because remote pointers contain it: `next_server` only grows.
//
// When a memory server restores a record that the bootstrap lost, it adds a line "restored=" with
// 16 random hex digits after next_server. The line stays until the next server joins. Until then,
// members that the restoring server did not know may be missing until they have added themselves. A
// memory server that intends to create a store in place of a lost one first draws new digits for
// that line.
//
// A store that was restored from saved files has "awaits=" behind that line, the id of each server
// that has not come back yet, ':', and the set of the file with which it may, by rising id. To save
// what all servers hold, somebody puts "save=" and new random digits behind these: a server that
// sees others than before saves. An earlier version wrote "set=" in place of "awaits=": all servers
// that the record lacked were awaited with that set. It is read, and not written any more.
//
// A record without servers is not a store: it is the note of a memory server that intends to create
// one and waits for a lost record to come back.
#pragma once

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "proto/leaf_geometry.h"
#include "proto/region.h"
#include "proto/remote_ptr.h"

namespace gossamer {

inline constexpr std::string_view kStoreRecordFirstLine = "gossamer-store 1";
// In place of the path of a region: systemd has the memory, and gives it to the next process.
inline constexpr std::string_view kKeptBySystemd = "systemd";
inline constexpr size_t kMaxStoreNameBytes = 64;
inline constexpr size_t kMaxTokenBytes = 255;  // of host, process, address, region
// A store can assign server ids 0 to 255 in its whole life. Clients keep a table of all of them.
inline constexpr size_t kMaxMemoryServers = 256;
static_assert(kMaxMemoryServers - 1 <= UINT16_MAX, "a remote pointer has 16 bits for the id");
inline constexpr size_t kMaxStoreRecordBytes = 896 << 10;  // memcached keeps items of up to 1 MiB

// One memory server, as its clients reach it.
struct MemberRecord {
  ServerId server{0};
  uint64_t incarnation = 0;  // of its region; another one at the same address is another server
  std::string host;          // for diagnostics
  std::string process;       // common/process.h: tells on its own machine whether it still runs
  std::string address;       // for ComputePort::Connect
  std::string region = {};   // the file with its memory; empty: that dies with the process
  std::optional<uint64_t> saved = {};  // the set of its last saved file, 0: none yet
  bool stop = false;                   // somebody has asked it to end
  std::string formats = {};  // that it reads; empty: an earlier version, which says nothing

  // Whether it may be back, with its memory and another incarnation, when it does not answer. One
  // that saves serves nobody while it does.
  bool comes_back() const { return !region.empty() || saved.has_value(); }

  friend bool operator==(const MemberRecord&, const MemberRecord&) = default;
};

// Names a memory server of a store, in its region header.
struct MemberIdentity {
  uint64_t store_id = 0;
  uint64_t incarnation = 0;
  ServerId server{0};
};

// A server of a store that was restored: it may come back with its file of that set.
struct AwaitedRecord {
  ServerId server{0};
  uint64_t set = 0;

  friend bool operator==(const AwaitedRecord&, const AwaitedRecord&) = default;
};

struct StoreRecord {
  std::string store;
  uint64_t store_id = 0;
  std::string fabric;
  StoreParameters parameters;
  uint16_t next_server = 0;
  std::vector<MemberRecord> servers;        // by rising id
  uint64_t restored = 0;                    // 0: no such line, as of `save`
  std::vector<AwaitedRecord> awaited = {};  // by rising id
  uint64_t save = 0;

  const MemberRecord* Find(ServerId server) const {
    const auto found = std::ranges::find(servers, server, &MemberRecord::server);
    return found == servers.end() ? nullptr : &*found;
  }
  // The set of the file with which `server` may come back; 0: it is not awaited.
  uint64_t AwaitedSetOf(ServerId server) const {
    const auto found = std::ranges::find(awaited, server, &AwaitedRecord::server);
    return found == awaited.end() ? 0 : found->set;
  }

  friend bool operator==(const StoreRecord&, const StoreRecord&) = default;
};

// [A-Za-z0-9._-]{1,64}, and not "." or "..": a file name and a memcached key.
constexpr bool IsValidStoreName(std::string_view name) {
  return !name.empty() && name.size() <= kMaxStoreNameBytes && name != "." && name != ".." &&
         std::ranges::all_of(name, [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                  c == '.' || c == '_' || c == '-';
         });
}

// Printable ASCII without blanks, 1 to kMaxTokenBytes.
constexpr bool IsValidToken(std::string_view token) {
  return !token.empty() && token.size() <= kMaxTokenBytes &&
         std::ranges::all_of(token, [](char c) { return c > ' ' && c <= '~'; });
}

namespace internal {

inline std::string Hex16(uint64_t value) { return fmt::format("{:016x}", value); }

// Parses the text from the front; keeps the first error.
class RecordReader {
 public:
  explicit RecordReader(std::string_view text) : rest_(text) {}

  bool done() const { return rest_.empty() || !problem_.empty(); }
  const std::string& problem() const { return problem_; }
  bool NextIs(std::string_view prefix) const { return rest_.starts_with(prefix); }

  // Returns the reader, for the value that follows.
  RecordReader& Expect(std::string_view literal) {
    if (!problem_.empty()) return *this;
    if (rest_.starts_with(literal)) {
      rest_.remove_prefix(literal.size());
    } else {
      Fail("expected \"" + Printable(literal) + "\"");
    }
    return *this;
  }
  // Up to the next of `ends`.
  std::string_view Word(std::string_view ends = " \n") {
    const std::string_view word = rest_.substr(0, rest_.find_first_of(ends));
    rest_.remove_prefix(word.size());
    return word;
  }
  std::string Token() {
    const std::string_view word = Word();
    if (!IsValidToken(word)) Fail("a word is empty, longer than 255 bytes, or not printable");
    return std::string(word);
  }
  template <typename Number>
  Number Decimal(std::string_view ends = " \n") {
    const std::string_view word = Word(ends);
    Number value{};
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
    if (error != std::errc() || word != std::to_string(value)) {
      Fail("\"" + Printable(word) + "\" is not a number in range");
    }
    return value;
  }
  uint64_t Hex() {
    const std::string_view word = Word();
    uint64_t value = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value, 16);
    if (error != std::errc() || word != Hex16(value)) {
      Fail("\"" + Printable(word) + "\" is not 16 hex digits");
    }
    return value;
  }
  // The number of a line that may be missing, which stands for 0.
  uint64_t HexLine(std::string_view name) {
    if (!NextIs(name)) return 0;
    const uint64_t value = Expect(name).Hex();
    if (value == 0) Fail(fmt::format("{}0 stands for no such line", name));
    EndLine();
    return value;
  }
  void Fail(std::string_view problem) {
    if (problem_.empty()) problem_ = fmt::format("line {}: {}", line_, problem);
    rest_ = {};
  }
  void EndLine() {
    Expect("\n");
    ++line_;
  }

 private:
  static std::string Printable(std::string_view text) {
    std::string out;
    for (const char c : text.substr(0, 40))
      out += c >= ' ' && c <= '~' ? c : (c == '\n' ? '|' : '?');
    return out;
  }

  std::string_view rest_;
  std::string problem_;
  int line_ = 1;
};

}  // namespace internal

// Requires (unchecked): `record` is valid, so that ParseStoreRecord would accept it.
inline std::string EncodeStoreRecord(const StoreRecord& record) {
  std::string text(kStoreRecordFirstLine);
  text += fmt::format(
      "\nstore={}\nstore_id={:016x}\nfabric={}\nnode_bytes={}\nmax_key_bytes={}\n"
      "inline_value_bytes={}\nnext_server={}\n",
      record.store, record.store_id, record.fabric, record.parameters.node_bytes,
      record.parameters.max_key_bytes, record.parameters.inline_value_bytes, record.next_server);
  if (record.restored != 0) text += fmt::format("restored={:016x}\n", record.restored);
  for (const AwaitedRecord& one : record.awaited) {
    text += fmt::format("awaits={}:{:016x}\n", ToInteger(one.server), one.set);
  }
  if (record.save != 0) text += fmt::format("save={:016x}\n", record.save);
  for (const MemberRecord& member : record.servers) {
    text += fmt::format("server={} incarnation={:016x} host={} process={} address={}",
                        ToInteger(member.server), member.incarnation, member.host, member.process,
                        member.address);
    if (!member.formats.empty()) text += " formats=" + member.formats;
    if (!member.region.empty()) text += " region=" + member.region;
    if (member.saved) text += fmt::format(" saved={:016x}", *member.saved);
    if (member.stop) text += " stop";
    text += '\n';
  }
  return text;
}

// Returns nullopt when `text` is not a store record, and sets `problem` to a phrase such as
// `line 3: "zz" is not 16 hex digits`.
inline std::optional<StoreRecord> ParseStoreRecord(std::string_view text, std::string& problem) {
  if (text.size() > kMaxStoreRecordBytes) {
    problem = fmt::format("{} bytes are more than a store record can have", text.size());
    return std::nullopt;
  }
  StoreRecord record;
  internal::RecordReader reader(text);
  reader.Expect(kStoreRecordFirstLine);
  reader.EndLine();
  record.store = reader.Expect("store=").Token();
  if (!IsValidStoreName(record.store))
    reader.Fail("the store's name has other characters than [A-Za-z0-9._-]");
  reader.EndLine();
  record.store_id = reader.Expect("store_id=").Hex();
  reader.EndLine();
  record.fabric = reader.Expect("fabric=").Token();
  reader.EndLine();
  record.parameters.node_bytes = reader.Expect("node_bytes=").Decimal<uint32_t>();
  reader.EndLine();
  record.parameters.max_key_bytes = reader.Expect("max_key_bytes=").Decimal<uint16_t>();
  reader.EndLine();
  record.parameters.inline_value_bytes = reader.Expect("inline_value_bytes=").Decimal<uint16_t>();
  if (!IsStorable(record.parameters)) reader.Fail("the store's parameters are out of range");
  reader.EndLine();
  record.next_server = reader.Expect("next_server=").Decimal<uint16_t>();
  if (record.next_server > kMaxMemoryServers) {
    reader.Fail(fmt::format("next_server is {}, a store has server ids below {}",
                            record.next_server, kMaxMemoryServers));
  }
  reader.EndLine();
  record.restored = reader.HexLine("restored=");
  const uint64_t earlier_set = reader.HexLine("set=");
  while (reader.NextIs("awaits=")) {
    const auto server = static_cast<ServerId>(reader.Expect("awaits=").Decimal<uint16_t>(":"));
    const uint64_t set = reader.Expect(":").Hex();
    const bool is_next = record.awaited.empty() || record.awaited.back().server < server;
    if (!is_next || ToInteger(server) >= record.next_server || set == 0) {
      reader.Fail("an awaited server is out of order, or there is no such server or set");
    }
    reader.EndLine();
    record.awaited.push_back({server, set});
  }
  record.save = reader.HexLine("save=");
  while (!reader.done()) {
    MemberRecord member;
    member.server = static_cast<ServerId>(reader.Expect("server=").Decimal<uint16_t>());
    member.incarnation = reader.Expect(" incarnation=").Hex();
    member.host = reader.Expect(" host=").Token();
    member.process = reader.Expect(" process=").Token();
    member.address = reader.Expect(" address=").Token();
    if (reader.NextIs(" formats=")) member.formats = reader.Expect(" formats=").Token();
    if (reader.NextIs(" region=")) member.region = reader.Expect(" region=").Token();
    if (reader.NextIs(" saved=")) member.saved = reader.Expect(" saved=").Hex();
    member.stop = reader.NextIs(" stop");
    if (member.stop) reader.Expect(" stop");
    if (!record.servers.empty() && member.server <= record.servers.back().server) {
      reader.Fail(fmt::format("server {} is out of order or twice", ToInteger(member.server)));
    }
    if (ToInteger(member.server) >= record.next_server)
      reader.Fail("a server's id is not below next_server");
    reader.EndLine();
    if (record.AwaitedSetOf(member.server) != 0) reader.Fail("a server is there, and awaited");
    record.servers.push_back(std::move(member));
  }
  problem = reader.problem();
  if (!problem.empty()) return std::nullopt;
  for (uint16_t id = 0; earlier_set != 0 && id < record.next_server; ++id) {
    const bool is_awaited = record.Find(ServerId{id}) == nullptr;
    if (is_awaited) record.awaited.push_back({ServerId{id}, earlier_set});
  }
  return record;
}

}  // namespace gossamer
