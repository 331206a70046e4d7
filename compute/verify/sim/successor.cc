#include "compute/verify/sim/successor.h"

#include <fmt/core.h>

#include "common/fabric/open/open_port.h"
#include "common/text/human.h"

namespace gossamer::simulator {
namespace {

// Far from the numbers of a run's stores and clients.
constexpr uint64_t kFirstIncarnation = 1'000'000;
constexpr uint64_t kFirstClient = uint64_t{1} << 40;
constexpr std::string_view kValue = "foreign";

}  // namespace

Result<std::unique_ptr<Successor>> Successor::Start(
    EmbeddedMemoryOptions options, const std::string& address, uint32_t number, uint32_t keys,
    const std::function<std::string(uint32_t)>& text) {
  std::unique_ptr<Successor> successor(new Successor());
  StoreRecord record;
  record.store = "foreign";
  record.store_id = kFirstIncarnation + number;
  record.fabric = FabricKindName(FabricKind::kSim);
  record.parameters = options.parameters;
  record.next_server = 1;
  record.servers.resize(1);
  record.servers[0].incarnation = kFirstIncarnation + number;
  record.servers[0].address = address;
  options.listen = address;
  options.identity = {record.store_id, record.servers[0].incarnation, ServerId{0}};
  BOOST_OUTCOME_TRY(memory, StartEmbeddedMemory(options));
  successor->memory_ = std::move(memory);
  ComputePortOptions port_options;
  port_options.client_uuid = kFirstClient + number;
  port_options.network = options.network;
  BOOST_OUTCOME_TRY(port, OpenComputePort(FabricKind::kSim, port_options));
  TreeOptions tree;
  tree.seed = number + 1;
  BOOST_OUTCOME_TRY(store, OpenStore::OpenOn(std::move(port), record, tree));
  successor->store_ = std::move(store);
  BOOST_OUTCOME_TRY(session, successor->store_->NewSession());
  for (uint32_t key = 0; key < keys; ++key) {
    const Status put = session->Put(text(key), kValue);
    if (put) {
      ++successor->keys_;
    } else if (put.error().code != Code::kExhausted) {
      return put.error();
    }
  }
  BOOST_OUTCOME_TRY(stat, successor->store_->Stat());
  successor->registered_ = stat.servers[0].compute_servers;
  return successor;
}

std::optional<std::string> Successor::FindChange() {
  const std::string name = "the store at the address of a memory server that died ";
  const Result<CheckReport> report = store_->Check({});
  if (!report) return name + "cannot be checked: " + report.error().ToString();
  const std::vector<std::string>& problems = report.value().problems;
  if (!problems.empty()) return name + "is damaged: " + problems.front();
  if (report.value().keys != keys_) {
    return fmt::format("{}has {}, not {}", name, HumanQuantity(report.value().keys, "key"), keys_);
  }
  const Result<StoreStat> stat = store_->Stat();
  if (!stat) return name + "cannot be asked: " + stat.error().ToString();
  if (stat.value().servers[0].compute_servers > registered_) {
    return name + "has registered compute servers of the store before";
  }
  return std::nullopt;
}

}  // namespace gossamer::simulator
