// Nodes of the PALM tree: plain memory, as a node has one owner at a time.
//
// Each level is linked from left to right, and each node but the rightmost one of its level has an
// upper bound, `high`: what was found before a split is found after it by moving right.
//
// Thread-safety: none; palm_tree.h says who may touch a node when.
#pragma once

#include <smmintrin.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "compute/research/lab/tree.h"

namespace gossamer::lab::palm {

// How many of the `count` ascending keys are below `key`; with `kOrEqual`, not above it.
//
// A range is halved without branches until 8 keys are left; these are compared two at a time. SSE
// has comparisons of signed numbers only: with the top bit turned over, they order unsigned ones.
template <bool kOrEqual>
inline uint32_t CountBelow(const Key* keys, uint32_t count, Key key) {
  constexpr uint32_t kLinear = 8;
  const Key* first = keys;
  while (count > kLinear) {
    const uint32_t half = count / 2;
    const bool below = kOrEqual ? first[half - 1] <= key : first[half - 1] < key;
    first = below ? first + half : first;
    count -= half;
  }
  const __m128i top_bit = _mm_set1_epi64x(INT64_MIN);
  const __m128i wanted = _mm_xor_si128(_mm_set1_epi64x(static_cast<int64_t>(key)), top_bit);
  __m128i sum = _mm_setzero_si128();  // of two counters, which comparisons that hold decrement
  uint32_t i = 0;
  for (; i + 2 <= count; i += 2) {
    const auto* const at = reinterpret_cast<const __m128i*>(first + i);
    const __m128i pair = _mm_xor_si128(_mm_loadu_si128(at), top_bit);
    sum = _mm_add_epi64(sum,
                        kOrEqual ? _mm_cmpgt_epi64(pair, wanted) : _mm_cmpgt_epi64(wanted, pair));
  }
  const auto holds =
      static_cast<uint32_t>(-(_mm_extract_epi64(sum, 0) + _mm_extract_epi64(sum, 1)));
  uint32_t below = kOrEqual ? i - holds : holds;
  if (i < count) below += (kOrEqual ? first[i] <= key : first[i] < key) ? 1 : 0;
  return static_cast<uint32_t>(first - keys) + below;
}

struct Node {
  uint32_t count = 0;  // of entries, or of separators
  Key high = 0;        // above all keys below this node; of no meaning in the rightmost node
  Node* next = nullptr;

  bool LiesRightOf(Key key) const { return next != nullptr && key >= high; }
};

// The node on the level of `node` that `key` belongs to now.
template <typename NodeType>
NodeType* MoveRight(NodeType* node, Key key) {
  while (node->LiesRightOf(key)) node = static_cast<NodeType*>(node->next);
  return node;
}

// A new node right of `left`, for the keys from `separator` on.
template <typename NodeType>
NodeType* AddRight(NodeType& left, Key separator) {
  auto* const right = new NodeType;
  right->high = left.high;
  right->next = left.next;
  left.high = separator;
  left.next = right;
  return right;
}

// A node that the parent must add, for the keys from `separator` on.
struct NewNode {
  Key separator;
  Node* node;
};

// Into how many nodes `total` children or entries go that one node cannot hold: they are then three
// quarters full at most, so that the next batch does not split them again.
constexpr uint32_t PiecesOf(uint32_t total, uint32_t fanout) {
  return total * 4 / (fanout * 3) + 1;
}

// The first of `total` that goes to piece `number` of `pieces`.
constexpr uint32_t BeginOfPiece(uint32_t number, uint32_t pieces, uint32_t total) {
  return static_cast<uint32_t>(uint64_t{total} * number / pieces);
}

template <uint32_t kFanout>
struct Leaf : Node {
  uint32_t LowerBound(Key key) const { return CountBelow<false>(keys.data(), count, key); }
  bool Has(uint32_t at, Key key) const { return at < count && keys[at] == key; }

  // Adds entries with new keys, in ascending order. Splits the leaf as often as it takes, and
  // appends the new leaves to `split`.
  void Merge(std::span<const Entry> added, std::vector<NewNode>& split) {
    const uint32_t total = count + static_cast<uint32_t>(added.size());
    if (total > kFanout) return MergeAndSplit(added, total, split);
    uint32_t old = count;
    uint32_t to = total;
    for (size_t left = added.size(); left > 0;) {
      const bool move_old = old > 0 && keys[old - 1] > added[left - 1].key;
      --to;
      if (move_old) {
        --old;
        keys[to] = keys[old];
        values[to] = values[old];
      } else {
        --left;
        keys[to] = added[left].key;
        values[to] = added[left].value;
      }
    }
    count = total;
  }

  std::array<Key, kFanout> keys;
  std::array<Value, kFanout> values;

 private:
  void MergeAndSplit(std::span<const Entry> added, uint32_t total, std::vector<NewNode>& split) {
    std::vector<Entry> all;
    all.reserve(total);
    size_t from = 0;
    for (uint32_t i = 0; i < count; ++i) {
      while (from < added.size() && added[from].key < keys[i]) all.push_back(added[from++]);
      all.push_back({keys[i], values[i]});
    }
    all.insert(all.end(), added.begin() + static_cast<ptrdiff_t>(from), added.end());

    const uint32_t pieces = PiecesOf(total, kFanout);
    Leaf* leaf = this;
    for (uint32_t piece = 0; piece < pieces; ++piece) {
      const uint32_t begin = BeginOfPiece(piece, pieces, total);
      if (piece > 0) {
        leaf = AddRight(*leaf, all[begin].key);
        split.push_back({all[begin].key, leaf});
      }
      leaf->Fill(std::span(all).subspan(begin, BeginOfPiece(piece + 1, pieces, total) - begin));
    }
  }

  void Fill(std::span<const Entry> entries) {
    count = static_cast<uint32_t>(entries.size());
    for (uint32_t i = 0; i < count; ++i) {
      keys[i] = entries[i].key;
      values[i] = entries[i].value;
    }
  }
};

template <uint32_t kFanout>
struct Inner : Node {
  // The child that leads to `key`.
  Node* ChildFor(Key key) const {
    return children[CountBelow<true>(separators.data(), count, key)];
  }

  // Adds nodes right of children that are here, in ascending order. Splits the node as often as it
  // takes, and appends the new nodes to `split`.
  void Merge(std::span<const NewNode> added, std::vector<NewNode>& split) {
    // Child i is behind separator i - 1. The first child has none in this node.
    std::vector<NewNode> all;
    all.reserve(count + 1 + added.size());
    all.push_back({0, children[0]});
    size_t from = 0;
    for (uint32_t i = 0; i < count; ++i) {
      while (from < added.size() && added[from].separator < separators[i]) {
        all.push_back(added[from++]);
      }
      all.push_back({separators[i], children[i + 1]});
    }
    all.insert(all.end(), added.begin() + static_cast<ptrdiff_t>(from), added.end());

    const auto total = static_cast<uint32_t>(all.size());
    const uint32_t pieces = total <= kFanout ? 1 : PiecesOf(total, kFanout);
    Inner* inner = this;
    for (uint32_t piece = 0; piece < pieces; ++piece) {
      const uint32_t begin = BeginOfPiece(piece, pieces, total);
      if (piece > 0) {
        inner = AddRight(*inner, all[begin].separator);
        split.push_back({all[begin].separator, inner});
      }
      inner->Fill(std::span(all).subspan(begin, BeginOfPiece(piece + 1, pieces, total) - begin));
    }
  }

  std::array<Key, kFanout - 1> separators;
  std::array<Node*, kFanout> children;

 private:
  void Fill(std::span<const NewNode> nodes) {
    count = static_cast<uint32_t>(nodes.size()) - 1;
    children[0] = nodes[0].node;
    for (uint32_t i = 0; i < count; ++i) {
      separators[i] = nodes[i + 1].separator;
      children[i + 1] = nodes[i + 1].node;
    }
  }
};

}  // namespace gossamer::lab::palm
