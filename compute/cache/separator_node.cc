#include "compute/cache/separator_node.h"

#include <bit>
#include <cassert>
#include <new>

namespace gossamer {
namespace {

constexpr size_t kWordBytes = sizeof(uint64_t);

// The 8 bytes of `key` at `at`, padded with zeros.
uint64_t WordAt(KeyView key, size_t at) { return KeyPrefix(key.substr(std::min(at, key.size()))); }

// How many of `kCount` digests are at most `digest`. Without a branch: the compiler compares
// several at a time. (Lookups search many nodes, by wider vectors: traversal-inl.h.)
template <uint32_t kCount>
uint32_t CountAtMost(const int32_t* digests, int32_t digest) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < kCount; ++i) count += digests[i] <= digest ? 1 : 0;
  return count;
}

constexpr uint32_t LinesFor(size_t count) {
  return static_cast<uint32_t>((count + SeparatorNode::kDigestsPerLine - 1) /
                               SeparatorNode::kDigestsPerLine);
}

// Lines of samples of a node with so many lines of digests: none if it is not wide.
constexpr uint32_t SampleLinesFor(uint32_t lines) {
  return lines > SeparatorNode::kDividers + 1 ? LinesFor(lines) : 0;
}

// A node with one separator, which no key is below. It is never freed: a store may be destroyed
// after all static objects.
const SeparatorNode* MakeGapNode() {
  static NodeArena& arena = *new NodeArena;
  SeparatorList list;
  list.Append({}, 0);
  return SeparatorNode::Make(arena, list, 0, 1, {2, 0, 0});
}

}  // namespace

const SeparatorNode* const SeparatorNode::kGapNode = MakeGapNode();

SeparatorNode::Layout SeparatorNode::LayoutFor(uint32_t count, size_t text_bytes, Shape shape) {
  Layout layout;
  const uint32_t lines = LinesFor(count);
  layout.sample_lines = SampleLinesFor(lines);
  layout.payload_line = 1 + layout.sample_lines + lines;
  const size_t ends_at = size_t{layout.payload_line} * NodeArena::kLineBytes +
                         size_t{count} * shape.payload_words * sizeof(uint64_t);
  const size_t text_at = ends_at + size_t{count} * sizeof(uint32_t);
  layout.tail_at = (text_at + text_bytes + kWordBytes - 1) / kWordBytes * kWordBytes;
  layout.bytes = NodeArena::Rounded(layout.tail_at + shape.tail_bytes);
  return layout;
}

SeparatorNode* SeparatorNode::MakeEmpty(NodeArena& arena, const Layout& layout, uint32_t count,
                                        Shape shape) {
  auto* const node = ::new (arena.Allocate(layout.bytes)) SeparatorNode;
  node->lines_ = static_cast<uint16_t>(layout.bytes / NodeArena::kLineBytes);
  node->tail_at_ = static_cast<uint32_t>(layout.tail_at);
  node->count_ = static_cast<uint16_t>(count);
  node->payload_line_ = static_cast<uint16_t>(layout.payload_line);
  node->sample_lines_ = static_cast<uint8_t>(layout.sample_lines);
  node->payload_words_ = shape.payload_words;
  node->height_ = shape.height;
  std::memset(node->tail(), 0, node->tail_bytes());
  return node;
}

// A shorter key has the same digest as a separator that ends in a zero byte, and is below it.
bool SeparatorNode::IsLossless(KeyView separator, uint64_t word) const {
  const uint64_t lost = (uint64_t{1} << shift_) - 1;
  return separator.size() <= word_at_ + kWordBytes && ((word - base_) & lost) == 0 &&
         (separator.empty() || separator.back() != 0);
}

SeparatorNode* SeparatorNode::Make(NodeArena& arena, const SeparatorList& list, size_t begin,
                                   size_t end, Shape shape) {
  assert(begin < end && end - begin <= kMaxCount);
  const auto count = static_cast<uint32_t>(end - begin);
  const KeyView lowest = list.separator(begin);
  const KeyView first = count == 1 ? KeyView() : list.separator(begin + 1);
  // Sorted: all but the lowest share it.
  const size_t prefix = count == 1 ? 0 : CommonBytes(first, list.separator(end - 1));
  size_t longest = 0;
  size_t suffix_bytes = lowest.size();
  for (size_t i = begin + 1; i < end; ++i) {
    longest = std::max(longest, list.separator(i).size());
    suffix_bytes += list.separator(i).size() - prefix;
  }
  SeparatorNode* const node =
      MakeEmpty(arena, LayoutFor(count, prefix + suffix_bytes, shape), count, shape);
  node->word_at_ = static_cast<uint16_t>(longest <= kWordBytes ? 0 : prefix);
  node->prefix_bytes_ = static_cast<uint16_t>(prefix);
  // What lies between two keys with a prefix has it, too.
  node->all_have_prefix_ = StartsWith(lowest, first.substr(0, prefix)) &&
                           StartsWith(shape.high, first.substr(0, prefix));
  node->base_ = WordAt(first, node->word_at_);
  node->FillDigests([&](uint32_t i) { return WordAt(list.separator(begin + i), node->word_at_); });

  auto* const ends = const_cast<uint32_t*>(node->ends());
  auto* const prefix_bytes = const_cast<char*>(node->prefix().data());
  first.copy(prefix_bytes, prefix);
  char* const suffixes = prefix_bytes + prefix;
  uint32_t suffix_end = 0;
  node->is_lossless_ = true;
  for (uint32_t i = 0; i < count; ++i) {
    const KeyView separator = list.separator(begin + i);
    if (i != 0) {
      node->is_lossless_ &= node->IsLossless(separator, WordAt(separator, node->word_at_));
    }
    for (uint32_t word = 0; word < shape.payload_words; ++word) {
      ::new (&node->payload(i, word)) std::atomic<uint64_t>(list.payload(begin + i, word));
    }
    const KeyView suffix = separator.substr(i == 0 ? 0 : prefix);
    suffix_end += static_cast<uint32_t>(suffix.copy(suffixes + suffix_end, suffix.size()));
    ends[i] = suffix_end;
  }
  return node;
}

SeparatorNode* SeparatorNode::CopyWith(NodeArena& arena, uint32_t index, const SeparatorList& added,
                                       uint32_t tail_bytes) const {
  const auto added_count = static_cast<uint32_t>(added.size());
  assert(index != 0 && index <= count_ && added_count != 0 && count_ + added_count <= kMaxCount);
  if (count_ == 1) return nullptr;  // it has neither a prefix nor digests yet
  uint32_t added_bytes = 0;
  for (uint32_t i = 0; i < added_count; ++i) {
    const KeyView separator = added.separator(i);
    // With a long separator, Make takes digests behind the prefix.
    const bool has_other_words = separator.size() > kWordBytes && word_at_ != prefix_bytes_;
    if (has_other_words || !separator.starts_with(prefix())) return nullptr;
    added_bytes += static_cast<uint32_t>(separator.size()) - prefix_bytes_;
  }
  // Nor do digests order separators below the least one or far above the greatest: Make chooses
  // another base and shift.
  if (WordAt(added.separator(0), word_at_) < base_) return nullptr;
  const uint64_t last_word = WordAt(added.separator(added_count - 1), word_at_);
  if (index == count_ && Digest(last_word) == kGreatestDigest) return nullptr;

  const uint32_t count = count_ + added_count;
  const Shape shape{payload_words_, height_, tail_bytes};
  const uint32_t text_end = ends()[count_ - 1];
  const Layout layout = LayoutFor(count, size_t{prefix_bytes_} + text_end + added_bytes, shape);
  SeparatorNode* const node = MakeEmpty(arena, layout, count, shape);
  node->word_at_ = word_at_;
  node->prefix_bytes_ = prefix_bytes_;
  node->all_have_prefix_ = all_have_prefix_;
  node->base_ = base_;
  node->shift_ = shift_;
  node->is_lossless_ = is_lossless_;

  // Others may change this node's payload meanwhile.
  const uint32_t words = payload_words_;
  const auto copy_payload = [&](uint32_t first, uint32_t end, uint32_t to) {
    for (uint32_t i = first * words; i < end * words; ++i) {
      ::new (node->payloads() + i + (to - first) * words)
          std::atomic<uint64_t>(payloads()[i].load(std::memory_order_relaxed));
    }
  };
  auto* const digests = const_cast<int32_t*>(node->DigestLine(0));
  auto* const to_ends = const_cast<uint32_t*>(node->ends());
  auto* const to_text = const_cast<char*>(node->text());
  const uint32_t begin = ends()[index - 1];  // of the new suffixes
  std::copy_n(DigestLine(0), index, digests);
  copy_payload(0, index, 0);
  std::copy_n(ends(), index, to_ends);
  std::copy_n(text(), prefix_bytes_ + begin, to_text);

  uint32_t end = begin;
  for (uint32_t i = 0; i < added_count; ++i) {
    const KeyView separator = added.separator(i);
    const uint64_t word = WordAt(separator, word_at_);
    node->is_lossless_ &= node->IsLossless(separator, word);
    digests[index + i] = Digest(word);
    for (uint32_t at = 0; at < words; ++at) {
      ::new (&node->payload(index + i, at)) std::atomic<uint64_t>(added.payload(i, at));
    }
    end += static_cast<uint32_t>(
        separator.substr(prefix_bytes_).copy(to_text + prefix_bytes_ + end, separator.size()));
    to_ends[index + i] = end;
  }

  std::copy_n(DigestLine(0) + index, count_ - index, digests + index + added_count);
  copy_payload(index, count_, index + added_count);
  for (uint32_t i = index; i < count_; ++i) to_ends[i + added_count] = ends()[i] + added_bytes;
  std::copy_n(text() + prefix_bytes_ + begin, text_end - begin, to_text + prefix_bytes_ + end);
  node->FillDividers();
  return node;
}

SeparatorNode* SeparatorNode::MakeOfPairs(NodeArena& arena, uint64_t low,
                                          std::span<const Pair> pairs) {
  assert(!pairs.empty() && pairs.size() <= kMaxCount && low <= pairs.front().key);
  const auto count = static_cast<uint32_t>(pairs.size());
  const uint32_t lines = LinesFor(count);
  Layout layout;
  layout.sample_lines = SampleLinesFor(lines);
  layout.payload_line = 1 + layout.sample_lines + lines;
  // Room for full lines of digests: nodes that grow have few sizes, and so use each other's memory.
  layout.tail_at = layout.bytes = size_t{layout.payload_line} * NodeArena::kLineBytes +
                                  size_t{lines} * kDigestsPerLine * sizeof(Pair);
  SeparatorNode* const node = MakeEmpty(arena, layout, count, {2, 0, 0});
  node->base_ = low;
  // The first pair stands for all keys from `low` on.
  node->FillDigests([&](uint32_t i) { return pairs[i].key; });
  for (uint32_t i = 0; i < count; ++i) {
    ::new (&node->payload(i, 0)) std::atomic<uint64_t>(pairs[i].key);
    ::new (&node->payload(i, 1)) std::atomic<uint64_t>(pairs[i].value);
  }
  return node;
}

template <typename WordOf>
void SeparatorNode::FillDigests(const WordOf& word_of) {
  const uint64_t span = count_ == 1 ? 0 : word_of(count_ - 1) - base_;
  while ((span >> shift_) > kGreatestDigest - 1) ++shift_;
  auto* const digests = const_cast<int32_t*>(DigestLine(0));
  digests[0] = 0;
  for (uint32_t i = 1; i < count_; ++i) digests[i] = Digest(word_of(i));
  FillDividers();
}

void SeparatorNode::FillDividers() {
  const uint32_t lines = LinesFor(count_);
  auto* const digests = const_cast<int32_t*>(DigestLine(0));
  std::fill(digests + count_, digests + size_t{lines} * kDigestsPerLine, kPadding);
  std::fill(dividers_, dividers_ + kDividers, kPadding);
  if (sample_lines_ == 0) {
    for (uint32_t i = 1; i < lines; ++i) dividers_[i - 1] = digests[i * kDigestsPerLine];
    return;
  }
  auto* const samples = const_cast<int32_t*>(LineAt(1));
  std::fill(samples, samples + size_t{sample_lines_} * kDigestsPerLine, kPadding);
  for (uint32_t i = 0; i < lines; ++i) samples[i] = digests[i * kDigestsPerLine];
}

int32_t SeparatorNode::DigestBehindPrefix(KeyView key) const {
  if (!StartsWith(key, prefix())) [[unlikely]]
    return key < prefix() ? 0 : kGreatestDigest;
  return Digest(KeyPrefixBehind(key, prefix_bytes_));
}

uint32_t SeparatorNode::ChildIndex(KeyView key) const {
  const int32_t digest = DigestOf(key, KeyPrefix(key));
  uint32_t line = 0;
  if (is_wide()) {
    for (uint32_t i = 0; i < sample_lines_; ++i) {
      line += CountAtMost<kDigestsPerLine>(SampleLine(i), digest);
    }
    --line;
  } else {
    line = CountAtMost<kDividers>(dividers_, digest);
  }
  const uint32_t in_line = CountAtMost<kDigestsPerLine>(DigestLine(line), digest);
  return Confirm(line * kDigestsPerLine + in_line - 1, digest, key);
}

int SeparatorNode::CompareSeparator(uint32_t i, KeyView key) const {
  const KeyView prefix = prefix_of(i);
  const int order = prefix.compare(key.substr(0, prefix.size()));
  return order != 0 ? order : suffix(i).compare(key.substr(prefix.size()));
}

uint32_t SeparatorNode::ResolveTie(uint32_t index, int32_t digest, KeyView key) const {
  if (index == 0) return 0;
  // The digest may also be the greatest because the key is above all separators.
  if (CompareSeparator(index, key) <= 0) return index;
  uint32_t above = index;  // the least separator that is known to be above the key
  uint32_t low = index;
  while (low != 0 && this->digest(low - 1) == digest) --low;
  while (low < above) {
    const uint32_t middle = low + (above - low) / 2;
    if (CompareSeparator(middle, key) <= 0) {
      low = middle + 1;
    } else {
      above = middle;
    }
  }
  assert(low != 0);  // the key is at least separator 0
  return low - 1;
}

Key SeparatorNode::separator(uint32_t i) const {
  std::array<char, kMaxKeyBytes> bytes;
  const size_t prefix_size = prefix_of(i).copy(bytes.data(), bytes.size());
  const size_t size = prefix_size + suffix(i).copy(bytes.data() + prefix_size, suffix(i).size());
  return Key(KeyView(bytes.data(), size));
}

void SeparatorNode::AppendTo(SeparatorList& list, uint32_t begin, uint32_t end) const {
  for (uint32_t i = begin; i < end; ++i) {
    const uint64_t first = payload(i).load(std::memory_order_relaxed);
    const uint64_t second = payload_words_ == 2 ? payload(i, 1).load(std::memory_order_relaxed) : 0;
    list.Append(prefix_of(i), suffix(i), first, second);
  }
}

}  // namespace gossamer
