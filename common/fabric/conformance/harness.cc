#include "common/fabric/conformance/harness.h"

#include <fmt/core.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <utility>

#include "common/fabric/open/open_port.h"
#include "common/random.h"
#include "common/random_id.h"

namespace gossamer::test {
namespace {

std::string Environment(const char* name, const char* otherwise) {
  const char* value = std::getenv(name);
  return value == nullptr ? otherwise : value;
}

uint64_t LoadWord(const std::byte* bytes) {
  uint64_t word;
  std::memcpy(&word, bytes, sizeof word);
  return word;
}

// With the program, which is beside this one.
std::vector<std::string> PeerCommand(const std::vector<std::string>& arguments) {
  std::vector<std::string> command = {
      std::filesystem::read_symlink("/proc/self/exe").parent_path() / "fabric_test_peer"};
  command.insert(command.end(), arguments.begin(), arguments.end());
  return command;
}

template <typename Posted>
VerbStatus RunOne(Endpoint& endpoint, Posted& posted) {
  Completion completion{1, std::noop_coroutine()};
  posted.completion = &completion;
  endpoint.Post(posted);
  PollUntil(endpoint, "a verb", [&] { return completion.remaining == 0; });
  if constexpr (std::is_same_v<Posted, ControlCall>) {
    return posted.status;
  } else {
    return posted.status();
  }
}

}  // namespace

std::vector<FabricCase> FabricCases() {
  const std::string name = Environment("GOSSAMER_TEST_FABRIC", "shm");
  using Place = FabricCase::Place;
  if (name == FabricKindName(FabricKind::kSim)) {
    // Without faults, and with all faults that break no queue pair.
    return {{FabricKind::kSim, Place::kInProcessOnly, ""},
            {FabricKind::kSim, Place::kInProcessOnly, "", "tear,delay,reorder,write_back"}};
  }
  const FabricKind kind = ParseFabricKind(name).value();
  const std::string listen =
      Environment("GOSSAMER_TEST_LISTEN", kind == FabricKind::kVerbs ? "192.0.2.1:0" : "");
  std::vector<FabricCase> cases;
  if (kind == FabricKind::kShm) cases.push_back({kind, Place::kInProcessOnly, listen});
  cases.push_back({kind, Place::kInProcess, listen});
  cases.push_back({kind, Place::kOtherProcess, listen});
  return cases;
}

std::vector<FabricCase> ThreadedFabricCases() {
  std::vector<FabricCase> cases = FabricCases();
  std::erase_if(cases, [](const FabricCase& each) { return each.kind == FabricKind::kSim; });
  return cases;
}

std::string FabricCaseName(const testing::TestParamInfo<FabricCase>& info) {
  std::string name(FabricKindName(info.param.kind));
  if (info.param.kind == FabricKind::kSim) {
    return name + (info.param.faults == "none" ? "_ideal" : "_adverse");
  }
  switch (info.param.place) {
    case FabricCase::Place::kInProcessOnly: return name + "_in_process_only";
    case FabricCase::Place::kInProcess: return name + "_in_process";
    case FabricCase::Place::kOtherProcess: return name + "_other_process";
  }
  return name;
}

void PrintTo(const FabricCase& fabric, std::ostream* out) {
  *out << FabricCaseName(testing::TestParamInfo<FabricCase>(fabric, 0));
}

uint32_t TestControlHandler::Handle(uint64_t client_uuid, std::span<const std::byte> request,
                                    std::span<std::byte, kMaxControlBytes> reply) {
  if (request.empty() || request[0] == kEcho) {
    if (!request.empty()) std::memcpy(reply.data(), request.data(), request.size());
    return static_cast<uint32_t>(request.size());
  }
  uint64_t word = client_uuid;
  if (request[0] == kGone) {
    const std::lock_guard guard(mutex_);
    word = gone_[LoadWord(&request[1])];
  }
  if (request[0] == kFence) {
    const std::lock_guard guard(mutex_);
    to_fence_.push_back(LoadWord(&request[1]));
  }
  std::memcpy(reply.data(), &word, sizeof word);
  return sizeof word;
}

void TestControlHandler::ClientGone(uint64_t client_uuid) {
  const std::lock_guard guard(mutex_);
  ++gone_[client_uuid];
}

std::vector<uint64_t> TestControlHandler::Tick(Endpoint::Clock::time_point) {
  const std::lock_guard guard(mutex_);
  return std::exchange(to_fence_, {});
}

PeerProcess::PeerProcess(const std::vector<std::string>& arguments)
    : ChildProcess(PeerCommand(arguments)) {}

PeerProcess::~PeerProcess() {
  Kill();
  std::cerr << standard_error();
}

std::string PeerProcess::ReadLine() {
  WaitForOutput("\n");
  return standard_output().substr(0, standard_output().find('\n'));
}

void PeerProcess::Kill() {
  Signal(SIGKILL);
  Wait();
}

char PeerProcess::State() const {
  std::ifstream stat(fmt::format("/proc/{}/stat", pid()));
  std::string pid;
  std::string name;
  char state = '?';
  stat >> pid >> name >> state;
  return state;
}

void ExecuteAll(Endpoint& endpoint, std::span<Batch* const> batches) {
  Completion completion{static_cast<uint32_t>(batches.size()), std::noop_coroutine()};
  for (Batch* batch : batches) {
    batch->completion = &completion;
    endpoint.Post(*batch);
  }
  PollUntil(endpoint, "batches", [&] { return completion.remaining == 0; });
}

VerbStatus Execute(Endpoint& endpoint, Batch& batch) { return RunOne(endpoint, batch); }
VerbStatus Execute(Endpoint& endpoint, ControlCall& call) { return RunOne(endpoint, call); }

TestClient::TestClient(ComputePort& port) : endpoint_(port.NewEndpoint().value()) {
  scratch_ = Buffer(64);
}

BufferLease TestClient::Buffer(size_t bytes) {
  return endpoint_->buffers().Allocate(bytes).value();
}

VerbStatus TestClient::Read(uint64_t offset, std::span<std::byte> into, Space space) {
  const BufferLease buffer = Buffer(into.size());
  InlineBatch<1> batch(kServer);
  batch.Add(Verb::Read(offset, static_cast<uint32_t>(into.size()), buffer.address(), space));
  const VerbStatus status = Execute(*endpoint_, batch);
  if (!into.empty()) std::memcpy(into.data(), buffer.data(), into.size());
  return status;
}

VerbStatus TestClient::Write(uint64_t offset, std::span<const std::byte> from, Space space) {
  const BufferLease buffer = Buffer(from.size());
  if (!from.empty()) std::memcpy(buffer.data(), from.data(), from.size());
  InlineBatch<1> batch(kServer);
  batch.Add(Verb::Write(offset, static_cast<uint32_t>(from.size()), buffer.address(), space));
  return Execute(*endpoint_, batch);
}

VerbStatus TestClient::Fill(uint64_t offset, uint32_t bytes, std::byte value) {
  return Write(offset, std::vector<std::byte>(bytes, value));
}

uint64_t TestClient::OldValue(const Verb& atomic) {
  InlineBatch<1> batch(kServer);
  batch.Add(atomic);
  EXPECT_EQ(Execute(*endpoint_, batch), VerbStatus::kSuccess);
  return batch.verbs()[0].old_value();
}

uint64_t TestClient::Ask(std::byte type, uint64_t client_uuid) {
  ControlCall call;
  call.server = kServer;
  call.request[0] = type;
  std::memcpy(&call.request[1], &client_uuid, sizeof client_uuid);
  call.request_bytes = 1 + sizeof client_uuid;
  EXPECT_EQ(Execute(*endpoint_, call), VerbStatus::kSuccess);
  EXPECT_EQ(call.reply_bytes, sizeof(uint64_t));
  return LoadWord(call.reply.data());
}

Stamp Stamp::Of(uint64_t value) { return {value, SplitMix64(value).Next()}; }

std::optional<uint64_t> Stamp::Parse(const std::byte* bytes) {
  const uint64_t value = LoadWord(bytes);
  // Memory that was never written is a whole 0.
  if (LoadWord(bytes + 8) != Of(value).check && (value != 0 || LoadWord(bytes + 8) != 0)) return {};
  return value;
}

void Stamp::Store(std::byte* bytes) const {
  std::memcpy(bytes, &value, sizeof value);
  std::memcpy(bytes + 8, &check, sizeof check);
}

void FabricConformance::SetUp() {
  const FabricCase& fabric = GetParam();
  if (fabric.place == FabricCase::Place::kOtherProcess) {
    server_process_ = std::make_unique<PeerProcess>(std::vector<std::string>{
        "server", std::string(FabricKindName(fabric.kind)), fabric.listen});
    address_ = server_process_->ReadLine();
    ASSERT_FALSE(address_.empty())
        << "the server process did not start: " << server_process_->standard_error();
    return;
  }
  if (fabric.kind == FabricKind::kSim) {
    network_ = std::make_unique<SimNetwork>(
        SimOptions{.seed = TestSeed(), .faults = ParseSimFaults(fabric.faults).value()});
  }
  MemoryPortOptions options;
  options.network = network_.get();
  options.region_bytes = kRegionBytes;
  options.lock_table_bytes = kLockTableBytes;
  options.listen = fabric.listen;
  options.in_process_only = fabric.place == FabricCase::Place::kInProcessOnly;
  Result<std::unique_ptr<MemoryPort>> port = OpenMemoryPort(fabric.kind, options);
  ASSERT_TRUE(port) << port.error().ToString();
  memory_port_ = std::move(port).value();
  const Status started = memory_port_->Start(handler_, RandomId());
  ASSERT_TRUE(started) << started.error().ToString();
  address_ = memory_port_->address();
}

void FabricConformance::TearDown() {
  if (server_process_ == nullptr || GetParam().kind != FabricKind::kShm) return;
  // A killed server leaves its socket behind.
  server_process_->Kill();
  std::filesystem::remove(address_);
  std::filesystem::remove(address_ + ".lock");
}

uint64_t FabricConformance::NewUuid() {
  static std::atomic<uint64_t> next{uint64_t{1} << 32};
  return next++;
}

std::unique_ptr<ComputePort> FabricConformance::NewPort(uint64_t uuid) {
  ComputePortOptions options;
  options.client_uuid = uuid;
  options.network = network_.get();
  std::unique_ptr<ComputePort> port = OpenComputePort(GetParam().kind, options).value();
  const Status connected = port->Connect(kServer, address_);
  EXPECT_TRUE(connected) << connected.error().ToString();
  return port;
}

std::vector<std::string> FabricConformance::PeerArguments(const std::string& mode,
                                                          uint64_t uuid) const {
  return {mode, std::string(FabricKindName(GetParam().kind)), address_, std::to_string(uuid)};
}

}  // namespace gossamer::test
