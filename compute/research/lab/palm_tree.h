// PALM: a B+tree whose workers run whole batches together, without latches.
//
// A batch passes through stages. Between two stages all workers wait for each other:
//   1  Each worker takes the requests of a range of keys, sorts them, and descends from the root to
//      the leaf of each. Inner nodes are only read.
//   2  Each leaf has one worker, which runs the requests of it in the order of the batch. A leaf
//      that overflows is split at once into as many leaves as it takes; these are noted for the
//      parent.
//   3  Each parent has one worker, which adds what was noted; and so on, level by level. A level
//      that nothing was noted for ends the batch.
//   4  If the root was split, worker 0 puts a new root above.
// So no node is ever read by one worker while another one writes it. How nodes are dealt out is in
// palm_share.h.
//
// With pipelining, a worker that is done with stage 2 of a batch does stage 1 of the next batch at
// once: stage 2 writes leaves only, and stage 1 reads inner nodes only. That takes one of the two
// waits of every batch away. What such a descent found may be split by stages 2 and 3 of the batch
// before. All the pieces then lie to the right of what was found, up to the next node that was
// found; so their owner reaches them by moving right, and still nobody else touches them. If the
// root was split, the descent is repeated, as its paths lack a level.
//
// Source: Sewall, Chhugani, Kim, Satish and Dubey, "PALM: Parallel Architecture-Friendly Latch-Free
// Modifications to B+ Trees on Many-Core Processors", VLDB 2011.
// Thread-safety: none; one thread calls, and workers live as long as `Execute`.
#pragma once

#include <algorithm>
#include <barrier>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "compute/research/lab/palm_node.h"
#include "compute/research/lab/palm_share.h"
#include "compute/research/lab/run_together.h"
#include "compute/research/lab/tree.h"

namespace gossamer::lab {

template <uint32_t kFanout, bool kPipelined>
class PalmTree {
  static_assert(kFanout >= 4, "an inner node that splits leaves two children in each half");

 public:
  static constexpr bool kManyThreads = false;

  explicit PalmTree(const TreeSettings& settings)
      : root_(new Leaf), workers_(settings.workers), parts_(settings.workers) {}
  PalmTree(const PalmTree&) = delete;
  PalmTree& operator=(const PalmTree&) = delete;
  ~PalmTree() {
    Node* first = root_;
    for (; height_ > 0; --height_) {
      Node* const below = AsInner(first)->children[0];
      DeleteLevel(AsInner(first));
      first = below;
    }
    DeleteLevel(AsLeaf(first));
  }

  Status Execute(std::span<Request> requests, uint32_t batch) {
    batch = std::max(batch, 1u);
    // A worker that has a handful of requests waits longer than it works.
    constexpr size_t kLeastEach = 8;
    const size_t useful = std::min<size_t>(requests.size(), batch) / kLeastEach;
    const auto workers = static_cast<uint32_t>(std::clamp<size_t>(useful, 1, workers_));
    std::barrier barrier(workers);
    const auto body = [&](uint32_t worker) {
      RunBatches(worker, workers, requests, batch, barrier);
    };
    if (workers > 1) return RunTogether(workers, body);
    body(0);
    return Ok();
  }

  void Insert(Key key, Value value) {
    Request request = Request::Insert({key, value});
    std::barrier barrier(1);
    RunBatches(0, 1, std::span(&request, 1), 1, barrier);
  }

  std::optional<Value> Get(Key key) const {
    const Leaf* const leaf = FindLeaf(key);
    const uint32_t at = leaf->LowerBound(key);
    return leaf->Has(at, key) ? std::optional(leaf->values[at]) : std::nullopt;
  }

  size_t Scan(Key from, std::span<Entry> found) const {
    const Leaf* leaf = FindLeaf(from);
    uint32_t at = leaf->LowerBound(from);
    size_t count = 0;
    for (; leaf != nullptr; leaf = static_cast<const Leaf*>(leaf->next), at = 0) {
      for (; at < leaf->count; ++at) {
        if (count == found.size()) return count;
        found[count++] = {leaf->keys[at], leaf->values[at]};
      }
    }
    return count;
  }

 private:
  using Node = palm::Node;
  using Leaf = palm::Leaf<kFanout>;
  using Inner = palm::Inner<kFanout>;
  using NewNode = palm::NewNode;
  using Item = palm::Item;
  using Change = palm::Change;
  using Share = palm::Share;

  // What a worker keeps between batches, so that a batch allocates next to nothing.
  struct alignas(64) Part {
    std::array<Share, 2> shares;  // of batches with even and with odd numbers
    std::vector<Entry> added;     // to the leaf that is worked on
    std::vector<NewNode> merged;  // into the inner node that is worked on
    std::vector<NewNode> split;   // from the node that is worked on
  };

  // One batch, as one worker sees it.
  struct Round {
    uint32_t worker;
    uint32_t workers;
    uint32_t parity;  // of the batch's number
  };

  static Leaf* AsLeaf(Node* node) { return static_cast<Leaf*>(node); }
  static Inner* AsInner(Node* node) { return static_cast<Inner*>(node); }

  template <typename NodeType>
  static void DeleteLevel(NodeType* node) {
    while (node != nullptr) {
      auto* const next = static_cast<NodeType*>(node->next);
      delete node;
      node = next;
    }
  }

  const Leaf* FindLeaf(Key key) const {
    Node* node = root_;
    for (uint32_t level = height_; level > 0; --level) node = AsInner(node)->ChildFor(key);
    return AsLeaf(node);
  }

  Share& ShareOf(uint32_t worker, uint32_t parity) { return parts_[worker].shares[parity]; }

  void RunBatches(uint32_t worker, uint32_t workers, std::span<Request> requests, uint32_t batch,
                  std::barrier<>& barrier) {
    const size_t batches = (requests.size() + batch - 1) / batch;
    const auto begin = [&](size_t number) {
      const size_t first = number * batch;
      Share& share = ShareOf(worker, number % 2);
      share.requests = requests.subspan(first, std::min<size_t>(batch, requests.size() - first));
      palm::TakeItems(share.requests, palm::RangeOf(share.requests, worker, workers), share.items);
      Descend(share);
    };
    for (size_t number = 0; number < batches; ++number) {
      const Round round{worker, workers, static_cast<uint32_t>(number % 2)};
      Share& share = ShareOf(worker, round.parity);
      if (!kPipelined || number == 0) {
        begin(number);
        barrier.arrive_and_wait();
      } else if (share.root != root_) {
        Descend(share);
        barrier.arrive_and_wait();
      }
      RunLeaves(round);
      if (kPipelined && number + 1 < batches) begin(number + 1);
      barrier.arrive_and_wait();
      for (uint32_t level = 1; HasChanges(round, level); ++level) {
        if (level <= share.height) {
          ChangeInner(round, level);
        } else {
          if (worker == 0) PutRootAbove(round, level);
        }
        barrier.arrive_and_wait();
        if (level > share.height) break;
      }
    }
  }

  // Stage 1. A group of items goes down together, level by level, so that the misses of one
  // overlap.
  void Descend(Share& share) {
    constexpr size_t kGroup = 32;
    const size_t count = share.items.size();
    share.root = root_;
    share.height = height_;
    share.path.resize(share.height + 1);
    for (auto& level : share.path) level.resize(count);
    std::fill(share.path[share.height].begin(), share.path[share.height].end(), root_);
    for (size_t first = 0; first < count; first += kGroup) {
      const size_t past = std::min(first + kGroup, count);
      for (uint32_t level = share.height; level > 0; --level) {
        for (size_t i = first; i < past; ++i) {
          Node* const child = AsInner(share.path[level][i])->ChildFor(share.items[i].key);
          share.path[level - 1][i] = child;
          if (level > 1) Prefetch(AsInner(child)->separators);
        }
      }
    }
  }

  // The lines that a search of ascending keys reads first.
  template <typename Keys>
  static void Prefetch(const Keys& keys) {
    __builtin_prefetch(keys.data());
    __builtin_prefetch(keys.data() + keys.size() / 4);
    __builtin_prefetch(keys.data() + keys.size() / 2);
  }

  // The node that is worked on: all that belongs to it comes together before it is changed, as the
  // parent must hear of its splits in the order of keys.
  template <typename NodeType>
  struct Current {
    const Node* found = nullptr;  // by the descent
    NodeType* node = nullptr;     // where that is now
    uint32_t worker = 0;          // whose item led there
    uint32_t item = 0;

    // Whether `key`, with which the descent found `other`, belongs to the node too.
    bool Has(const Node* other, Key key) const { return other == found && !node->LiesRightOf(key); }
  };

  // Stage 2.
  void RunLeaves(const Round& round) {
    constexpr size_t kAhead = 8;
    for (auto& changes : ShareOf(round.worker, round.parity).changes) changes.clear();
    std::vector<Entry>& added = parts_[round.worker].added;
    Current<Leaf> current;
    const auto finish = [&] {
      if (!added.empty()) current.node->Merge(added, parts_[round.worker].split);
      Note(round, 1, current.worker, current.item);
      added.clear();
    };
    palm::ForOwned(
        round.worker, round.workers,
        [&](uint32_t w) { return ShareOf(w, round.parity).items.size(); },
        [&](uint32_t w, size_t i) { return ShareOf(w, round.parity).path[0][i]; },
        [&](uint32_t w, size_t i) {
          const Share& share = ShareOf(w, round.parity);
          const std::vector<Node*>& leaves = share.path[0];
          if (i + kAhead < leaves.size()) Prefetch(AsLeaf(leaves[i + kAhead])->keys);
          const Item& item = share.items[i];
          if (!current.Has(leaves[i], item.key)) {
            finish();
            Leaf* const leaf = palm::MoveRight(AsLeaf(leaves[i]), item.key);
            current = {leaves[i], leaf, w, static_cast<uint32_t>(i)};
          }
          RunRequest(*current.node, share.requests[item.index], added);
        });
    finish();
  }

  // `added` has the new keys of this batch so far, in ascending order: an item's key is the last
  // one of them, or above all of them.
  static void RunRequest(Leaf& leaf, Request& request, std::vector<Entry>& added) {
    const uint32_t at = leaf.LowerBound(request.key);
    const bool was_added = !added.empty() && added.back().key == request.key;
    const bool in_leaf = leaf.Has(at, request.key);
    if (request.is_insert) {
      if (in_leaf) {
        leaf.values[at] = request.value;
      } else if (was_added) {
        added.back().value = request.value;
      } else {
        added.push_back({request.key, request.value});
      }
    } else {
      request.found = in_leaf || was_added;
      if (request.found) request.value = in_leaf ? leaf.values[at] : added.back().value;
    }
  }

  // Notes for `level` what was split off the node that item `item` of `worker` led to.
  void Note(const Round& round, uint32_t level, uint32_t worker, uint32_t item) {
    std::vector<Change>& changes = ShareOf(round.worker, round.parity).changes[level % 2];
    std::vector<NewNode>& split = parts_[round.worker].split;
    for (const NewNode& added : split) changes.push_back({added, worker, item});
    split.clear();
  }

  bool HasChanges(const Round& round, uint32_t level) {
    for (uint32_t worker = 0; worker < round.workers; ++worker) {
      if (!ShareOf(worker, round.parity).changes[level % 2].empty()) return true;
    }
    return false;
  }

  // Stage 3, for one level.
  void ChangeInner(const Round& round, uint32_t level) {
    ShareOf(round.worker, round.parity).changes[(level + 1) % 2].clear();
    const auto changes_of = [&](uint32_t w) -> const std::vector<Change>& {
      return ShareOf(w, round.parity).changes[level % 2];
    };
    const auto parent_of = [&](const Change& change) {
      return ShareOf(change.worker, round.parity).path[level][change.item];
    };
    std::vector<NewNode>& merged = parts_[round.worker].merged;
    Current<Inner> current;
    const auto finish = [&] {
      if (!merged.empty()) current.node->Merge(merged, parts_[round.worker].split);
      Note(round, level + 1, current.worker, current.item);
      merged.clear();
    };
    palm::ForOwned(
        round.worker, round.workers, [&](uint32_t w) { return changes_of(w).size(); },
        [&](uint32_t w, size_t i) { return parent_of(changes_of(w)[i]); },
        [&](uint32_t w, size_t i) {
          const Change& change = changes_of(w)[i];
          Node* const parent = parent_of(change);
          if (!current.Has(parent, change.added.separator)) {
            finish();
            Inner* const inner = palm::MoveRight(AsInner(parent), change.added.separator);
            current = {parent, inner, change.worker, change.item};
          }
          merged.push_back(change.added);
        });
    finish();
  }

  // Stage 4. One worker had the root, so one list has all of its splits.
  void PutRootAbove(const Round& round, uint32_t level) {
    std::vector<NewNode> added;
    for (uint32_t worker = 0; worker < round.workers; ++worker) {
      for (const Change& change : ShareOf(worker, round.parity).changes[level % 2]) {
        added.push_back(change.added);
      }
    }
    while (!added.empty()) {
      auto* const root = new Inner;
      root->children[0] = root_;
      std::vector<NewNode> split;
      root->Merge(added, split);
      root_ = root;
      ++height_;
      added = std::move(split);
    }
  }

  Node* root_;
  uint32_t height_ = 0;  // the root's level; leaves are level 0
  const uint32_t workers_;
  std::vector<Part> parts_;
};

}  // namespace gossamer::lab
