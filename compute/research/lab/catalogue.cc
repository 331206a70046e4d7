#include "compute/research/lab/catalogue.h"

#include <absl/container/btree_map.h>
#include <fmt/core.h>

#include <map>
#include <vector>

#include "compute/research/lab/blink_tree.h"
#include "compute/research/lab/check.h"
#include "compute/research/lab/gossamer_tree.h"
#include "compute/research/lab/locked_map.h"
#include "compute/research/lab/olc_tree.h"
#include "compute/research/lab/palm_tree.h"
#include "compute/research/lab/partitioned_tree.h"
#include "compute/research/lab/reader_writer_tree.h"
#include "compute/research/lab/sequential_tree.h"
#include "compute/research/lab/tlx_map.h"
#include "compute/research/lab/unodb_tree.h"

namespace gossamer::lab {
namespace {

template <LocalTree Tree>
constexpr TreeEntry EntryOf(std::string_view name, std::string_view what, uint32_t fanout) {
  TreeEntry entry = {.name = name,
                     .what = what,
                     .fanout = fanout,
                     .many_threads = Tree::kManyThreads,
                     .parallel = ParallelTree<Tree>,
                     .partitioned = kIsPartitioned<Tree>,
                     .prefetches = PrefetchesOf<Tree>(),
                     .measure = &Measure<Tree>,
                     .make = &MakeAnyTree<Tree>,
                     .check_mix = &CheckMix<Tree>,
                     .check_hints = nullptr};
  if constexpr (PreparingTree<Tree>) entry.check_hints = &CheckHints<Tree>;
  return entry;
}

template <uint32_t... kValues>
struct Fanouts {};

#ifdef GOSSAMER_LAB_FEW_FANOUTS
using AllFanouts = Fanouts<4, 16>;
using FanoutsOfPartitions = Fanouts<4>;
#else
using AllFanouts = Fanouts<4, 16, 64, 256>;
using FanoutsOfPartitions = Fanouts<4, 64, 256>;
#endif

template <template <uint32_t> typename Tree, uint32_t... kValues>
void Add(std::vector<TreeEntry>& trees, std::string_view name, std::string_view what,
         Fanouts<kValues...> /*fanouts*/) {
  (trees.push_back(EntryOf<Tree<kValues>>(name, what, kValues)), ...);
}

constexpr std::string_view kSequential = "B+tree without locks";
constexpr std::string_view kReaderWriter = "B+tree, reader-writer locks hand over hand";
constexpr std::string_view kBlink = "B-link tree of Lehman and Yao";
constexpr std::string_view kOlc = "B+tree with optimistic lock coupling";

constexpr std::string_view kPalm = "PALM: workers run whole batches without latches";
constexpr std::string_view kPalmPipelined =
    "PALM, the next batch's descent beside changes of leaves";

template <uint32_t kFanout>
using Palm = PalmTree<kFanout, false>;
template <uint32_t kFanout>
using PalmPipelined = PalmTree<kFanout, true>;

constexpr std::string_view kPartitioned = "B+trees by tasks; a get asks all of them";
constexpr std::string_view kBloom = "B+trees by tasks; Bloom filters say which ones a get asks";
constexpr std::string_view kHashed = "B+trees by tasks; a hash of the key chooses one";

template <uint32_t kFanout>
using Partitioned = PartitionedTree<kFanout, Placement::kRandom>;
template <uint32_t kFanout>
using BloomPartitioned = PartitionedTree<kFanout, Placement::kFilters>;
template <uint32_t kFanout>
using HashPartitioned = PartitionedTree<kFanout, Placement::kHash>;

constexpr std::string_view kGossamer = "the store's cache, with keys and values inside";

std::vector<TreeEntry> MakeTrees() {
  std::vector<TreeEntry> trees = {
      EntryOf<LockedMap<std::map<Key, Value>>>("std_map", "std::map under a mutex", 0),
      EntryOf<LockedMap<absl::btree_map<Key, Value>>>("absl_btree", "absl::btree_map under a mutex",
                                                      0),
#ifdef GOSSAMER_HAS_TLX
      EntryOf<LockedMap<TlxMap<Key, Value>>>("tlx_btree", "tlx::btree_map under a mutex", 0),
#endif
#ifdef GOSSAMER_HAS_UNODB
      EntryOf<UnodbTree>("unodb", "unodb::olc_db, a radix tree with optimistic lock coupling", 0),
#endif
  };
  const AllFanouts all;
  Add<SequentialTree>(trees, "sequential", kSequential, all);
  Add<ReaderWriterTree>(trees, "reader_writer", kReaderWriter, all);
  Add<BlinkTree>(trees, "blink", kBlink, all);
  Add<OlcTree>(trees, "olc", kOlc, all);
  Add<Palm>(trees, "palm", kPalm, all);
  Add<PalmPipelined>(trees, "palm_pipelined", kPalmPipelined, all);
  const FanoutsOfPartitions some;
  Add<Partitioned>(trees, "partitioned", kPartitioned, some);
  Add<BloomPartitioned>(trees, "bloom_partitioned", kBloom, some);
  Add<HashPartitioned>(trees, "hash_partitioned", kHashed, some);
  trees.push_back(EntryOf<GossamerTree>("gossamer", kGossamer, 0));
  return trees;
}

}  // namespace

std::span<const TreeEntry> Trees() {
  static const std::vector<TreeEntry> trees = MakeTrees();
  return trees;
}

std::string FullName(const TreeEntry& tree) {
  if (tree.fanout == 0) return std::string(tree.name);
  return fmt::format("{}, fanout {}", tree.name, tree.fanout);
}

}  // namespace gossamer::lab
