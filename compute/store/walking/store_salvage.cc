// Store::Salvage: what is left of a store whose root is lost.
#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/bootstrap/bootstrap.h"
#include "common/bootstrap/server_probe.h"
#include "common/fabric/open/open_port.h"
#include "common/random_id.h"
#include "compute/store/walking/leaf_finder.h"
#include "gossamer/store.h"
#include "proto/store_record.h"
#include "proto/value_block.h"

namespace gossamer {
namespace {

Result<StoreRecord> ReadRecord(const OpenOptions& options) {
  BOOST_OUTCOME_TRY(bootstrap, OpenBootstrap(options.bootstrap));
  BOOST_OUTCOME_TRY(text, bootstrap->Get(options.store));
  std::string problem;
  std::optional<StoreRecord> record = text ? ParseStoreRecord(*text, problem) : std::nullopt;
  if (!problem.empty()) return MakeError(Code::kCorruption, "the store's record: " + problem);
  if (!record || record->servers.empty()) {
    return MakeError(Code::kNotFound,
                     "there is no record of store '" + options.store + "' at " + bootstrap->url());
  }
  return *std::move(record);
}

// Connects to the recorded server, and to no other one.
Status Connect(ComputePort& port, std::unique_ptr<Endpoint>& endpoint, const StoreRecord& record,
               const MemberRecord& member) {
  BOOST_OUTCOME_TRYV(port.Connect(member.server, member.address, member.incarnation));
  if (endpoint == nullptr) {
    BOOST_OUTCOME_TRY(made, port.NewEndpoint());
    endpoint = std::move(made);
  }
  BOOST_OUTCOME_TRYV(endpoint->Attach(member.server));
  BOOST_OUTCOME_TRY(header, ReadRegionHeader(*endpoint, member.server));
  if (header.store_id == record.store_id && header.incarnation == member.incarnation) return Ok();
  return MakeError(Code::kNodeUnreachable, "another memory server answers at " + member.address);
}

// The value of an entry, and its whole key; nullopt if they cannot be read.
struct Pair {
  std::string key;
  std::string value;
  Expiry expiry;
};
std::optional<Pair> Complete(LeafFinder& finder, const SalvageReport& report, const Entry& entry) {
  const Expiry expiry = Expiry::FromStored(entry.expires_at);
  if (!entry.has_block()) return Pair{std::string(entry.key), std::string(entry.stored), expiry};
  const BlockRef block = entry.block();
  if (report.unreachable.contains(ToInteger(block.ptr().server()))) return std::nullopt;
  const Result<std::vector<std::byte>> bytes =
      finder.Read(block.ptr().server(), block.ptr().offset(), BlockReadBytes(block.length));
  if (!bytes) return std::nullopt;
  const std::optional<std::string_view> content = DecodeBlock(block, bytes.value());
  if (!content) return std::nullopt;
  if (!entry.is_long()) return Pair{std::string(entry.key), std::string(*content), expiry};
  const std::optional<LongContent> parts = SplitLongContent(*content);
  if (!parts || KeyHash(parts->key) != entry.key_hash()) return std::nullopt;
  return Pair{std::string(parts->key), std::string(parts->value), expiry};
}

}  // namespace

Result<SalvageReport> Store::Salvage(const OpenOptions& options,
                                     const std::function<bool(const KeyValueView&)>& emit) {
  BOOST_OUTCOME_TRY(fabric, ParseFabricKind(options.fabric));
  BOOST_OUTCOME_TRY(record, ReadRecord(options));
  ComputePortOptions port_options;
  port_options.rdma = options.rdma;
  port_options.connection_timeout_ms = options.connection_timeout_ms;
  port_options.client_uuid = RandomId();
  BOOST_OUTCOME_TRY(port, OpenComputePort(fabric, port_options));
  SalvageReport report;
  std::unique_ptr<Endpoint> endpoint;
  std::vector<ServerId> reached;
  // A server that the record does not name any more is gone, too.
  for (uint16_t id = 0; id < record.next_server; ++id) {
    const MemberRecord* const member = record.Find(ServerId{id});
    const Status connected =
        member == nullptr
            ? Status(MakeError(Code::kNodeUnreachable, "it is not in the store's record"))
            : Connect(*port, endpoint, record, *member);
    if (connected) {
      reached.push_back(ServerId{id});
    } else {
      report.unreachable.emplace(id, connected.error());
    }
  }
  if (reached.empty()) {
    return MakeError(Code::kNodeUnreachable, "no memory server of store '" + options.store +
                                                 "' answers: nothing is left of it");
  }
  Scheduler scheduler(*endpoint);
  LeafFinder finder(record.parameters, scheduler);
  for (const ServerId server : reached) {
    BOOST_OUTCOME_TRYV(finder.Look(server));
  }
  const std::vector<LeafFinder::Piece> pieces = finder.Sort();
  report.old_leaves = finder.old_leaves();
  report.unknown_leaves = finder.unknown_leaves();
  const LeafGeometry geometry(record.parameters);
  const uint32_t node_bytes = record.parameters.node_bytes;
  RemotePtr last;
  for (const LeafFinder::Piece& piece : pieces) {
    BOOST_OUTCOME_TRY(image, finder.Read(piece.leaf.server(), piece.leaf.offset(), node_bytes));
    const std::optional<LeafView> leaf = LeafView::Parse(image, piece.leaf, geometry, piece.low);
    if (!leaf) continue;  // a client has changed it meanwhile
    if (std::exchange(last, piece.leaf) != piece.leaf) ++report.leaves;
    std::vector<Entry> entries;
    KeyArena keys;
    leaf->AppendTo(entries, keys);
    std::vector<Pair> pairs;
    for (const Entry& entry : entries) {
      std::optional<Pair> pair = Complete(finder, report, entry);
      if (!pair) {
        const bool is_inside = piece.from.view() <= entry.key && piece.to.Admits(entry.key);
        report.lost_values += is_inside ? 1 : 0;
      } else if (piece.from.view() <= pair->key && piece.to.Admits(pair->key)) {
        pairs.push_back(*std::move(pair));
      }
    }
    std::ranges::sort(pairs, {}, &Pair::key);
    for (const Pair& pair : pairs) {
      if (!emit({pair.key, pair.value, pair.expiry})) return report;
      ++report.keys;
    }
  }
  return report;
}

}  // namespace gossamer
