// Composite: a hash or a set of Redis clients, as the bytes of one value. Where it is large, see
// large_composite.h.
// CompositeView: reads them where they are.
// CompositeEdit: changes them.
//
// The bytes are a letter for the type, the number of items (4 bytes, the lowest first), and the
// items one behind the other: a name behind its length and, of a hash, a value behind its own.
// Lengths have 7 bits in a byte, the lowest first, and the highest bit says that another byte
// follows (LEB128). Names differ. Items are in the order in which they came, as in Redis's small
// hashes. A key of the store that has such a value says so beside the time when it expires
// (gossamer/expiry.h). A value without items is never stored.
//
// Thread-safety: none. Cost: to find an item takes a look at all before it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <forward_list>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gossamer::gateway {

enum class CompositeType : char { kHash = 'h', kSet = 's' };
// As TYPE says it.
std::string_view NameOf(CompositeType type);
// Of any bytes, also of the header of a large one; nullopt if they are neither.
std::optional<CompositeType> TypeOfComposite(std::string_view bytes);

struct CompositeItem {
  std::string_view name;
  std::string_view value;  // of a set: empty
};

class CompositeView {
 public:
  // `bytes`, of any content, outlive the view. What is no composite of the type has no items.
  CompositeView(CompositeType type, std::string_view bytes);

  // As the bytes say it.
  uint32_t count() const { return count_; }
  // The next item; nullopt behind the last one, and before what is damaged.
  std::optional<CompositeItem> Next();
  // Whether Next has met the end that `count` says.
  bool has_ended() const { return rest_.empty() && seen_ == count_; }
  // Among those that Next has not seen.
  std::optional<CompositeItem> Find(std::string_view name) const;

 private:
  bool Take(std::string_view& text);

  bool has_values_;
  std::string_view rest_;
  uint32_t count_ = 0;
  uint32_t seen_ = 0;
};

class CompositeEdit {
 public:
  // `bytes` outlive this; nullopt: there is none yet. Returns nullopt if they are no composite of
  // the type.
  static std::optional<CompositeEdit> Of(CompositeType type, std::optional<std::string_view> bytes);

  size_t count() const { return count_; }
  // The place of an item, until Remove; nullopt: there is none of the name.
  std::optional<size_t> Find(std::string_view name);
  std::string_view ValueAt(size_t place) const { return items_[place].value; }
  // The name of the item behind `number` others. Requires: less than `count`.
  size_t PlaceOf(size_t number) const;
  std::string_view NameAt(size_t place) const { return items_[place].name; }
  // Adds an item, or gives it another value. Returns whether it is new. The bytes outlive this.
  bool Set(std::string_view name, std::string_view value);
  void Remove(size_t place);
  // Keeps bytes as long as this lives.
  std::string_view Keep(std::string bytes) { return kept_.emplace_front(std::move(bytes)); }
  // Of what Encode returns.
  size_t bytes() const;
  std::string Encode() const;

 private:
  struct Item {
    std::string_view name;
    std::string_view value;
    bool is_removed = false;
  };

  explicit CompositeEdit(CompositeType type) : type_(type) {}

  CompositeType type_;
  std::vector<Item> items_;
  size_t count_ = 0;
  size_t searches_ = 0;
  std::map<std::string_view, size_t> places_;  // of all items, after some searches
  std::forward_list<std::string> kept_;
};

}  // namespace gossamer::gateway
