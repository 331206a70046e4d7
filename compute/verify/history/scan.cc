#include "compute/verify/history/scan.h"

#include <fmt/core.h>

#include <algorithm>

namespace gossamer::history {
namespace {

std::string Name(const Scan& scan) {
  return fmt::format("client {}{} scan of [{}, {}) [{}, {}]", scan.client,
                     scan.reverse ? " reverse" : "", scan.first, scan.last, scan.start, scan.end);
}

std::optional<std::string> Judge(const Scan& scan) {
  if (scan.rows.size() > scan.limit) {
    return fmt::format("{} returns {} keys, its limit is {}", Name(scan), scan.rows.size(),
                       scan.limit);
  }
  for (size_t i = 0; i < scan.rows.size(); ++i) {
    const uint32_t key = scan.rows[i].key;
    const std::string returns = fmt::format("{} returns key {}", Name(scan), key);
    if (key < scan.first || key >= scan.last) return returns + " outside of its range";
    if (i == 0) continue;
    const uint32_t before = scan.rows[i - 1].key;
    if (key == before) return returns + " twice";
    if (scan.reverse ? key > before : key < before) {
      return fmt::format("{} behind key {}: out of order", returns, before);
    }
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::string> ExpandScan(const Scan& scan, std::vector<Event>& events) {
  std::optional<std::string> problem = Judge(scan);
  if (problem) return problem;
  const auto see = [&](uint32_t key, ValueId value, int64_t time) {
    events.push_back(
        {value, scan.start, time, key, scan.client, OperationKind::kScan, Outcome::kDone});
  };
  // The keys still to come, [first, last). The range shrinks from one end, by the scan's direction.
  uint32_t first = scan.first;
  uint32_t last = std::max(scan.first, scan.last);
  const auto skip_to = [&](uint32_t bound, int64_t time) {
    while (scan.reverse ? last > bound : first < bound) {
      see(scan.reverse ? --last : first++, kAbsent, time);
    }
  };
  for (const ScanRow& row : scan.rows) {
    skip_to(scan.reverse ? row.key + 1 : row.key, row.time);
    (scan.reverse ? last : first) = scan.reverse ? row.key : row.key + 1;
    see(row.key, row.value, row.time);
  }
  const bool all = !scan.broken && scan.rows.size() < scan.limit;
  if (all) skip_to(scan.reverse ? first : last, scan.end);
  return std::nullopt;
}

}  // namespace gossamer::history
