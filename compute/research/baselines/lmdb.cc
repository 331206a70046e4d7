#include <fmt/core.h>
#include <lmdb.h>

#include "compute/research/baselines/baseline.h"

namespace gossamer::bench {
namespace {

Error Failed(const char* what, int code) {
  return MakeError(code == MDB_MAP_FULL ? Code::kExhausted : Code::kUnsupported,
                   std::string("LMDB, ") + what + ": " + mdb_strerror(code));
}

MDB_val ValueOf(std::string_view text) {
  // LMDB does not write through the pointer.
  return {text.size(), const_cast<char*>(text.data())};
}

class Lmdb : public Baseline {
 public:
  explicit Lmdb(size_t value_bytes) : value_bytes_(value_bytes) {}
  ~Lmdb() override {
    if (cursor_ != nullptr) mdb_cursor_close(cursor_);
    if (reader_ != nullptr) mdb_txn_abort(reader_);
    if (environment_ != nullptr) mdb_env_close(environment_);
  }

  Status Start(const std::string& directory, uint64_t map_bytes) {
    constexpr unsigned kFlags = MDB_NOSYNC | MDB_WRITEMAP | MDB_NORDAHEAD;
    constexpr mdb_mode_t kMode = 0600;
    if (const int code = mdb_env_create(&environment_)) return Failed("create", code);
    if (const int code = mdb_env_set_mapsize(environment_, map_bytes)) {
      return Failed("set the size", code);
    }
    if (const int code = mdb_env_open(environment_, directory.c_str(), kFlags, kMode)) {
      return Failed("open", code);
    }
    MDB_txn* transaction = nullptr;
    if (const int code = mdb_txn_begin(environment_, nullptr, 0, &transaction)) {
      return Failed("begin", code);
    }
    if (const int code = mdb_dbi_open(transaction, nullptr, 0, &database_)) {
      mdb_txn_abort(transaction);
      return Failed("open the database", code);
    }
    if (const int code = mdb_txn_commit(transaction)) return Failed("commit", code);
    return Ok();
  }

  std::string version() const override {
    return fmt::format("{}.{}.{}", MDB_VERSION_MAJOR, MDB_VERSION_MINOR, MDB_VERSION_PATCH);
  }
  std::string description() const override { return "in process, no fsync, writable map"; }

  Status Put(std::span<const Pair> pairs) override {
    MDB_txn* transaction = nullptr;
    if (const int code = mdb_txn_begin(environment_, nullptr, 0, &transaction)) {
      return Failed("begin", code);
    }
    for (const Pair& pair : pairs) {
      MDB_val key = ValueOf(pair.key);
      MDB_val value = ValueOf(pair.value);
      if (const int code = mdb_put(transaction, database_, &key, &value, 0)) {
        mdb_txn_abort(transaction);
        return Failed("put", code);
      }
    }
    if (const int code = mdb_txn_commit(transaction)) return Failed("commit", code);
    return Ok();
  }

  Status Get(std::span<const std::string_view> keys) override {
    const int begun = reader_ == nullptr
                          ? mdb_txn_begin(environment_, nullptr, MDB_RDONLY, &reader_)
                          : mdb_txn_renew(reader_);
    if (begun != 0) return Failed("begin to read", begun);
    std::string copy;  // the other stores return a copy too
    for (const std::string_view text : keys) {
      MDB_val key = ValueOf(text);
      MDB_val value;
      const int code = mdb_get(reader_, database_, &key, &value);
      if (code == MDB_NOTFOUND) continue;
      if (code != 0) return Failed("get", code);
      copy.assign(static_cast<const char*>(value.mv_data), value.mv_size);
      found_ += copy.size() == value_bytes_;
    }
    mdb_txn_reset(reader_);
    return Ok();
  }

  Result<uint64_t> Scan(std::string_view from, uint64_t length) override {
    const int begun = mdb_txn_renew(reader_);
    if (begun != 0) return Failed("begin to read", begun);
    const int positioned = cursor_ == nullptr ? mdb_cursor_open(reader_, database_, &cursor_)
                                              : mdb_cursor_renew(reader_, cursor_);
    if (positioned != 0) return Failed("make a cursor", positioned);
    MDB_val key = ValueOf(from);
    MDB_val value;
    uint64_t count = 0;
    int code = mdb_cursor_get(cursor_, &key, &value, MDB_SET_RANGE);
    while (code == 0 && count < length) {
      See({static_cast<const char*>(key.mv_data), key.mv_size},
          {static_cast<const char*>(value.mv_data), value.mv_size});
      if (++count < length) code = mdb_cursor_get(cursor_, &key, &value, MDB_NEXT);
    }
    mdb_txn_reset(reader_);
    if (code != 0 && code != MDB_NOTFOUND) return Failed("scan", code);
    return count;
  }

  Status Finish() override { return Ok(); }
  Result<double> CpuSeconds() override { return OwnCpuSeconds(); }
  uint64_t found() const override { return found_; }

 private:
  const size_t value_bytes_;
  MDB_env* environment_ = nullptr;
  MDB_txn* reader_ = nullptr;  // reset between calls
  MDB_cursor* cursor_ = nullptr;
  MDB_dbi database_ = 0;
  uint64_t found_ = 0;
};

}  // namespace

Result<std::unique_ptr<Baseline>> OpenLmdb(const std::string& directory, uint64_t map_bytes,
                                           size_t value_bytes) {
  auto lmdb = std::make_unique<Lmdb>(value_bytes);
  BOOST_OUTCOME_TRYV(lmdb->Start(directory, map_bytes));
  return std::unique_ptr<Baseline>(std::move(lmdb));
}

}  // namespace gossamer::bench
