#include "common/bootstrap/memcached.h"

#include <fmt/core.h>
#include <libmemcached/memcached.h>

#include <thread>

#include "common/random_id.h"
#include "proto/store_record.h"

namespace gossamer {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr uint64_t kTimeoutMs = 2000;
constexpr milliseconds kJoinPollInterval{50};
constexpr time_t kForever = 0;
constexpr time_t kAbsenceSeconds = 1;

struct Item {
  std::string text;
  uint64_t cas = 0;
};

// One connection to memcached.
class Connection {
 public:
  Connection(const std::string& host, uint16_t port) : connection_(memcached_create(nullptr)) {
    Set(MEMCACHED_BEHAVIOR_SUPPORT_CAS, 1);
    Set(MEMCACHED_BEHAVIOR_TCP_NODELAY, 1);
    Set(MEMCACHED_BEHAVIOR_CONNECT_TIMEOUT, kTimeoutMs);
    Set(MEMCACHED_BEHAVIOR_POLL_TIMEOUT, kTimeoutMs);
    Set(MEMCACHED_BEHAVIOR_SND_TIMEOUT, kTimeoutMs * 1000);
    Set(MEMCACHED_BEHAVIOR_RCV_TIMEOUT, kTimeoutMs * 1000);
    memcached_server_add(connection_, host.c_str(), port);
  }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;
  ~Connection() { memcached_free(connection_); }

  // MEMCACHED_NOTFOUND when there is no such item.
  memcached_return_t Get(const std::string& key, Item& item) {
    const char* keys[] = {key.data()};
    const size_t lengths[] = {key.size()};
    memcached_return_t status = memcached_mget(connection_, keys, lengths, 1);
    if (memcached_failed(status)) return status;
    memcached_result_st* result = memcached_fetch_result(connection_, nullptr, &status);
    if (result == nullptr) return status == MEMCACHED_END ? MEMCACHED_NOTFOUND : status;
    item.text.assign(memcached_result_value(result), memcached_result_length(result));
    item.cas = memcached_result_cas(result);
    memcached_result_free(result);
    // Read the answer to its end.
    while ((result = memcached_fetch_result(connection_, nullptr, &status)) != nullptr) {
      memcached_result_free(result);
    }
    return MEMCACHED_SUCCESS;
  }
  memcached_return_t Add(const std::string& key, const std::string& text, time_t expiry) {
    return memcached_add(connection_, key.data(), key.size(), text.data(), text.size(), expiry, 0);
  }
  memcached_return_t Swap(const std::string& key, const std::string& text, time_t expiry,
                          uint64_t cas) {
    return memcached_cas(connection_, key.data(), key.size(), text.data(), text.size(), expiry, 0,
                         cas);
  }
  std::string Explain(memcached_return_t status) const {
    return memcached_strerror(connection_, status);
  }

 private:
  void Set(memcached_behavior_t behavior, uint64_t value) {
    memcached_behavior_set(connection_, behavior, value);
  }

  memcached_st* connection_;
};

// Whether another client's change came first.
bool IsLost(memcached_return_t status) {
  return status == MEMCACHED_NOTSTORED || status == MEMCACHED_DATA_EXISTS ||
         status == MEMCACHED_NOTFOUND;
}

std::string TextKey(const std::string& name) {
  return (IsNoteName(name) ? "gossamer/note/" : "gossamer/store/") + name;
}
std::string JoinKey(const std::string& store) { return "gossamer/join/" + store; }

// The empty text means absence.
class MemcachedBootstrap final : public Bootstrap {
 public:
  MemcachedBootstrap(std::string host, uint16_t port) : host_(std::move(host)), port_(port) {}

  Result<std::optional<std::string>> Get(const std::string& name) override {
    BOOST_OUTCOME_TRY(CheckTextName(name));
    Connection connection(host_, port_);
    Item item;
    const memcached_return_t status = connection.Get(TextKey(name), item);
    if (status != MEMCACHED_NOTFOUND && status != MEMCACHED_SUCCESS) {
      return Unreachable(connection, status);
    }
    return item.text.empty() ? std::nullopt : std::optional<std::string>(std::move(item.text));
  }

  Result<bool> CompareAndSwap(const std::string& name, const std::optional<std::string>& expected,
                              const std::optional<std::string>& desired) override {
    BOOST_OUTCOME_TRY(CheckTextName(name));
    const time_t expiry = IsNoteName(name) ? kNoteSeconds : kForever;
    return Swap(TextKey(name), expected.value_or(""), desired.value_or(""),
                desired ? expiry : kAbsenceSeconds);
  }

  Result<Held> LockForJoin(const std::string& store, milliseconds patience) override {
    BOOST_OUTCOME_TRY(CheckStoreName(store));
    const std::string token = std::to_string(RandomId());
    const auto deadline = steady_clock::now() + patience;
    while (true) {
      BOOST_OUTCOME_TRY(locked, Swap(JoinKey(store), "", token, kJoinLockSeconds));
      if (locked) {
        // Ignores failure, and a lock that another server has by now: the item expires.
        const auto own = std::make_shared<MemcachedBootstrap>(*this);
        return Held(own.get(), [own, key = JoinKey(store), token](void*) {
          (void)own->Swap(key, token, "", kAbsenceSeconds);
        });
      }
      if (steady_clock::now() >= deadline) {
        return MakeError(
            Code::kContended,
            fmt::format("other memory servers have been joining store '{}' for {} ms; try again",
                        store, patience.count()));
      }
      std::this_thread::sleep_for(kJoinPollInterval);
    }
  }

  // Does nothing: an item for it would be lost with the record.
  Result<Held> Announce(const std::string& store) override {
    BOOST_OUTCOME_TRY(CheckStoreName(store));
    return Held();
  }
  Result<bool> MayHaveMembers(const std::string& store) override {
    BOOST_OUTCOME_TRY(CheckStoreName(store));
    return true;
  }
  milliseconds republish_wait() const override {
    return milliseconds(kTimeoutMs) + 2 * kLookInterval;
  }

  std::string url() const override {
    const bool ipv6 = host_.find(':') != std::string::npos;
    return fmt::format("memcached://{}:{}", ipv6 ? "[" + host_ + "]" : host_, port_);
  }

 private:
  // Retries when an empty item expires between the two steps.
  Result<bool> Swap(const std::string& key, const std::string& expected, const std::string& desired,
                    time_t expiry) const {
    if (desired.size() > kMaxStoreRecordBytes) {
      return MakeError(
          Code::kInvalidArgument,
          fmt::format("a record of {} bytes is too long for memcached", desired.size()));
    }
    Connection connection(host_, port_);
    memcached_return_t status = MEMCACHED_NOTFOUND;
    for (int attempt = 0; attempt < 3; ++attempt) {
      Item item;
      status = connection.Get(key, item);
      if (status == MEMCACHED_NOTFOUND) {
        if (!expected.empty()) return false;
        if (desired.empty()) return true;
        status = connection.Add(key, desired, expiry);
      } else if (status == MEMCACHED_SUCCESS) {
        if (item.text != expected) return false;
        status = connection.Swap(key, desired, expiry, item.cas);
      }
      if (status == MEMCACHED_SUCCESS) return true;
      if (!IsLost(status)) return Unreachable(connection, status);
    }
    return false;
  }

  Error Unreachable(const Connection& connection, memcached_return_t status) const {
    return MakeError(
        Code::kNodeUnreachable,
        fmt::format("memcached at host {} port {} does not answer ({}); start it there, or give "
                    "--bootstrap=memcached://HOST:PORT of one that runs",
                    host_, port_, connection.Explain(status)));
  }

  std::string host_;
  uint16_t port_;
};

}  // namespace

Result<std::unique_ptr<Bootstrap>> OpenMemcached(const std::string& host, uint16_t port) {
  return std::unique_ptr<Bootstrap>(std::make_unique<MemcachedBootstrap>(host, port));
}

}  // namespace gossamer
