// CostFixture: a store, and the cost of single operations on it.
//
// The store runs in this process, over shared memory or in an ideal simulated network. With
// GOSSAMER_TEST_BOOTSTRAP it is a running store, reached over GOSSAMER_TEST_FABRIC. That store must
// be empty, with the test's name, the parameters of kEightByteStore, and the number of memory
// servers that the test asks for. As it may be slow, tests use a tenth of the keys there.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <string>
#include <vector>

#include "common/fabric/sim/sim.h"
#include "common/testing/seed.h"
#include "compute/lock/lock_table.h"
#include "compute/store/testing/test_cluster.h"
#include "gossamer/store.h"

namespace gossamer {

inline constexpr StoreParameters kEightByteStore = {1024, 8, 8};
inline constexpr uint32_t kUnitBytes = 164;
inline constexpr uint32_t kLeafBytes = 1024;

enum class TestFabric : uint8_t { kShm, kSim, kRunning };

// The fabrics available to a test of this process.
std::vector<TestFabric> TestFabrics();
std::string NameOfFabric(const testing::TestParamInfo<TestFabric>& fabric);

// One line, for comparisons.
std::string Text(const WireCounts& counts);

class CostFixture : public testing::Test {
 protected:
  explicit CostFixture(TestFabric fabric) : fabric_(fabric) {}

  size_t Scaled(size_t count) const { return fabric_ == TestFabric::kRunning ? count / 10 : count; }
  void Open(const StoreParameters& parameters, size_t servers = 1);
  // Opens the store as another compute server.
  std::unique_ptr<Store> OpenAnother();

  static std::string EightBytes(uint64_t number) { return NumberKey(number); }
  void LoadRandom(size_t count);
  // Reads everything once, so that the cache and its overflow hints know every leaf.
  static void WarmUp(Session& session);
  void WarmUp() { WarmUp(*session_); }
  // Opens a store for keys of 8 bytes, and loads and reads 20,000 of them.
  void OpenLoaded(size_t servers = 1);

  // What one call of `operate` adds to the counters of `kind`.
  template <typename Operate>
  static WireCounts CostOf(Session& session, OperationClass kind, Operate&& operate) {
    const WireCounts before = session.counters().of(kind);
    operate();
    return Since(before, session.counters().of(kind));
  }
  template <typename Operate>
  WireCounts CostOf(OperationClass kind, Operate&& operate) {
    return CostOf(*session_, kind, operate);
  }
  // Cost of an operation that succeeds.
  static WireCounts CostOfGet(Session& session, const std::string& key);
  static WireCounts CostOfUpdate(Session& session, const std::string& key,
                                 const std::string& value = "abcdefgh");

  // The path to a key, read from the memory servers without being counted.
  struct Path {
    uint32_t level = 0;  // of the root
    RemotePtr parent;
    RemotePtr leaf;
    Key low;  // where the leaf starts
  };
  Path PathTo(const std::string& key);
  RemotePtr SiblingOf(const Path& path);
  // Whether the nodes' locks share a queue of this compute server, so that a split cannot take both
  // at once.
  bool ShareTurns(RemotePtr a, RemotePtr b);
  // One key of each of `count` leaves that do not share a lock or its turn with another of them.
  std::vector<std::string> KeysOfLeaves(size_t count);

  std::mt19937_64 random_{TestSeed()};
  std::vector<std::string> keys_;
  const TestFabric fabric_;
  std::unique_ptr<SimNetwork> network_;
  std::unique_ptr<TestCluster> cluster_;
  std::unique_ptr<Store> store_;
  std::unique_ptr<Session> session_;

 private:
  const std::unique_ptr<LockTable> turns_ = std::make_unique<LockTable>();  // of no store
};

// Each of `keys` with the same value.
std::vector<KeyValueView> WithValue(const std::vector<std::string>& keys, std::string_view value);

}  // namespace gossamer
