#include "compute/gateway/commands/composite.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <utility>

#include "compute/gateway/protocol/words.h"

namespace gossamer::gateway {
namespace {

constexpr size_t kHeaderBytes = 1 + sizeof(uint32_t);
constexpr uint8_t kMore = 0x80;
constexpr int kLengthBits = 7;
// From then on an index is cheaper than looks at all items.
constexpr size_t kSearchesWithoutIndex = 8;

void AppendText(std::string_view text, std::string& to) {
  size_t length = text.size();
  for (; length >= kMore; length >>= kLengthBits) to += static_cast<char>(length | kMore);
  to += static_cast<char>(length);
  to += text;
}

bool IsSmall(CompositeType type, std::string_view bytes) {
  return bytes.size() >= kHeaderBytes && bytes.front() == static_cast<char>(type);
}

size_t TextBytes(std::string_view text) {
  size_t bytes = 1 + text.size();
  for (size_t length = text.size(); length >= kMore; length >>= kLengthBits) ++bytes;
  return bytes;
}

}  // namespace

std::string_view NameOf(CompositeType type) {
  return type == CompositeType::kHash ? "hash" : "set";
}

std::optional<CompositeType> TypeOfComposite(std::string_view bytes) {
  if (bytes.size() < kHeaderBytes) return std::nullopt;
  // In capitals: the header of a large one.
  const auto type = static_cast<CompositeType>(LowerCase(bytes.front()));
  if (type != CompositeType::kHash && type != CompositeType::kSet) return std::nullopt;
  return type;
}

CompositeView::CompositeView(CompositeType type, std::string_view bytes)
    : has_values_(type == CompositeType::kHash) {
  if (!IsSmall(type, bytes)) return;
  std::memcpy(&count_, bytes.data() + 1, sizeof count_);
  rest_ = bytes.substr(kHeaderBytes);
}

bool CompositeView::Take(std::string_view& text) {
  size_t length = 0;
  for (int shift = 0;; shift += kLengthBits) {
    if (rest_.empty() || shift > 28) return false;
    const auto byte = static_cast<uint8_t>(rest_.front());
    rest_.remove_prefix(1);
    length |= static_cast<size_t>(byte & (kMore - 1)) << shift;
    if ((byte & kMore) == 0) break;
  }
  if (length > rest_.size()) return false;
  text = rest_.substr(0, length);
  rest_.remove_prefix(length);
  return true;
}

std::optional<CompositeItem> CompositeView::Next() {
  CompositeItem item;
  if (seen_ == count_ || !Take(item.name) || (has_values_ && !Take(item.value))) {
    return std::nullopt;
  }
  ++seen_;
  return item;
}

std::optional<CompositeItem> CompositeView::Find(std::string_view name) const {
  CompositeView rest = *this;
  std::optional<CompositeItem> item = rest.Next();
  while (item && item->name != name) item = rest.Next();
  return item;
}

std::optional<CompositeEdit> CompositeEdit::Of(CompositeType type,
                                               std::optional<std::string_view> bytes) {
  CompositeEdit edit(type);
  if (!bytes) return edit;
  CompositeView view(type, *bytes);
  edit.items_.reserve(std::min<size_t>(view.count(), bytes->size()));
  while (const std::optional<CompositeItem> item = view.Next()) {
    edit.items_.push_back({item->name, item->value});
  }
  if (!IsSmall(type, *bytes) || !view.has_ended()) return std::nullopt;
  edit.count_ = edit.items_.size();
  return edit;
}

std::optional<size_t> CompositeEdit::Find(std::string_view name) {
  if (searches_ < kSearchesWithoutIndex) {
    ++searches_;
    const auto found = std::ranges::find_if(
        items_, [name](const Item& item) { return !item.is_removed && item.name == name; });
    if (found == items_.end()) return std::nullopt;
    return static_cast<size_t>(found - items_.begin());
  }
  if (places_.empty()) {
    for (size_t i = 0; i < items_.size(); ++i) {
      if (!items_[i].is_removed) places_.emplace(items_[i].name, i);
    }
  }
  const auto found = places_.find(name);
  if (found == places_.end()) return std::nullopt;
  return found->second;
}

size_t CompositeEdit::PlaceOf(size_t number) const {
  assert(number < count_);
  size_t place = 0;
  while (items_[place].is_removed || number-- != 0) ++place;
  return place;
}

bool CompositeEdit::Set(std::string_view name, std::string_view value) {
  if (const std::optional<size_t> place = Find(name)) {
    items_[*place].value = value;
    return false;
  }
  if (!places_.empty()) places_.emplace(name, items_.size());
  items_.push_back({name, value});
  ++count_;
  return true;
}

void CompositeEdit::Remove(size_t place) {
  Item& item = items_[place];
  assert(!item.is_removed);
  item.is_removed = true;
  --count_;
  places_.erase(item.name);
}

size_t CompositeEdit::bytes() const {
  size_t bytes = kHeaderBytes;
  for (const Item& item : items_) {
    if (item.is_removed) continue;
    bytes +=
        TextBytes(item.name) + (type_ == CompositeType::kHash ? TextBytes(item.value) : size_t{0});
  }
  return bytes;
}

std::string CompositeEdit::Encode() const {
  std::string encoded;
  encoded.reserve(bytes());
  encoded += static_cast<char>(type_);
  const auto count = static_cast<uint32_t>(count_);
  encoded.append(reinterpret_cast<const char*>(&count), sizeof count);
  for (const Item& item : items_) {
    if (item.is_removed) continue;
    AppendText(item.name, encoded);
    if (type_ == CompositeType::kHash) AppendText(item.value, encoded);
  }
  return encoded;
}

}  // namespace gossamer::gateway
