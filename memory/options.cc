#include "memory/options.h"

#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <filesystem>
#include <string_view>

#include "common/bootstrap/bootstrap.h"
#include "common/checked_parameters.h"
#include "common/text/human.h"
#include "memory/chunk_allocator.h"

namespace gossamer {
namespace {

constexpr uint64_t kRegionUnit = 4096;  // a page
constexpr uint64_t kMinChunkBytes = 4096;
constexpr uint64_t kMaxLockTableBytes = uint64_t{1} << 35;

// ADDRESS:PORT, as on a network fabric.
bool IsNetworkAddress(std::string_view listen) {
  const size_t colon = listen.rfind(':');
  return listen.find('/') == std::string_view::npos && colon != std::string_view::npos &&
         colon + 1 < listen.size() &&
         listen.find_first_not_of("0123456789", colon + 1) == std::string_view::npos;
}

// The store's record names the path, and programs in other directories read the record.
Result<std::string> AbsolutePath(const char* flag, const std::string& path) {
  std::error_code error;
  const std::filesystem::path absolute = std::filesystem::absolute(path, error);
  if (error) {
    return MakeError(Code::kInvalidArgument,
                     fmt::format("--{}={}: the current directory is not known ({}); give a path "
                                 "that starts with '/'",
                                 flag, path, error.message()));
  }
  return absolute.lexically_normal().string();
}

Result<std::string> AbsoluteSocketPath(const std::string& listen) {
  if (IsNetworkAddress(listen)) {
    return MakeError(Code::kInvalidArgument,
                     "--listen=" + listen +
                         ": --fabric=shm listens at the path of a Unix socket; leave --listen out, "
                         "give --listen=PATH with a '/', or --fabric=verbs");
  }
  return AbsolutePath("listen", listen);
}

Status CompleteRegion(MemoryServerOptions& options) {
  options.join.region = options.region;
  if (options.region.empty() || options.region == kKeptBySystemd) return Ok();
  BOOST_OUTCOME_TRY(path, AbsolutePath("region", options.region));
  if (!IsValidToken(path)) {
    return MakeError(
        Code::kInvalidArgument,
        fmt::format(
            "--region={}: a store's record names the path: give one of at most {} printable "
            "ASCII characters, without blanks",
            path, kMaxTokenBytes));
  }
  options.region = path;
  options.join.region = std::move(path);
  return Ok();
}

}  // namespace

uint64_t DefaultChunkBytes(uint64_t memory_bytes) {
  constexpr uint64_t kSmallest = 256 << 10;
  constexpr uint64_t kLargest = 32 << 20;
  static_assert(kLeastMemoryBytes == kHeapOffset + kSmallest);
  return std::clamp(std::bit_floor(memory_bytes / 64), kSmallest, kLargest);
}

Result<MemoryServerOptions> CompleteOptions(MemoryServerOptions options) {
  BOOST_OUTCOME_TRYV(CheckStoreName(options.join.store));
  const StoreParameters& parameters = options.parameters;
  BOOST_OUTCOME_TRYV(CheckedParameters(parameters.node_bytes, parameters.max_key_bytes,
                                       parameters.inline_value_bytes));
  const uint64_t given_bytes = options.memory_bytes;
  options.memory_bytes = given_bytes / kRegionUnit * kRegionUnit;
  if (options.chunk_bytes == 0) options.chunk_bytes = DefaultChunkBytes(options.memory_bytes);
  if (options.lock_table_bytes == 0) options.lock_table_bytes = kDefaultLockTableBytes;
  if (!std::has_single_bit(options.chunk_bytes) || options.chunk_bytes < kMinChunkBytes) {
    return BadFlag("chunk_bytes", options.chunk_bytes, "give a power of two from 4096");
  }
  if (options.memory_bytes < kHeapOffset + options.chunk_bytes) {
    return BadFlag(
        "memory", given_bytes,
        "too little for one chunk of " + HumanBytes(options.chunk_bytes) +
            "; give at least --memory=" + std::to_string(kHeapOffset + options.chunk_bytes) +
            ", or smaller --chunk_bytes");
  }
  if (options.memory_bytes > kMostMemoryBytes) {
    return MakeError(Code::kInvalidArgument,
                     "--memory: one memory server has at most 8 TiB, and this is " +
                         ExactBytes(given_bytes) + "; start several");
  }
  if (!std::has_single_bit(options.lock_table_bytes) ||
      options.lock_table_bytes < sizeof(uint64_t) ||
      options.lock_table_bytes > kMaxLockTableBytes) {
    return BadFlag("lock_table_bytes", options.lock_table_bytes,
                   "give a power of two between 8 B and 32 GiB");
  }
  if (options.lease_ms != 0 && options.lease_ms < kMinLeaseMs) {
    return BadFlag("lease_ms", options.lease_ms,
                   "clients cannot renew their leases so often; give at least 100, or 0 for leases "
                   "that do not expire");
  }
  if (options.join.replace_store && options.join.create == CreateMode::kJoin) {
    return MakeError(Code::kInvalidArgument,
                     "--replace_store creates a store and --create=join never does: give one of "
                     "them");
  }
  BOOST_OUTCOME_TRYV(CheckRdmaOptions(options.fabric, options.rdma));
  BOOST_OUTCOME_TRYV(CheckConnectionTimeout(options.connection_timeout_ms));
  if (options.fabric == FabricKind::kShm && options.on_chip_locks == OnChipLocks::kRequired) {
    return MakeError(Code::kInvalidArgument,
                     "--on_chip_locks=require: only --fabric=verbs has a device; leave it out, or "
                     "give --fabric=verbs");
  }
  if (options.fabric == FabricKind::kShm && !options.listen.empty()) {
    BOOST_OUTCOME_TRY(path, AbsoluteSocketPath(options.listen));
    options.listen = std::move(path);
  }
  BOOST_OUTCOME_TRYV(CompleteRegion(options));
  if (options.fabric == FabricKind::kVerbs && options.listen.empty()) {
    return MakeError(
        Code::kInvalidArgument,
        "--fabric=verbs needs --listen=ADDRESS:PORT, the address of a network interface with RDMA");
  }
  return options;
}

}  // namespace gossamer
