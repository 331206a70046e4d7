// The harness of the conformance suite: a memory server of the fabric under test, clients that wait
// for their verbs, and processes to kill.
//
// GOSSAMER_TEST_FABRIC (shm, the default, verbs or sim) selects the fabric, GOSSAMER_TEST_LISTEN
// the address where its memory servers listen (verbs: ADDRESS:0). Each test runs once for every
// place where the memory server can be.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "common/fabric/compute_port.h"
#include "common/fabric/fabric.h"
#include "common/fabric/memory_port.h"
#include "common/fabric/sim/sim.h"
#include "common/testing/child_process.h"
#include "common/testing/seed.h"

namespace gossamer::test {

inline constexpr uint64_t kRegionBytes = uint64_t{8} << 20;
inline constexpr uint64_t kLockTableBytes = uint64_t{64} << 10;
inline constexpr ServerId kServer{0};
// Longer than any test takes: a test that reaches it hangs.
inline constexpr std::chrono::seconds kHang{120};

// The blocks that a client killed in mid-WRITE must leave whole: their places and lengths.
inline constexpr uint32_t kKillBlocks = 16;
inline constexpr uint64_t kKillBlockStride = 8192;
inline constexpr uint64_t kKillBlockBase = uint64_t{4} << 20;

// At most one path MTU each (1024 for RoCE over Ethernet frames), mostly long, so that most kills
// strike inside a block.
constexpr uint32_t KillBlockBytes(uint32_t block, uint32_t path_mtu = 4096) {
  constexpr std::array<uint32_t, kKillBlocks> kBytes = {
      4096, 4096, 4095, 1, 4096, 4093, 2048, 4096, 17, 4096, 3001, 164, 4096, 1024, 4096, 8};
  return kBytes[block] < path_mtu ? kBytes[block] : path_mtu;
}

// Odd blocks start at odd offsets.
constexpr uint64_t KillBlockOffset(uint32_t block) {
  return kKillBlockBase + block * kKillBlockStride + block % 2 * 13;
}

struct FabricCase {
  enum class Place : uint8_t { kInProcessOnly, kInProcess, kOtherProcess };
  FabricKind kind = FabricKind::kShm;
  Place place = Place::kInProcess;
  std::string listen;
  std::string faults = "none";  // sim
};

// The cases that GOSSAMER_TEST_FABRIC selects.
std::vector<FabricCase> FabricCases();
// The cases with threads and processes: all but the simulated network, for which sim_test.cc has
// the same tests.
std::vector<FabricCase> ThreadedFabricCases();
std::string FabricCaseName(const testing::TestParamInfo<FabricCase>& info);
void PrintTo(const FabricCase& fabric, std::ostream* out);  // for GoogleTest

// Echoes, tells clients their uuid, counts ClientGone calls, and fences on request.
class TestControlHandler final : public ControlHandler {
 public:
  static constexpr std::byte kEcho{'e'};  // reply: the request
  static constexpr std::byte kWho{'w'};   // reply: 8 bytes, uuid of the caller
  // Request: followed by 8 bytes, a uuid. Reply: 8 bytes, ClientGone calls for it.
  static constexpr std::byte kGone{'g'};
  // Request and reply as kGone. Fences that compute server at the next tick.
  static constexpr std::byte kFence{'f'};

  uint32_t Handle(uint64_t client_uuid, std::span<const std::byte> request,
                  std::span<std::byte, kMaxControlBytes> reply) override;
  void ClientGone(uint64_t client_uuid) override;
  std::vector<uint64_t> Tick(Endpoint::Clock::time_point now) override;

 private:
  std::mutex mutex_;
  std::map<uint64_t, uint64_t> gone_;
  std::vector<uint64_t> to_fence_;
};

// A process that runs fabric_test_peer. When it ends, what it has written to standard error is the
// test's: a sanitizer's report, say.
class PeerProcess : public ChildProcess {
 public:
  explicit PeerProcess(const std::vector<std::string>& arguments);
  ~PeerProcess();

  // The first line of its output, without the newline; empty when the process has ended.
  std::string ReadLine();
  // SIGKILL, and waits until it is dead.
  void Kill();
  // 'R' running, 'S' sleeping, 'T' stopped ...
  char State() const;
};

// Polls `endpoint` until `done()`. Aborts the program, with `what`, after kHang.
template <typename Done>
void PollUntil(Endpoint& endpoint, const char* what, Done done) {
  const auto deadline = std::chrono::steady_clock::now() + kHang;
  for (uint64_t polls = 1; !done(); ++polls) {
    endpoint.Poll();
    if (polls % 4096 == 0 && std::chrono::steady_clock::now() > deadline) {
      std::fprintf(stderr, "hang: %s\n", what);
      std::abort();
    }
  }
}

// Posts all, waits for all: one round trip.
void ExecuteAll(Endpoint& endpoint, std::span<Batch* const> batches);
VerbStatus Execute(Endpoint& endpoint, Batch& batch);
VerbStatus Execute(Endpoint& endpoint, ControlCall& call);

// One endpoint, with blocking verbs.
class TestClient {
 public:
  explicit TestClient(ComputePort& port);

  Endpoint& endpoint() { return *endpoint_; }
  BufferLease Buffer(size_t bytes);

  VerbStatus Read(uint64_t offset, std::span<std::byte> into, Space space = Space::kRegion);
  VerbStatus Write(uint64_t offset, std::span<const std::byte> from, Space space = Space::kRegion);
  VerbStatus Fill(uint64_t offset, uint32_t bytes, std::byte value);
  // Atomics that must succeed as verbs. Return the old value.
  uint64_t CompareSwap(Space space, uint64_t offset, uint64_t compare, uint64_t swap) {
    return OldValue(Verb::CompareSwap(space, offset, compare, swap, scratch_.address()));
  }
  uint64_t FetchAdd(Space space, uint64_t offset, uint64_t addend) {
    return OldValue(Verb::FetchAdd(space, offset, addend, scratch_.address()));
  }
  uint64_t Gone(uint64_t client_uuid) { return Ask(TestControlHandler::kGone, client_uuid); }
  void Fence(uint64_t client_uuid) { Ask(TestControlHandler::kFence, client_uuid); }

 private:
  uint64_t OldValue(const Verb& atomic);
  // Sends a message of `type` about a compute server. Returns the word of the reply.
  uint64_t Ask(std::byte type, uint64_t client_uuid);

  std::unique_ptr<Endpoint> endpoint_;
  BufferLease scratch_;
};

// A value with a check, to distinguish a torn stamp from a whole one.
struct Stamp {
  uint64_t value = 0;
  uint64_t check = 0;

  static Stamp Of(uint64_t value);
  static std::optional<uint64_t> Parse(const std::byte* bytes);  // empty: torn
  void Store(std::byte* bytes) const;
};

class FabricConformance : public testing::TestWithParam<FabricCase> {
 protected:
  void SetUp() override;
  void TearDown() override;

  const std::string& address() const { return address_; }
  bool server_in_other_process() const { return server_process_ != nullptr; }
  MemoryPort& memory_port() { return *memory_port_; }
  PeerProcess& server_process() { return *server_process_; }
  TestControlHandler& handler() { return handler_; }

  SimNetwork& network() { return *network_; }
  static uint64_t NewUuid();
  std::unique_ptr<ComputePort> NewPort(uint64_t uuid = NewUuid());
  // Arguments of a peer that connects to this server.
  std::vector<std::string> PeerArguments(const std::string& mode, uint64_t uuid) const;

 private:
  std::unique_ptr<SimNetwork> network_;  // sim
  TestControlHandler handler_;
  std::unique_ptr<MemoryPort> memory_port_;
  std::unique_ptr<PeerProcess> server_process_;
  std::string address_;
};

}  // namespace gossamer::test
