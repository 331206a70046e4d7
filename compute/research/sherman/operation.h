// Operation: one operation of a client thread, with its buffers and what it costs on the wire.
//
// Thread-safety: none.
#pragma once

#include <cstring>
#include <new>
#include <utility>

#include "common/fabric/endpoint.h"
#include "compute/research/sherman/tree.h"

namespace gossamer::sherman {

class Tree::Operation {
 public:
  // Counts in `counters` when it ends.
  Operation(Counters& counters, OperationClass kind, BufferLease buffer)
      : counters_(counters), kind_(kind), buffer_(std::move(buffer)) {
    buffer_.data()[kZero] = std::byte{0};
    wire_.operations = 1;
  }
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;
  ~Operation() { counters_.of(kind_) += wire_; }

  static Result<BufferLease> Buffer(Scheduler& scheduler) {
    return scheduler.endpoint().buffers().Allocate(kBytes);
  }

  // The node that was read, and the sibling that is made of it.
  LeafNode& leaf() { return View<LeafNode>(0); }
  InternalNode& internal() { return View<InternalNode>(0); }
  const NodeHeader& header() { return View<NodeHeader>(0); }
  LeafNode& sibling_leaf() { return View<LeafNode>(kNodeBytes); }
  InternalNode& sibling_internal() { return View<InternalNode>(kNodeBytes); }

  LocalAddress node_address() const { return buffer_.address(); }
  LocalAddress sibling_address() const { return buffer_.address(kNodeBytes); }
  LocalAddress AddressOf(const LeafEntry& entry) const { return buffer_.address(OffsetOf(entry)); }
  // Of an entry of leaf(), in the leaf.
  uint64_t OffsetOf(const LeafEntry& entry) const {
    return static_cast<uint64_t>(reinterpret_cast<const std::byte*>(&entry) - buffer_.data());
  }
  LocalAddress word() const { return buffer_.address(kWord); }  // where an atomic puts what was
  LocalAddress zero() const { return buffer_.address(kZero); }  // a byte that is 0

  void set_kind(OperationClass kind) { kind_ = kind; }
  // Of a scan's later parts: they are no operation of their own.
  void CountAsPart() { wire_.operations = 0; }
  void CountVerbs(const Batch& batch) {
    for (const Verb& verb : batch.verbs()) {
      if (verb.is_atomic()) {
        ++wire_.atomics;
      } else if (verb.is_read()) {
        ++wire_.reads;
        wire_.bytes_read += verb.length;
      } else {
        ++wire_.writes;
        wire_.bytes_written += verb.length;
      }
    }
  }
  void CountRoundTrip() { ++wire_.round_trips; }

 private:
  static constexpr size_t kWord = 2 * size_t{kNodeBytes};
  static constexpr size_t kZero = kWord + 8;
  static constexpr size_t kBytes = kZero + 8;

  template <typename Node>
  Node& View(size_t offset) {
    return *std::launder(reinterpret_cast<Node*>(buffer_.data() + offset));
  }

  Counters& counters_;
  OperationClass kind_;
  BufferLease buffer_;
  WireCounts wire_;
};

}  // namespace gossamer::sherman
