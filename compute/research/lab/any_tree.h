// A tree of any type, as the checks of single calls see it: they are compiled once, not for each
// type.
//
// Not for measuring: each call is virtual.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "common/status.h"
#include "compute/research/lab/tree.h"

namespace gossamer::lab {

class AnyTree {
 public:
  AnyTree() = default;
  AnyTree(const AnyTree&) = delete;
  AnyTree& operator=(const AnyTree&) = delete;
  virtual ~AnyTree() = default;

  // As of a LocalTree.
  virtual void Insert(Key key, Value value) = 0;
  virtual std::optional<Value> Get(Key key) const = 0;
  virtual size_t Scan(Key from, std::span<Entry> found) const = 0;
  // As the functions of these names in tree.h.
  virtual Status FindMany(std::span<const Key> keys, std::span<std::optional<Value>> values) = 0;
  virtual Status InsertMany(std::span<const Entry> entries) = 0;
  // As of a ParallelTree. Requires (unchecked): is_parallel().
  virtual Status Execute(std::span<Request> requests, uint32_t batch) = 0;

  virtual bool is_parallel() const = 0;
  virtual bool scans_from_present_keys() const = 0;
};

template <LocalTree Tree>
class AnyTreeOf final : public AnyTree {
 public:
  explicit AnyTreeOf(const TreeSettings& settings) : tree_(MakeTree<Tree>(settings)) {}

  void Insert(Key key, Value value) override { tree_->Insert(key, value); }
  std::optional<Value> Get(Key key) const override { return std::as_const(*tree_).Get(key); }
  size_t Scan(Key from, std::span<Entry> found) const override {
    return std::as_const(*tree_).Scan(from, found);
  }
  Status FindMany(std::span<const Key> keys, std::span<std::optional<Value>> values) override {
    return lab::FindMany(*tree_, keys, values);
  }
  Status InsertMany(std::span<const Entry> entries) override {
    return lab::InsertMany(*tree_, entries);
  }
  Status Execute(std::span<Request> requests, uint32_t batch) override {
    if constexpr (ParallelTree<Tree>) {
      return tree_->Execute(requests, batch);
    } else {
      return MakeError(Code::kUnsupported, "the tree has no workers");
    }
  }
  bool is_parallel() const override { return ParallelTree<Tree>; }
  bool scans_from_present_keys() const override { return kScansFromPresentKeys<Tree>; }

  Tree& tree() { return *tree_; }

 private:
  const std::unique_ptr<Tree> tree_;
};

template <LocalTree Tree>
std::unique_ptr<AnyTree> MakeAnyTree(const TreeSettings& settings) {
  return std::make_unique<AnyTreeOf<Tree>>(settings);
}
using TreeMaker = std::unique_ptr<AnyTree> (*)(const TreeSettings& settings);

}  // namespace gossamer::lab
