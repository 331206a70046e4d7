// The first phase of Spiderman's batches: all requests of a batch descend together, in turn, each
// prefetching for its next visit while the others are visited. The second phase, which runs the
// operations in their order, then finds its nodes in the caches.
//
// A visit does one stage of one node and ends where the request must wait for memory. The options,
// which combine:
//   header   1  prefetch the line with a node's version and count on arrival
//   deep     2  prefetch nothing of the two topmost levels, which the caches hold anyway
//   middle   3  prefetch the line of the middle key; when it has come, the half where the search
//               goes on
//   whole    4  prefetch the whole node on arrival
//   child    5  prefetch the pointer to the child before it is loaded
//   payload  6  prefetch the value that a get will read
// and two that the thesis proposes and leaves untried:
//   reuse       validate the descent, so that the second phase begins at the leaf that was found
//   active      do not visit requests that have found their leaf
//
// Without `reuse`, nothing is validated: a descent that a writer misleads warms the wrong lines and
// does no other harm. Its pointers lead to nodes all the same, as nodes are never freed.
//
// Source: Vu, "Spiderman", bachelor thesis, Ecole Polytechnique, 2023. Its Algorithm 4 as printed
// runs all stages of a node in one visit; here each stage that prefetches ends a visit.
// Thread-safety: as reads of the tree. A request is its caller's.
#pragma once

#include <array>
#include <atomic>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "compute/research/lab/olc_node.h"
#include "compute/research/lab/tree.h"

namespace gossamer::lab::olc {

struct Strategy {
  std::string_view name;
  bool header = false;
  bool deep = false;
  bool middle = false;
  bool whole = false;
  bool child = false;
  bool payload = false;
  bool reuse = false;
  bool active = false;
};

// Those of the thesis's figures, and its untried options on top of its default and of its best one.
inline constexpr std::array kStrategies = {
    Strategy{.name = "none"},
    Strategy{.name = "header", .header = true},
    Strategy{.name = "header+deep", .header = true, .deep = true},
    Strategy{.name = "header+deep+middle", .header = true, .deep = true, .middle = true},
    Strategy{.name = "whole", .whole = true},
    Strategy{.name = "header+deep+middle+child",
             .header = true,
             .deep = true,
             .middle = true,
             .child = true},
    Strategy{.name = "header+deep+middle+payload",
             .header = true,
             .deep = true,
             .middle = true,
             .payload = true},
    Strategy{.name = "header+active", .header = true, .active = true},
    Strategy{.name = "header+reuse", .header = true, .reuse = true},
    Strategy{.name = "header+deep+middle+payload+reuse+active",
             .header = true,
             .deep = true,
             .middle = true,
             .payload = true,
             .reuse = true,
             .active = true},
};

enum class Stage : uint8_t { kMiddle, kHalf, kSearch, kChild, kDone };

// One request of a batch.
struct Request {
  Node* node = nullptr;  // that it has come to; in the end its leaf
  Node* parent = nullptr;
  // Of node and parent, with `reuse`.
  uint64_t version = 0;
  uint64_t parent_version = 0;
  uint32_t level = 0;      // from the root, which is level 0
  uint32_t child = 0;      // where the search leads
  uint32_t following = 0;  // with `active`: the request to visit next
  Stage stage = Stage::kDone;
  bool noted = false;  // whether `version` is that of `node`
  bool found = false;  // in the end: whether node and version may be used
};

template <uint32_t kFanout, size_t kNumber>
class Traversal {
 public:
  // Requires: as many `requests` as `keys`.
  static void Run(const std::atomic<Node*>& root, std::span<const Key> keys,
                  std::span<Request> requests) {
    assert(requests.size() == keys.size());
    const Traversal traversal(root);
    for (Request& request : requests) {
      request = {.node = root.load(std::memory_order_acquire)};
      Arrive(request);
    }
    kIs.active ? traversal.RunActive(keys, requests) : traversal.RunAll(keys, requests);
  }

 private:
  static constexpr const Strategy& kIs = kStrategies[kNumber];
  static constexpr size_t kLineBytes = 64;

  explicit Traversal(const std::atomic<Node*>& root) : root_(root) {}

  // As the thesis does: done requests are passed over.
  void RunAll(std::span<const Key> keys, std::span<Request> requests) const {
    for (size_t under_way = requests.size(); under_way > 0;) {
      for (size_t i = 0; i < requests.size(); ++i) {
        if (requests[i].stage == Stage::kDone) continue;
        Visit(keys[i], requests[i]);
        if (requests[i].stage == Stage::kDone) --under_way;
      }
    }
  }

  // Requests under way form a ring.
  void RunActive(std::span<const Key> keys, std::span<Request> requests) const {
    const auto count = static_cast<uint32_t>(requests.size());
    for (uint32_t i = 0; i < count; ++i) requests[i].following = i + 1 < count ? i + 1 : 0;
    uint32_t before = count - 1;
    for (uint32_t under_way = count; under_way > 0;) {
      const uint32_t i = requests[before].following;
      Visit(keys[i], requests[i]);
      if (requests[i].stage == Stage::kDone) {
        requests[before].following = requests[i].following;
        --under_way;
      } else {
        before = i;
      }
    }
  }

  static void Prefetch(const void* first, size_t bytes) {
    const auto* const begin = static_cast<const std::byte*>(first);
    const std::byte* line = begin - reinterpret_cast<uintptr_t>(first) % kLineBytes;
    for (; line < begin + bytes; line += kLineBytes) __builtin_prefetch(line);
  }

  static const AtomicKey* KeysOf(const Node* node) {
    return node->is_leaf ? static_cast<const Leaf<kFanout>*>(node)->keys.data()
                         : static_cast<const Inner<kFanout>*>(node)->separators.data();
  }

  // The request's node is known, and none of it is read.
  static void Arrive(Request& request) {
    const bool eligible = !kIs.deep || request.level >= 2;
    if (eligible && kIs.header) Prefetch(request.node, 1);
    if (eligible && kIs.whole) Prefetch(request.node, sizeof(Leaf<kFanout>));
    request.stage = eligible && kIs.middle ? Stage::kMiddle : Stage::kSearch;
    request.noted = false;
  }

  void Visit(Key key, Request& request) const {
    if (kIs.reuse && !request.noted && !Note(request)) return GiveUp(request);
    switch (request.stage) {
      case Stage::kMiddle:
        Prefetch(KeysOf(request.node) + request.node->Count() / 2, sizeof(Key));
        request.stage = Stage::kHalf;
        return;
      case Stage::kHalf: PrefetchHalf(key, request); return;
      case Stage::kSearch: Search(key, request); return;
      case Stage::kChild: StepDown(request); return;
      case Stage::kDone: return;
    }
  }

  static void PrefetchHalf(Key key, Request& request) {
    const AtomicKey* const keys = KeysOf(request.node);
    const uint32_t count = request.node->Count();
    const uint32_t half = count / 2;
    const bool lower = count > 0 && key < keys[half].load(std::memory_order_relaxed);
    Prefetch(keys + (lower ? 0 : half), (lower ? half : count - half) * sizeof(Key));
    request.stage = Stage::kSearch;
  }

  static void Search(Key key, Request& request) {
    if (request.node->is_leaf) {
      const auto& leaf = *static_cast<const Leaf<kFanout>*>(request.node);
      const uint32_t at = leaf.LowerBound(key);
      if (kIs.payload && at < kFanout) Prefetch(&leaf.values[at], sizeof(Value));
      request.stage = Stage::kDone;
      request.found = kIs.reuse;
      return;
    }
    const auto& inner = *static_cast<const Inner<kFanout>*>(request.node);
    request.child = inner.ChildFor(key);
    if (!kIs.child) return StepDown(request);
    Prefetch(&inner.children[request.child], sizeof(Node*));
    request.stage = Stage::kChild;
  }

  static void StepDown(Request& request) {
    const auto& inner = *static_cast<const Inner<kFanout>*>(request.node);
    Node* const child = inner.children[request.child].load(std::memory_order_acquire);
    if (child == nullptr) return GiveUp(request);  // a writer has just raised the count
    request.parent = request.node;
    request.parent_version = request.version;
    request.node = child;
    ++request.level;
    Arrive(request);
  }

  // Notes the version of a node before anything else of it is read. Then what led there must still
  // be so. Returns: whether it is.
  bool Note(Request& request) const {
    request.version = request.node->version.Note();
    request.noted = true;
    return request.parent == nullptr ? root_.load(std::memory_order_relaxed) == request.node
                                     : request.parent->version.IsStill(request.parent_version);
  }

  static void GiveUp(Request& request) { request.stage = Stage::kDone; }

  const std::atomic<Node*>& root_;
};

}  // namespace gossamer::lab::olc
