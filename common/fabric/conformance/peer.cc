// fabric_test_peer: the other process of the conformance suite, to be killed.
//
//   fabric_test_peer server KIND LISTEN        a memory server; prints its address
//   fabric_test_peer writer KIND ADDRESS UUID  WRITEs kill blocks for ever; prints "writing" once
//                                              it has begun
//   fabric_test_peer idler KIND ADDRESS UUID   connects and does nothing; prints "idle"
//
// It ends with its parent.
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <string>

#include "common/fabric/conformance/harness.h"
#include "common/fabric/open/open_port.h"
#include "common/random_id.h"

namespace gossamer::test {
namespace {

[[noreturn]] void WaitForEver() {
  for (;;) ::pause();
}

void Print(const std::string& line) {
  std::printf("%s\n", line.c_str());
  std::fflush(stdout);
}

int Serve(FabricKind kind, const std::string& listen) {
  MemoryPortOptions options;
  options.region_bytes = kRegionBytes;
  options.lock_table_bytes = kLockTableBytes;
  options.listen = listen;
  TestControlHandler handler;
  Result<std::unique_ptr<MemoryPort>> port = OpenMemoryPort(kind, options);
  const Status started = port ? port.value()->Start(handler, RandomId()) : Status(port.error());
  if (!started) {
    std::fprintf(stderr, "%s\n", started.error().ToString().c_str());
    return 1;
  }
  Print(port.value()->address());
  WaitForEver();
}

// Each round gives every block the next value, by one batch of WRITEs.
[[noreturn]] void WriteForEver(TestClient& client) {
  const uint32_t path_mtu = client.endpoint().limits().path_mtu;
  std::vector<BufferLease> buffers;
  for (uint32_t i = 0; i < kKillBlocks; ++i) buffers.push_back(client.Buffer(kKillBlockStride));
  // Continue from an earlier writer's value, so that old and new always differ.
  std::byte value{};
  client.Read(KillBlockOffset(0), {&value, 1});
  for (uint32_t round = static_cast<uint32_t>(value) + 1;; ++round) {
    InlineBatch<kKillBlocks> batch(kServer);
    for (uint32_t i = 0; i < kKillBlocks; ++i) {
      std::memset(buffers[i].data(), static_cast<int>(round & 0xff), KillBlockBytes(i, path_mtu));
      batch.Add(Verb::Write(KillBlockOffset(i), KillBlockBytes(i, path_mtu), buffers[i].address()));
    }
    if (Execute(client.endpoint(), batch) != VerbStatus::kSuccess) ::_exit(2);
    if (round == static_cast<uint32_t>(value) + 1) Print("writing");
  }
}

int Main(int argc, char** argv) {
  const pid_t parent = ::getppid();
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (parent == 1 || ::getppid() != parent) return 2;  // it has ended before
  if (argc < 4) return 2;
  const std::string mode = argv[1];
  const FabricKind kind = ParseFabricKind(argv[2]).value();
  if (mode == "server") return Serve(kind, argv[3]);
  ComputePortOptions options;
  options.client_uuid = std::stoull(argv[4]);
  const std::unique_ptr<ComputePort> port = OpenComputePort(kind, options).value();
  const Status connected = port->Connect(kServer, argv[3]);
  if (!connected) {
    std::fprintf(stderr, "%s\n", connected.error().ToString().c_str());
    return 1;
  }
  TestClient client(*port);
  if (mode == "writer") WriteForEver(client);
  Print("idle");
  WaitForEver();
}

}  // namespace
}  // namespace gossamer::test

int main(int argc, char** argv) { return gossamer::test::Main(argc, argv); }
