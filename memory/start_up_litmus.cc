#include "memory/start_up_litmus.h"

#include "common/fabric/open/open_port.h"
#include "common/random_id.h"
#include "proto/region.h"

namespace gossamer {
namespace {

constexpr ServerId kSelf{0};  // the server's id for the test's client
constexpr LitmusOptions kBounds{.rounds = 1000, .time_limit = std::chrono::seconds(1)};

static_assert(kLitmusOffset + kLitmusBytes <= kFirstLeafOffset);
static_assert(kLitmusOffset >= kRootWordOffset + sizeof(uint64_t));

}  // namespace

LitmusRunner LitmusOverFabric(FabricKind fabric, const RdmaOptions& rdma) {
  return [fabric, rdma](MemoryPort& tested) -> Result<LitmusReport> {
    ComputePortOptions options;
    options.rdma = rdma;
    options.client_uuid = RandomId();
    BOOST_OUTCOME_TRY(port, OpenComputePort(fabric, options));
    BOOST_OUTCOME_TRYV(port->Connect(kSelf, tested.address()));
    BOOST_OUTCOME_TRY(writer, port->NewEndpoint());
    BOOST_OUTCOME_TRY(reader, port->NewEndpoint());
    const LitmusScratch scratch{.data_offset = kLitmusOffset,
                                .word_offset = 0,
                                .word_space = Space::kLockTable,
                                .view = tested.region().data() + kLitmusOffset};
    return RunLitmus(*writer, *reader, kSelf, scratch, kBounds);
  };
}

std::optional<DeviceUse> FallBack(DeviceUse use, LockTablePlacement locks,
                                  const LitmusReport& failed) {
  const bool writes_are_ordered = failed.write_before_write.failures == 0;
  const bool waits = use.one_verb_at_a_time;
  const bool may_be_in_dram =
      locks == LockTablePlacement::kDeviceMemory && use.on_chip_locks != OnChipLocks::kRequired;
  if (may_be_in_dram && (writes_are_ordered || waits)) {
    use.on_chip_locks = OnChipLocks::kNever;
  } else if (!waits) {
    use.one_verb_at_a_time = true;
  } else {
    return std::nullopt;
  }
  return use;
}

std::string_view FallbackText(const DeviceUse& use) {
  return use.one_verb_at_a_time ? "clients post one verb at a time, which is slow"
                                : "the lock table is in DRAM, not in the device's memory";
}

}  // namespace gossamer
