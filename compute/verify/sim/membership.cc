#include "compute/verify/sim/membership.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>

#include "common/bootstrap/rejoin.h"
#include "common/fabric/fabric.h"
#include "common/mutants.h"

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
                       Memory& memory, Regions& regions)
    : plan_(plan),
      network_(network),
      recorder_(recorder),
      verdict_(verdict),
      memory_(memory),
      regions_(regions),
      next_look_(network.Now()) {}

void Membership::Publish(const StoreRecord& record) {
  store_id_ = record.store_id;
  bootstrap_->Overwrite(kStore, EncodeStoreRecord(record));
  noted_.resize(regions_.size());
  for (const MemberRecord& member : record.servers) {
    incarnations_.push_back(member.incarnation);
    const Joined joined{{record.store_id, member.incarnation, member.server}, record};
    members_.push_back(std::make_unique<Member>(*bootstrap_, joined, Probe()));
    Note(members_.size() - 1);
  }
}

LivenessProbe Membership::Probe() const {
  return [this](const StoreRecord& of, const MemberRecord& member) { return Ask(of, member); };
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
  find.probe = Probe();
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
  for (size_t server = 0; server < members_.size(); ++server) {
    if (members_[server] == nullptr) continue;
    members_[server]->LookAfterRecord();
    Note(server);
  }
  if (!is_disturbed_) return;
  // A server that is away adds itself when it comes back.
  if (!AreAllThere()) {
    is_changed_ = true;
    return;
  }
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

bool Membership::AreAllThere() const {
  return std::ranges::all_of(members_, [](const auto& member) { return member != nullptr; });
}

void Membership::Note(size_t server) {
  if (server >= regions_.size() || noted_[server] == members_[server]->known()) return;
  noted_[server] = members_[server]->known();
  regions_[server]->NoteRecord(EncodeStoreRecord(noted_[server]));
}

bool Membership::NamesAll() const {
  const Result<std::optional<std::string>> text = bootstrap_->Get(kStore);
  if (!text || !text.value()) return false;
  // What was read late may be gone. (Without returns, seeds keep the runs that they had.)
  if (!regions_.empty() && bootstrap_->Peek(kStore) != text.value()) return false;
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

JoinOptions Membership::OptionsToJoin() const {
  JoinOptions options;
  options.store = kStore;
  options.fabric = FabricKindName(FabricKind::kSim);
  options.parameters = plan_.parameters;
  options.create = CreateMode::kJoin;
  options.patience = std::chrono::milliseconds(0);
  if (!regions_.empty()) options.region = kKeptInMemory;
  return options;
}

void Membership::End(size_t server) {
  members_[server].reset();
  memory_[server].reset();
  regions_[server]->EndLife();
  is_changed_ = true;
}

bool Membership::Return(size_t server, EmbeddedMemoryOptions options, uint64_t incarnation) {
  EmbeddedRegion& region = *regions_[server];
  options.kept = &region;
  if (IsBroken(Mutant::kB2)) incarnation = region.earlier().front();
  Returning returning;
  returning.identity = {store_id_, incarnation, static_cast<ServerId>(server)};
  returning.earlier = region.earlier();
  returning.known = region.record();
  std::unique_ptr<EmbeddedMemory> started;
  const auto bring_up = [&](const MemberIdentity& identity) -> Result<std::string> {
    options.identity = identity;
    BOOST_OUTCOME_TRY(memory, StartEmbeddedMemory(options));
    started = std::move(memory);
    return started->address();
  };
  const Result<Joined> joined =
      RejoinStore(*bootstrap_, OptionsToJoin(), returning, Probe(), bring_up);
  if (!joined) {
    if (joined.error().code != Code::kNodeUnreachable) {
      verdict_.Wrong(
          fmt::format("memory server {} cannot come back: {}", server, joined.error().ToString()));
    }
    started.reset();
    region.EndLife();
    return false;
  }
  memory_[server] = std::move(started);
  incarnations_[server] = incarnation;
  members_[server] = std::make_unique<Member>(*bootstrap_, joined.value(), Probe());
  Note(server);
  is_changed_ = true;
  looks_since_ = 0;
  return true;
}

bool Membership::TryJoin(const Joining& joining) {
  if (is_disturbed_ || !AreAllThere()) return false;
  std::unique_ptr<EmbeddedRegion> region;
  std::unique_ptr<EmbeddedMemory> server;
  const auto bring_up = [&](const MemberIdentity& identity) -> Result<std::string> {
    EmbeddedMemoryOptions memory = joining.options;
    memory.identity = identity;
    if (!regions_.empty()) {
      BOOST_OUTCOME_TRY(kept, NewEmbeddedRegion(memory.memory_bytes));
      region = std::move(kept);
      memory.kept = region.get();
    }
    BOOST_OUTCOME_TRY(started, StartEmbeddedMemory(memory));
    server = std::move(started);
    return server->address();
  };
  const Result<Joined> joined = JoinStore(*bootstrap_, OptionsToJoin(), Probe(), bring_up);
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
  members_.push_back(std::make_unique<Member>(*bootstrap_, joined.value(), Probe()));
  if (region != nullptr) {
    regions_.push_back(std::move(region));
    noted_.emplace_back();
    Note(members_.size() - 1);
  }
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
