#include "compute/verify/sim/client.h"

#include <fmt/core.h>

#include <algorithm>
#include <optional>

#include "common/fabric/open/open_port.h"
#include "common/text/escape.h"
#include "compute/verify/sim/broken_rule_port.h"
#include "compute/verify/sim/counts.h"

namespace gossamer::simulator {
namespace {

using history::kAbsent;
using history::OperationKind;
using history::Outcome;
using history::ValueId;

// Streams of the seed: one for each client, counted downwards.
constexpr uint64_t kRestStream = ~uint64_t{1000};

// Whether the error is an answer: an insert of an existing key, an update or delete of an absent
// key.
bool IsRefusal(OperationKind kind, Code code) {
  if (kind == OperationKind::kInsert) return code == Code::kAlreadyExists;
  const bool needs_key = kind == OperationKind::kUpdate || kind == OperationKind::kDelete;
  return needs_key && code == Code::kNotFound;
}

bool IsRunning(const std::unique_ptr<OpenSession>& session) {
  return session != nullptr && session->scheduler().running() != 0;
}

}  // namespace

Result<StoreRecord> Scene::FindRecord() {
  if (membership != nullptr) return membership->Find();
  StoreRecord named = record;
  std::erase_if(named.servers,
                [this](const MemberRecord& member) { return lost.contains(member.server); });
  return named;
}

SimulatedClient::SimulatedClient(Scene& scene, uint32_t number, const ClientPlan& plan)
    : scene_(scene),
      number_(number),
      plan_(plan),
      rest_random_(scene.plan.seed, kRestStream - number) {}

SimulatedClient::~SimulatedClient() {
  if (keeper_ != nullptr) StopKeeping();
}

Status SimulatedClient::Open() {
  ComputePortOptions port_options;
  port_options.client_uuid = uuid();
  port_options.network = &scene_.network;
  port_options.least_path_mtu = scene_.plan.parameters.node_bytes;
  BOOST_OUTCOME_TRY(port, OpenComputePort(FabricKind::kSim, port_options));
  TreeOptions tree;
  tree.memory_patience_ms = 0;  // where nobody renews leases, waiting loses them
  tree.cache_bytes = plan_.cache_bytes;
  tree.lock_timeout_ms = scene_.plan.lock_timeout_ms;
  tree.reconnect_ms = scene_.plan.reconnect_ms;
  tree.seed = SplitMix64::Mix(scene_.plan.seed ^ (uuid() << 32)) | 1;
  BOOST_OUTCOME_TRY(record, scene_.FindRecord());
  std::shared_ptr<Bootstrap> bootstrap;
  if (scene_.membership != nullptr) bootstrap = scene_.membership->bootstrap();
  BOOST_OUTCOME_TRY(
      store, OpenStore::OpenOn(sim::WithBrokenRule(std::move(port), record.parameters.node_bytes),
                               record, tree, std::move(bootstrap)));
  store_ = std::move(store);
  for (uint32_t i = 0; i < plan_.sessions; ++i) {
    BOOST_OUTCOME_TRY(session, NewSession());
    sessions_.push_back(std::move(session));
  }
  is_closing_.assign(plan_.sessions, false);
  BOOST_OUTCOME_TRY(keeper, NewSession());
  keeper_ = std::move(keeper);
  keeper_->Spawn(store_->KeepLeases(keeper_->scheduler()));
  BOOST_OUTCOME_TRY(upkeep, NewSession());
  upkeep_ = std::move(upkeep);
  store_->MergeOver(*upkeep_);
  if (scene_.plan.work.sweep_us != 0) {
    // A sweep replaces queue pairs of its endpoint, of which other users would know nothing.
    BOOST_OUTCOME_TRY(sweeps, NewSession());
    sweeps_ = std::move(sweeps);
  }
  if (scene_.plan.work.expire_us != 0) {
    BOOST_OUTCOME_TRY(expiries, NewSession());
    expiries_ = std::move(expiries);
  }
  if (scene_.plan.repair_us != 0) {
    BOOST_OUTCOME_TRY(repairs, NewSession());
    repairs_ = std::move(repairs);
  }
  return Ok();
}

Result<std::unique_ptr<OpenSession>> SimulatedClient::NewSession() {
  BOOST_OUTCOME_TRY(session, store_->NewSession());
  std::unique_ptr<OpenSession> open(static_cast<OpenSession*>(session.release()));
  scene_.network.SetOwner(open->scheduler().endpoint(), open.get());
  return open;
}

void SimulatedClient::Start() {
  if (sweeps_ != nullptr) sweeps_->Spawn(SweepNowAndThen());
  if (expiries_ != nullptr) expiries_->Spawn(ExpireNowAndThen());
  if (repairs_ != nullptr) repairs_->Spawn(RepairNowAndThen());
  for (uint32_t i = 0; i < plan_.sessions; ++i) StartSession(i);
}

void SimulatedClient::StartSession(uint32_t number) {
  for (uint32_t i = 0; i < plan_.coroutines; ++i) {
    const uint32_t lane = scene_.recorder.AddLane(number_, number, i);
    sessions_[number]->Spawn(Loop(number, lane, i < plan_.readers));
  }
}

void SimulatedClient::Leave(Random& random) {
  const uint64_t dice = random.Below(plan_.sessions * 5);
  if (dice < plan_.sessions * 4) {
    is_closing_[dice % plan_.sessions] = true;
  } else {
    scene_.recorder.Note(fmt::format("client {} closes the store", number_));
    has_left_ = true;
    StopKeepingUnlessSweeping();
  }
}

// A sweep waits for this client's own acknowledgements, too.
void SimulatedClient::StopKeepingUnlessSweeping() {
  if (!is_working_behind()) StopKeeping();
}

void SimulatedClient::Renew() {
  if (has_left_ && !is_dead_) StopKeepingUnlessSweeping();
  if (is_dead_ || has_left_) return;
  for (uint32_t i = 0; i < sessions_.size() && !is_dead_; ++i) {
    if (is_closing_[i]) RenewSession(i);
  }
}

void SimulatedClient::RenewSession(uint32_t number) {
  constexpr std::chrono::microseconds kTryAgain{200};
  std::unique_ptr<OpenSession>& session = sessions_[number];
  const std::string name = fmt::format("client {} session {}", number_, number);
  if (session != nullptr) {
    if (session->scheduler().running() != 0) return;
    scene_.recorder.Note(name + " is closed");
    closed_ += session->counters();
    const auto closing = scene_.network.Now();
    session.reset();
    scene_.verdict.StoodStillSince(closing);
  }
  const auto since = scene_.network.Now();
  if (since < open_again_at_) return;
  Result<std::unique_ptr<OpenSession>> opened = NewSession();
  scene_.verdict.StoodStillSince(since);
  if (opened) {
    scene_.recorder.Note(name + " is open again");
    session = std::move(opened.value());
    is_closing_[number] = false;
    if (!is_dead_) StartSession(number);
    return;
  }
  if (!scene_.verdict.ExplainsOpening(uuid(), since, opened.error())) {
    scene_.verdict.Wrong(name + " cannot be opened: " + opened.error().ToString());
  }
  if (opened.error().code != Code::kNodeUnreachable) has_left_ = true;
  open_again_at_ = scene_.network.Now() + kTryAgain;
  keeper_->scheduler().endpoint().WakeAt(open_again_at_);
}

uint32_t SimulatedClient::NumberOf(const OpenSession& session) const {
  const auto is_it = [&session](const auto& one) { return one.get() == &session; };
  return static_cast<uint32_t>(std::ranges::find_if(sessions_, is_it) - sessions_.begin());
}

bool SimulatedClient::is_idle() const {
  for (const auto& session : sessions_) {
    if (session == nullptr) {
      if (!is_dead_ && !has_left_) return false;  // it is being reopened
    } else if (session->scheduler().running() != 0) {
      return false;
    }
  }
  return !is_working_behind();
}

bool SimulatedClient::is_working_behind() const {
  return IsRunning(upkeep_) || IsRunning(sweeps_) || IsRunning(expiries_) || IsRunning(repairs_);
}

bool SimulatedClient::is_merging() const { return IsRunning(upkeep_); }

bool SimulatedClient::is_over() const { return is_idle() && !IsRunning(keeper_); }

void SimulatedClient::Kill() {
  is_dead_ = true;
  scene_.recorder.Note(fmt::format("client {} is killed", number_));
  scene_.recorder.Kill(number_);
  scene_.network.KillClient(uuid());
  StopKeeping();
}

void SimulatedClient::StopKeeping() { store_->StopKeepingLeases(); }

Counters SimulatedClient::counters() const {
  Counters sum = closed_;
  if (upkeep_ != nullptr) sum += upkeep_->counters();
  if (sweeps_ != nullptr) sum += sweeps_->counters();
  if (expiries_ != nullptr) sum += expiries_->counters();
  if (repairs_ != nullptr) sum += repairs_->counters();
  for (const auto& session : sessions_) {
    if (session != nullptr) sum += session->counters();
  }
  return sum;
}

Task<void> SimulatedClient::Loop(uint32_t number, uint32_t lane, bool only_gets) {
  OpenSession& session = *sessions_[number];
  const uint32_t longest_nap_us =
      plan_.longest_nap_us != 0 ? plan_.longest_nap_us : scene_.plan.work.longest_nap_us;
  const uint64_t longest_nap_ns = uint64_t{longest_nap_us} * 1000;
  Random random(scene_.plan.seed, lane);
  while (!is_dead_ && !has_left_ && !is_closing_[number] && scene_.workload.Take()) {
    if (plan_.beat_us != 0) {
      co_await AwaitBeat(session.scheduler());
      if (is_dead_) co_return;
    }
    if (random.Below(100) < scene_.plan.work.nap_percent) {
      co_await session.scheduler().SleepFor(std::chrono::nanoseconds(random.Below(longest_nap_ns)));
      if (is_dead_) co_return;
    }
    if (!only_gets && scene_.workload.DrawsBatch(random)) {
      co_await DoBatch(session, lane, scene_.workload.DrawBatch(random, number_));
      continue;
    }
    co_await Do(
        session, lane,
        only_gets ? scene_.workload.DrawGet(random) : scene_.workload.Draw(random, number_));
  }
}

Task<void> SimulatedClient::AwaitBeat(Scheduler& scheduler) {
  const std::chrono::nanoseconds beat = std::chrono::microseconds(plan_.beat_us);
  co_await scheduler.SleepFor(beat - scheduler.Now().time_since_epoch() % beat);
}

Task<void> SimulatedClient::Do(OpenSession& session, uint32_t lane, PlannedOperation operation) {
  switch (operation.kind) {
    case OperationKind::kGet: return Get(session, lane, operation.key);
    case OperationKind::kScan: return Scan(session, lane, operation);
    case OperationKind::kErase: return Erase(session, lane, operation);
    case OperationKind::kModify: return Modify(session, lane, operation);
    default: return Write(session, lane, operation);
  }
}

ValueId SimulatedClient::Verify(uint32_t key, std::string_view value) {
  const std::optional<ValueId> id = scene_.workload.values().Id(value);
  if (id && history::KeyOf(*id) == key) return *id;
  scene_.verdict.Wrong(fmt::format("key {} has a value {}", key,
                                   id ? fmt::format("of key {}", history::KeyOf(*id))
                                      : "that nobody wrote: " + HexText(value, kShownBytes)));
  return kAbsent;
}

// Pauses from 1 us to 1 s. A session that could not reach a memory server does not try again for
// half a second.
Task<void> SimulatedClient::Failed(OpenSession& session, uint32_t lane, uint32_t key, Error error) {
  constexpr uint64_t kDoublings = 20;
  if (is_dead_) co_return;
  scene_.verdict.Judge(
      {fmt::format("client {} lane {} key {}", number_, lane, key), uuid(),
       scene_.network.IdOf(session.scheduler().endpoint()), scene_.recorder.lanes()[lane].since},
      error);
  const bool is_loss = error.code == Code::kFenced || error.code == Code::kNodeUnreachable ||
                       error.code == Code::kMaybeApplied;
  if (is_loss && scene_.plan.clients_stay) {
    if (rest_random_.Below(100) < scene_.plan.reopen_percent) {
      is_closing_[NumberOf(session)] = true;
      co_return;
    }
    const std::chrono::microseconds rest(uint64_t{1} << rest_random_.Below(kDoublings + 1));
    co_await session.scheduler().SleepFor(rest);
  } else if (is_loss) {
    has_left_ = true;
    StopKeepingUnlessSweeping();
  }
}

Task<void> SimulatedClient::Get(OpenSession& session, uint32_t lane, uint32_t key) {
  const std::string text = scene_.workload.keys().Text(key);
  scene_.recorder.Begin(lane, OperationKind::kGet, key, kAbsent);
  const Result<std::string> value = co_await session.AsyncGet(text);
  const bool has_failed =
      value ? EndGet(lane, key, std::string_view(value.value())) : EndGet(lane, key, value.error());
  if (has_failed) co_await Failed(session, lane, key, value.error());
}

bool SimulatedClient::EndGet(uint32_t lane, uint32_t key, const Result<std::string_view>& value) {
  if (value) {
    const ValueId id = is_dead_ ? kAbsent : Verify(key, value.value());
    if (!is_dead_ && scene_.recorder.BeganAfterExpiry(lane, id)) {
      scene_.verdict.Wrong(fmt::format("key {}: a get returns #{}, which had expired", key, id));
    }
    scene_.recorder.End(lane, Outcome::kDone, id);
    return false;
  }
  if (value.error().code == Code::kNotFound) {
    scene_.recorder.End(lane, Outcome::kDone, kAbsent);
    return false;
  }
  scene_.recorder.EndWithoutEffect(lane, value.error());
  return true;
}

Task<void> SimulatedClient::Write(OpenSession& session, uint32_t lane, PlannedOperation operation) {
  const std::string text = scene_.workload.keys().Text(operation.key);
  const bool is_delete = operation.kind == OperationKind::kDelete;
  const std::string value =
      is_delete ? std::string() : scene_.workload.values().Bytes(operation.value);
  scene_.recorder.Begin(lane, operation.kind, operation.key, operation.value);
  const Expiry expiry = BeginLife(session, lane, operation);
  Status status = Ok();
  switch (operation.kind) {
    case OperationKind::kPut: status = co_await session.AsyncPut(text, value, expiry); break;
    case OperationKind::kInsert: status = co_await session.AsyncInsert(text, value, expiry); break;
    case OperationKind::kUpdate: status = co_await session.AsyncUpdate(text, value, expiry); break;
    default: status = co_await session.AsyncDelete(text); break;
  }
  const bool has_failed = EndWrite(lane, operation, status);
  if (has_failed) co_await Failed(session, lane, operation.key, status.error());
}

Expiry SimulatedClient::BeginLife(const OpenSession& session, uint32_t lane,
                                  const PlannedOperation& write) {
  if (write.life_ms == 0 || write.kind == OperationKind::kDelete) return Expiry::Never();
  const uint64_t at = session.StoreTimeMs() + write.life_ms;
  scene_.recorder.Expires(lane, write.value, scene_.clock.TimeOf(at));
  return Expiry::At(at);
}

bool SimulatedClient::EndWrite(uint32_t lane, const PlannedOperation& operation,
                               const Status& status) {
  // A modify has told what it made of the key.
  const history::Event doing = scene_.recorder.lanes()[lane].event;
  // What a DeleteRange that failed did to a key is not known, whatever the error.
  const bool may_be_applied =
      !status && IsChange(doing) &&
      (status.error().code == Code::kMaybeApplied || operation.kind == OperationKind::kErase);
  scene_.workload.WriteEnded(operation.key, may_be_applied);
  if (status) {
    scene_.recorder.End(lane, Outcome::kDone, doing.value);
    return false;
  }
  if (IsRefusal(operation.kind, status.error().code)) {
    scene_.recorder.End(lane, Outcome::kRefused, kAbsent);
    return false;
  }
  if (may_be_applied) {
    scene_.recorder.End(lane, Outcome::kUnknown, doing.value);
  } else {
    scene_.recorder.EndWithoutEffect(lane, status.error());
  }
  return true;
}

void SimulatedClient::Prefill(Random& random) {
  const uint32_t lane = scene_.recorder.AddLane(number_, 0, plan_.coroutines);
  OpenSession& session = *sessions_.front();
  for (uint32_t key = 0; key < scene_.plan.work.keys() && !has_left_; ++key) {
    if (random.Below(100) >= scene_.plan.work.prefill_percent) continue;
    Put(session, lane, key);
  }
}

}  // namespace gossamer::simulator
