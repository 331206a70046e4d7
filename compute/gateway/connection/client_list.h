// ClientList: the clients of all workers, for CLIENT LIST, INFO and KILL.
//
// A client is in the list from its first to its last moment (ClientList::Entry). Its worker writes
// the figures there, by relaxed stores to memory of its own; others read them. CLIENT KILL shuts
// the connection's socket down: the client's worker then finds that it has ended, as if the other
// side had closed it, and does none of the requests that it has not begun. To others, the client is
// gone at once. The mutex of the list keeps the descriptor open meanwhile.
//
// Thread-safety: all calls from any thread; an entry's figures are written by the client's worker.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace gossamer::gateway {

class ClientList {
 public:
  using Clock = std::chrono::steady_clock;

  class Entry {
   public:
    Entry(ClientList& list, uint64_t number, int socket);
    ~Entry();
    Entry(const Entry&) = delete;
    Entry& operator=(const Entry&) = delete;

    uint64_t number() const { return number_; }
    const std::string& address() const { return address_; }
    std::string name() const;
    void set_name(std::string_view name);
    std::string user() const;
    void set_user(std::string_view user);

    bool is_killed() const { return is_killed_.load(std::memory_order_relaxed); }

    // What it has asked last. Requires (unchecked): `name` is a constant.
    void NoteCommand(const std::string_view& name) {
      command_.store(&name, std::memory_order_relaxed);
    }
    void NoteActivity(Clock::time_point now, size_t unparsed, size_t unsent, bool is_resp3) {
      active_at_.store(now.time_since_epoch().count(), std::memory_order_relaxed);
      unparsed_.store(unparsed, std::memory_order_relaxed);
      unsent_.store(unsent, std::memory_order_relaxed);
      is_resp3_.store(is_resp3, std::memory_order_relaxed);
    }
    // How many channels, patterns and shard channels it listens to.
    void NoteSubscriptions(const std::array<size_t, 3>& counts) {
      for (size_t i = 0; i < counts.size(); ++i) {
        subscriptions_[i].store(counts[i], std::memory_order_relaxed);
      }
    }

   private:
    friend class ClientList;
    std::string Line(Clock::time_point now) const;
    bool is_subscriber() const;

    ClientList& list_;
    const uint64_t number_;
    const int socket_;
    const std::string address_;  // of the client, as Redis writes it: 127.0.0.1:1234, or /path:0
    const std::string local_address_;
    const Clock::time_point connected_at_;
    std::string name_;  // and the next: under the list's mutex
    std::string user_ = "default";
    std::atomic<const std::string_view*> command_{nullptr};
    std::atomic<Clock::rep> active_at_;
    std::atomic<size_t> unparsed_{0};
    std::atomic<size_t> unsent_{0};
    std::atomic<bool> is_resp3_{false};
    std::atomic<bool> is_killed_{false};
    std::array<std::atomic<size_t>, 3> subscriptions_{};
  };

  // Which clients are meant; all of them unless something is said.
  struct Filter {
    std::vector<uint64_t> numbers;  // ascending
    std::optional<std::string_view> address;
    std::optional<std::string_view> local_address;
    std::optional<std::string_view> user;
    enum class Type : uint8_t { kAny, kNormal, kSubscriber, kNobody };
    Type type = Type::kAny;  // kNobody: of one that no client here has
    uint64_t except = 0;     // a client's number
  };

  // A line for each client that the filter has, in the order of their numbers, as CLIENT LIST of
  // Redis 7 writes it.
  std::string Lines(const Filter& filter, Clock::time_point now) const;
  std::string LineOf(const Entry& entry, Clock::time_point now) const;
  // Ends the connections that the filter has but that of `self`. Returns how many the filter has,
  // and whether `self` is one.
  std::pair<size_t, bool> Kill(const Filter& filter, const Entry& self);

 private:
  std::vector<Entry*> Find(const Filter& filter) const;

  mutable std::mutex mutex_;
  std::map<uint64_t, Entry*> entries_;  // by number
};

// Names are words of printable characters; empty: none.
bool IsClientName(std::string_view name);
inline constexpr std::string_view kNoClientName =
    "ERR Client names cannot contain spaces, newlines or special characters.";

}  // namespace gossamer::gateway
