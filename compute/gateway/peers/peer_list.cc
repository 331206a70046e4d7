#include "compute/gateway/peers/peer_list.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

namespace gossamer::gateway {
namespace {

constexpr std::string_view kPeersFirstLine = "gossamer-peers 1\n";
constexpr int kMostTries = 10;

// Takes what is before the next `end` off the front of `rest`.
std::string_view TakeUpTo(char end, std::string_view& rest) {
  const std::string_view word = rest.substr(0, rest.find(end));
  rest.remove_prefix(std::min(word.size() + 1, rest.size()));
  return word;
}

template <typename Number>
bool ParseWhole(std::string_view text, int base, Number& to) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), to, base);
  return error == std::errc() && end == text.data() + text.size();
}

std::optional<Peer> ParseLine(std::string_view line) {
  std::array<std::string_view, 5> values;
  constexpr std::array<std::string_view, 5> kNames{"peer=", "host=", "address=", "token=", "beat="};
  for (size_t i = 0; i < values.size(); ++i) {
    std::string_view word = TakeUpTo(' ', line);
    if (!word.starts_with(kNames[i]) || word.size() == kNames[i].size()) return std::nullopt;
    word.remove_prefix(kNames[i].size());
    values[i] = word;
  }
  Peer peer{0, std::string(values[1]), std::string(values[2]), std::string(values[3]), 0};
  const bool is_right = ParseWhole(values[0], 16, peer.id) && ParseWhole(values[4], 10, peer.beat);
  return is_right ? std::optional(std::move(peer)) : std::nullopt;
}

}  // namespace

std::string EncodePeers(const std::vector<Peer>& peers) {
  std::string text(kPeersFirstLine);
  for (const Peer& one : peers) {
    text += fmt::format("peer={:016x} host={} address={} token={} beat={}\n", one.id, one.host,
                        one.address, one.token, one.beat);
  }
  return text;
}

std::optional<std::vector<Peer>> ParsePeers(std::string_view text) {
  if (!text.starts_with(kPeersFirstLine)) return std::nullopt;
  text.remove_prefix(kPeersFirstLine.size());
  std::vector<Peer> peers;
  while (!text.empty()) {
    if (std::optional<Peer> peer = ParseLine(TakeUpTo('\n', text))) {
      peers.push_back(std::move(*peer));
    }
  }
  return peers;
}

Result<bool> PeerList::TryLook(Clock::time_point now, bool stays, std::vector<Peer>& others) {
  BOOST_OUTCOME_TRY(text, bootstrap_.Get(note_));
  std::optional<std::vector<Peer>> peers = ParsePeers(text ? *text : kPeersFirstLine);
  if (!peers) {
    return MakeError(Code::kInvalidArgument,
                     "the note " + note_ + " of the bootstrap is of another version of Gossamer");
  }
  const auto is_self = [this](const Peer& one) { return one.id == self_.id; };
  const bool has_self = std::erase_if(*peers, is_self) != 0;
  const bool must_write = stays ? !has_self || now >= next_beat_ : has_self;
  std::erase_if(*peers, [&](const Peer& one) {
    Seen& seen = seen_.try_emplace(one.id, Seen{one.beat, now}).first->second;
    if (seen.beat != one.beat) seen = {one.beat, now};
    return now - seen.since >= kForgotten;
  });
  others = *peers;
  if (!must_write) return true;
  if (stays) {
    ++self_.beat;
    peers->push_back(self_);
  }
  std::optional<std::string> next;
  if (!peers->empty()) next = EncodePeers(*peers);
  BOOST_OUTCOME_TRY(is_written, bootstrap_.CompareAndSwap(note_, text, next));
  if (is_written) next_beat_ = now + kBeat;
  return is_written;
}

Result<std::vector<Peer>> PeerList::Look(Clock::time_point now) {
  std::vector<Peer> others;
  for (int i = 0; i < kMostTries; ++i) {
    BOOST_OUTCOME_TRY(is_done, TryLook(now, !self_.address.empty(), others));
    if (!is_done) continue;
    std::erase_if(seen_, [&](const auto& seen) {
      return std::ranges::find(others, seen.first, &Peer::id) == others.end() &&
             now - seen.second.since > 2 * kForgotten;
    });
    return others;
  }
  return MakeError(Code::kContended, "the note " + note_ + " of the bootstrap keeps changing");
}

Status PeerList::Leave() {
  std::vector<Peer> others;
  for (int i = 0; i < kMostTries; ++i) {
    BOOST_OUTCOME_TRY(is_done, TryLook(Clock::now(), false, others));
    if (is_done) return Ok();
  }
  return MakeError(Code::kContended, "the note " + note_ + " of the bootstrap keeps changing");
}

}  // namespace gossamer::gateway
