#include "compute/verify/sim/membership.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>

#include "common/fabric/fabric.h"

namespace gossamer::simulator {
namespace {

constexpr uint32_t kLooksUntilMended = 2;
constexpr uint32_t kLowMtu = 128;           // below every node size
constexpr uint64_t kOfTheDead = 1'000'000;  // store and incarnation; unused by the servers of a run
constexpr const char* kStore = "sim";

// The record of a store whose memory servers are all dead.
std::string DeadRecord(const StoreParameters& parameters) {
  StoreRecord record;
  record.store = kStore;
  record.store_id = kOfTheDead;
  record.fabric = FabricKindName(FabricKind::kSim);
  record.parameters = parameters;
  record.next_server = 1;
  record.servers.push_back({ServerId{0}, kOfTheDead, "sim", "sim", "sim:99"});
  return EncodeStoreRecord(record);
}

}  // namespace

Membership::Membership(const Plan& plan, SimNetwork& network, Recorder& recorder, Verdict& verdict,
                       Memory& memory)
    : plan_(plan),
      network_(network),
      recorder_(recorder),
      verdict_(verdict),
      memory_(memory),
      next_look_(network.Now()) {}

void Membership::Publish(const StoreRecord& record) {
  bootstrap_->Overwrite(kStore, EncodeStoreRecord(record));
  const auto probe = [this](const StoreRecord& of, const MemberRecord& member) {
    return Ask(of, member);
  };
  for (const MemberRecord& member : record.servers) {
    incarnations_.push_back(member.incarnation);
    const Joined joined{{record.store_id, member.incarnation, member.server}, record};
    members_.push_back(std::make_unique<Member>(*bootstrap_, joined, probe));
  }
}

Liveness Membership::Ask(const StoreRecord& /*record*/, const MemberRecord& member) const {
  const size_t index = ToInteger(member.server);
  const bool is_there = index < memory_.size() && memory_[index] != nullptr &&
                        incarnations_[index] == member.incarnation;
  return is_there ? Liveness::kAlive : Liveness::kDead;
}

Result<StoreRecord> Membership::Find() {
  constexpr int kTries = 8;
  FindOptions find;
  find.store = kStore;
  find.probe = [this](const StoreRecord& record, const MemberRecord& member) {
    return Ask(record, member);
  };
  Result<StoreRecord> found = FindStore(*bootstrap_, find);
  for (int i = 0; !found && i < kTries; ++i) {
    LookNow();
    found = FindStore(*bootstrap_, find);
  }
  const auto has_low_mtu = [this](const MemberRecord& member) {
    return std::ranges::count(low_mtu_, member.address) != 0;
  };
  has_found_low_mtu_ = found && std::ranges::any_of(found.value().servers, has_low_mtu);
  return found;
}

void Membership::Look() {
  // A look that finds an unchanged record changes nothing.
  if (network_.Now() < next_look_ || (!is_changed_ && joining_.empty())) return;
  is_changed_ = false;
  next_look_ = network_.Now() + std::chrono::microseconds(plan_.look_us);
  LookNow();
  std::erase_if(joining_, [this](const Joining& joining) { return TryJoin(joining); });
}

void Membership::LookNow() {
  // A look cannot repair what the bootstrap hides.
  const bool sees_record = !bootstrap_->IsReadWrongly(kStore);
  for (const auto& member : members_) member->LookAfterRecord();
  if (!is_disturbed_) return;
  if (NamesAll()) {
    verdict_.RecordIsBack();
    is_disturbed_ = false;
    return;
  }
  is_changed_ = true;
  if (sees_record && ++looks_since_ > kLooksUntilMended) {
    verdict_.Wrong(fmt::format(
        "the record of the store does not name all memory servers after {} looks of each",
        looks_since_));
  }
}

bool Membership::NamesAll() const {
  const Result<std::optional<std::string>> text = bootstrap_->Get(kStore);
  if (!text || !text.value()) return false;
  std::string problem;
  const std::optional<StoreRecord> record = ParseStoreRecord(*text.value(), problem);
  return record && record->servers.size() == members_.size() &&
         std::ranges::all_of(record->servers, [this](const MemberRecord& member) {
           return ToInteger(member.server) < incarnations_.size() &&
                  incarnations_[ToInteger(member.server)] == member.incarnation;
         });
}

void Membership::Disturb(Random& random) {
  using Call = MemoryBootstrap::Call;
  using Failure = MemoryBootstrap::Failure;
  const auto times = static_cast<uint32_t>(1 + random.Below(3));
  std::string what;
  switch (random.Below(6)) {
    case 0:
      bootstrap_->Lose(kStore);
      what = "is lost";
      break;
    case 1:
      bootstrap_->LoseAll();
      what = "is lost with all others";
      break;
    case 2:
      bootstrap_->Overwrite(kStore, DeadRecord(plan_.parameters));
      what = "is overwritten by that of a dead store";
      break;
    case 3:
      bootstrap_->ServeStale(kStore, times);
      what = "is read late";
      break;
    case 4:
      bootstrap_->Fail(Call::kGet, times);
      what = "cannot be read";
      break;
    default:
      bootstrap_->Fail(Call::kCompareAndSwap, times, Failure::kAfter);
      what = "is changed without an answer";
  }
  recorder_.Note("the record of the store " + what);
  verdict_.RecordIsLost();
  is_changed_ = true;
  is_disturbed_ = true;
  looks_since_ = 0;
}

bool Membership::TryJoin(const Joining& joining) {
  if (is_disturbed_) return false;
  JoinOptions options;
  options.store = kStore;
  options.fabric = FabricKindName(FabricKind::kSim);
  options.parameters = plan_.parameters;
  options.create = CreateMode::kJoin;
  options.patience = std::chrono::milliseconds(0);
  std::unique_ptr<EmbeddedMemory> server;
  const auto probe = [this](const StoreRecord& of, const MemberRecord& member) {
    return Ask(of, member);
  };
  const auto bring_up = [&](const MemberIdentity& identity) -> Result<std::string> {
    EmbeddedMemoryOptions memory = joining.options;
    memory.identity = identity;
    BOOST_OUTCOME_TRY(started, StartEmbeddedMemory(memory));
    server = std::move(started);
    return server->address();
  };
  const Result<Joined> joined = JoinStore(*bootstrap_, options, probe, bring_up);
  if (!joined) return false;
  const MemberIdentity& identity = joined.value().identity;
  if (ToInteger(identity.server) != memory_.size()) {
    verdict_.Wrong(fmt::format("a memory server joined as {}, beside {} others",
                               ToInteger(identity.server), memory_.size()));
  }
  if (joining.has_low_mtu) {
    network_.SetPathMtu(server->address(), kLowMtu);
    low_mtu_.push_back(server->address());
  }
  recorder_.Note(fmt::format("memory server {} joins at {}{}", ToInteger(identity.server),
                             server->address(), joining.has_low_mtu ? ", behind a low MTU" : ""));
  memory_.push_back(std::move(server));
  incarnations_.push_back(identity.incarnation);
  members_.push_back(std::make_unique<Member>(*bootstrap_, joined.value(), probe));
  ++joined_;
  is_changed_ = true;
  return true;
}

void Membership::EndFaults() {
  joining_.clear();
  for (const std::string& address : low_mtu_) {
    network_.SetPathMtu(address, network_.options().path_mtu);
  }
  low_mtu_.clear();
  bootstrap_->EndFaults();
  while (is_disturbed_ && looks_since_ <= kLooksUntilMended) LookNow();
}

}  // namespace gossamer::simulator
