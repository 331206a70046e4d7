#include "common/numa.h"

#include <fmt/core.h>
#include <numa.h>
#include <numaif.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <map>
#include <memory>
#include <system_error>

#include "common/huge_pages.h"

namespace gossamer {
namespace {

struct FreeBitmask {
  void operator()(bitmask* mask) const { numa_bitmask_free(mask); }
};
using Bitmask = std::unique_ptr<bitmask, FreeBitmask>;

// The nodes whose memory this process may use; none where the kernel knows no nodes.
std::vector<int> Nodes() {
  std::vector<int> nodes;
  if (numa_available() < 0) return nodes;
  for (int node = 0; node <= numa_max_node(); ++node) {
    if (numa_bitmask_isbitset(numa_all_nodes_ptr, static_cast<unsigned>(node)) != 0) {
      nodes.push_back(node);
    }
  }
  return nodes;
}

std::string Listed(const std::vector<int>& nodes) {
  std::string text;
  for (const int node : nodes) text += fmt::format("{}{}", text.empty() ? "" : ", ", node);
  return text;
}

// The wanted nodes; none: wherever the kernel likes.
std::vector<int> WantedNodes(const NumaWish& wish, int device_node) {
  switch (wish.kind) {
    case NumaWish::Kind::kAnywhere: return {};
    case NumaWish::Kind::kNode: return {wish.node};
    case NumaWish::Kind::kInterleaved: return Nodes();
    case NumaWish::Kind::kOfDevice: break;
  }
  if (device_node == kUnknownNode) return {};
  return {device_node};
}

// Asks for the pages of `memory` on one node.
int Prefer(std::span<std::byte> memory, int node) {
  const Bitmask mask(numa_allocate_nodemask());
  numa_bitmask_setbit(mask.get(), static_cast<unsigned>(node));
  // The kernel takes one bit less than it is told of.
  const long failed =
      mbind(memory.data(), memory.size(), MPOL_PREFERRED, mask->maskp, mask->size + 1, 0);
  return failed == 0 ? 0 : errno;
}

// Pieces for the nodes in turn, each of whole pages. Not by MPOL_INTERLEAVE: where the kernel makes
// a large page of small ones, it lies where the first of them was.
int Interleave(std::span<std::byte> memory, const std::vector<int>& nodes, size_t page_bytes) {
  constexpr size_t kPieces = 64;  // each is a mapping of its own, and a process has 65,530 at most
  const auto start = reinterpret_cast<uintptr_t>(memory.data());
  const size_t piece = memory.size() / kPieces + page_bytes;
  size_t begin = 0;
  for (size_t i = 0; begin < memory.size(); ++i) {
    const size_t end =
        std::min((start + begin + piece) / page_bytes * page_bytes - start, memory.size());
    const int error = Prefer(memory.subspan(begin, end - begin), nodes[i % nodes.size()]);
    if (error != 0) return error;
    begin = end;
  }
  return 0;
}

}  // namespace

Result<NumaWish> ParseNuma(std::string_view text) {
  if (text == "auto") return NumaWish{};
  if (text == "no") return NumaWish{.kind = NumaWish::Kind::kAnywhere};
  if (text == "interleave") return NumaWish{.kind = NumaWish::Kind::kInterleaved};
  int node = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), node);
  if (problem != std::errc() || end != text.data() + text.size() || node < 0) {
    return MakeError(
        Code::kInvalidArgument,
        fmt::format("--numa={}: give auto, no, interleave or the number of a node", text));
  }
  const std::vector<int> nodes = Nodes();
  if (std::ranges::count(nodes, node) == 0) {
    return MakeError(Code::kInvalidArgument,
                     nodes.empty()
                         ? fmt::format("--numa={}: this machine has no NUMA nodes", text)
                         : fmt::format("--numa={}: this process may use memory of node {}", text,
                                       Listed(nodes)));
  }
  return NumaWish{.kind = NumaWish::Kind::kNode, .node = node};
}

Status PlaceMemory(std::span<std::byte> memory, const NumaWish& wish, int device_node) {
  const std::vector<int> wanted = WantedNodes(wish, device_node);
  if (wanted.empty() || Nodes().size() < 2) return Ok();
  int error =
      wanted.size() == 1 ? Prefer(memory, wanted[0]) : Interleave(memory, wanted, kHugePageBytes);
  // EINVAL: a page of 1 GB cannot be divided.
  if (error == EINVAL && wanted.size() != 1) error = Interleave(memory, wanted, kGiantPageBytes);
  if (error == 0) return Ok();
  return MakeError(Code::kUnsupported,
                   fmt::format("memory cannot be placed on NUMA node {}: {}", Listed(wanted),
                               std::generic_category().message(error)));
}

std::string DescribeNodes(std::span<const std::byte> memory) {
  constexpr size_t kSamples = 1000;
  if (Nodes().size() < 2 || memory.empty()) return {};
  const size_t pages = memory.size() / kPageBytes;
  const size_t samples = std::min(kSamples, pages);
  std::vector<void*> addresses;
  for (size_t i = 0; i < samples; ++i) {
    const size_t page = pages * i / samples;
    addresses.push_back(const_cast<std::byte*>(&memory[page * kPageBytes]));
  }
  std::vector<int> nodes(addresses.size(), -1);
  // Without wanted nodes it moves none, and tells where they are; an errno for those untouched.
  if (move_pages(0, addresses.size(), addresses.data(), nullptr, nodes.data(), 0) != 0) return {};
  std::map<int, size_t> found;
  for (const int node : nodes) {
    if (node >= 0) ++found[node];
  }
  if (found.empty()) return {};
  if (found.size() == 1) return fmt::format("NUMA node {}", found.begin()->first);
  size_t touched = 0;
  for (const auto& [node, count] : found) touched += count;
  std::string text;
  for (const auto& [node, count] : found) {
    text += fmt::format("{}{} ({} %)", text.empty() ? "NUMA nodes " : ", ", node,
                        100 * count / touched);
  }
  return text;
}

std::vector<int> ProcessorsFrom(int node, const cpu_set_t& allowed) {
  std::vector<int> processors;
  for (int processor = 0; processor < CPU_SETSIZE; ++processor) {
    if (CPU_ISSET(processor, &allowed)) processors.push_back(processor);
  }
  if (node == kUnknownNode || Nodes().size() < 2) return processors;
  const Bitmask of_node(numa_allocate_cpumask());
  if (numa_node_to_cpus(node, of_node.get()) != 0) return processors;
  std::ranges::stable_partition(processors, [&](int processor) {
    return numa_bitmask_isbitset(of_node.get(), static_cast<unsigned>(processor)) != 0;
  });
  return processors;
}

}  // namespace gossamer
