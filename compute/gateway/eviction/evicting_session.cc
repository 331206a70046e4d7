#include "compute/gateway/eviction/evicting_session.h"

#include <algorithm>
#include <cassert>
#include <vector>

#include "proto/key.h"
#include "proto/value_block.h"

namespace gossamer::gateway {
namespace {

// What a key takes beside key and value, about: its share of a leaf that is two thirds full, and
// the rest of its block.
constexpr uint64_t kBytesBeside = 64;
// What a modification may bring: what it makes of the value is not known.
constexpr uint64_t kBytesOfChange = 256;

uint64_t BytesOf(std::string_view key, std::string_view value) {
  return key.size() + value.size() + kBytesBeside;
}

bool IsRefused(const Status& status) { return !status && status.error().code == Code::kExhausted; }

}  // namespace

void EvictingSession::NoteRead(std::string_view key, bool is_found) {
  const uint64_t hash = KeyHash(key);
  const bool is_known = heat_->Use(hash);
  if (is_known && !is_found) heat_->Missed(hash);
}

Task<Result<std::string>> EvictingSession::AsyncGet(std::string_view key) {
  Result<std::string> value = co_await session_->AsyncGet(key);
  if (heat_ != nullptr) {
    NoteRead(key, value.has_value());
    heat_->Advance(1, evictor_.keys_in_store());
  }
  co_return value;
}

Task<Result<ExpiringValue>> EvictingSession::AsyncGetWithExpiry(std::string_view key) {
  Result<ExpiringValue> value = co_await session_->AsyncGetWithExpiry(key);
  if (heat_ != nullptr) {
    NoteRead(key, value.has_value());
    heat_->Advance(1, evictor_.keys_in_store());
  }
  co_return value;
}

Task<void> EvictingSession::AsyncMultiGet(std::span<const std::string_view> keys, Values& values) {
  co_await session_->AsyncMultiGet(keys, values);
  if (heat_ == nullptr) co_return;
  for (size_t i = 0; i < keys.size(); ++i) {
    NoteRead(keys[i], !values.is_absent(i));
  }
  heat_->Advance(keys.size(), evictor_.keys_in_store());
}

template <typename Write, typename BytesOf>
Task<void> EvictingSession::TryAgain(std::span<Status> results, Write write, BytesOf bytes_of) {
  Evictor::Refusal refusal;
  std::vector<size_t> places;
  for (;;) {
    places.clear();
    refusal.bytes = 0;
    refusal.wanted_blocks.clear();
    for (size_t i = 0; i < results.size(); ++i) {
      if (!IsRefused(results[i])) continue;
      places.push_back(i);
      refusal.bytes += bytes_of(i);
      refusal.wanted_blocks.push_back(BlockBytes(static_cast<uint32_t>(bytes_of(i))));
    }
    if (places.empty()) co_return;
    const bool goes_on = co_await evictor_.MakeRoomFor(*session_, refusal);
    if (!goes_on) break;
    co_await write(places);
  }
  evictor_.NoteFailures(places.size());
}

template <typename One, typename Write, typename BytesOf>
Task<void> EvictingSession::TryRefused(std::span<const One> all, std::span<Status> results,
                                       Write write, BytesOf bytes_of) {
  if (std::ranges::none_of(results, IsRefused)) co_return;
  std::vector<One> refused;
  std::vector<Status> refused_results;
  const auto again = [&](const std::vector<size_t>& places) -> Task<void> {
    refused.clear();
    for (const size_t place : places) refused.push_back(all[place]);
    refused_results.assign(places.size(), Ok());
    co_await write(std::span<const One>(refused), std::span(refused_results));
    for (size_t i = 0; i < places.size(); ++i) results[places[i]] = std::move(refused_results[i]);
  };
  co_await TryAgain(results, again, [&](size_t place) { return bytes_of(all[place]); });
}

template <typename Write>
Task<Status> EvictingSession::WriteOne(std::string_view key, uint64_t bytes, Write write) {
  if (heat_ != nullptr) heat_->Refresh(KeyHash(key));
  const bool has_room = evictor_.HasRoomFor(bytes);
  if (!has_room) co_await evictor_.MakeRoom(*session_, bytes);
  Status status = co_await write();
  if (!IsRefused(status)) co_return status;
  Status results[] = {std::move(status)};
  const auto again = [&write, &results](const std::vector<size_t>&) -> Task<void> {
    results[0] = co_await write();
  };
  co_await TryAgain(results, again, [bytes](size_t) { return bytes; });
  co_return std::move(results[0]);
}

Task<Status> EvictingSession::AsyncPut(std::string_view key, std::string_view value,
                                       Expiry expiry) {
  return WriteOne(key, BytesOf(key, value),
                  [this, key, value, expiry] { return session_->AsyncPut(key, value, expiry); });
}

Task<Status> EvictingSession::AsyncInsert(std::string_view key, std::string_view value,
                                          Expiry expiry) {
  return WriteOne(key, BytesOf(key, value),
                  [this, key, value, expiry] { return session_->AsyncInsert(key, value, expiry); });
}

Task<Status> EvictingSession::AsyncUpdate(std::string_view key, std::string_view value,
                                          Expiry expiry) {
  return WriteOne(key, BytesOf(key, value),
                  [this, key, value, expiry] { return session_->AsyncUpdate(key, value, expiry); });
}

Task<Status> EvictingSession::AsyncModify(std::string_view key, ValueModifier& modifier) {
  if (heat_ != nullptr) {
    heat_->Use(KeyHash(key));
    heat_->Advance(1, evictor_.keys_in_store());
  }
  return WriteOne(key, kBytesOfChange,
                  [this, key, &modifier] { return session_->AsyncModify(key, modifier); });
}

Task<void> EvictingSession::AsyncMultiPut(std::span<const KeyValueView> pairs,
                                          std::span<Status> results) {
  assert(results.size() == pairs.size());
  uint64_t bytes = 0;
  for (const KeyValueView& pair : pairs) {
    bytes += BytesOf(pair.key, pair.value);
    if (heat_ != nullptr) heat_->Refresh(KeyHash(pair.key));
  }
  const bool has_room = evictor_.HasRoomFor(bytes);
  if (!has_room) co_await evictor_.MakeRoom(*session_, bytes);
  co_await session_->AsyncMultiPut(pairs, results);
  const auto write = [this](std::span<const KeyValueView> some, std::span<Status> own) {
    return session_->AsyncMultiPut(some, own);
  };
  co_await TryRefused(pairs, results, write,
                      [](const KeyValueView& one) { return one.value.size(); });
}

Task<void> EvictingSession::AsyncMultiModify(std::span<const KeyModifier> modifiers,
                                             std::span<Status> results) {
  assert(results.size() == modifiers.size());
  if (heat_ != nullptr) {
    for (const KeyModifier& one : modifiers) heat_->Use(KeyHash(one.key));
    heat_->Advance(modifiers.size(), evictor_.keys_in_store());
  }
  const uint64_t bytes = kBytesOfChange * modifiers.size();
  const bool has_room = evictor_.HasRoomFor(bytes);
  if (!has_room) co_await evictor_.MakeRoom(*session_, bytes);
  co_await session_->AsyncMultiModify(modifiers, results);
  const auto write = [this](std::span<const KeyModifier> some, std::span<Status> own) {
    return session_->AsyncMultiModify(some, own);
  };
  co_await TryRefused(modifiers, results, write, [](const KeyModifier&) { return kBytesOfChange; });
}

}  // namespace gossamer::gateway
