// What compute/rules/rules.h does about bytes that were read, in gossamer-sim-mutants: the rule, or
// what --mutant breaks of it.
#include <algorithm>
#include <array>
#include <cstring>

#include "compute/rules/rules.h"

namespace gossamer::rules::broken {

std::optional<GroupView> ParseUnit(std::span<const std::byte> bytes, RemotePtr leaf, uint32_t unit,
                                   KeyView within, KeyView sought) {
  if (IsBroken(Mutant::kR1)) {
    SealUnit({const_cast<std::byte*>(bytes.data()), bytes.size()}, leaf, unit, within);
  }
  const std::optional<GroupView> parsed = GroupView::Parse(bytes, leaf, unit, within);
  const bool takes_prefix_of_sought =
      IsBroken(Mutant::kR1Prefix) && parsed && sought.size() >= parsed->prefix().size();
  return takes_prefix_of_sought ? std::optional(GroupView::Trust(bytes, sought)) : parsed;
}

std::optional<TrailerView> ParseTrailer(std::span<const std::byte> bytes, RemotePtr leaf,
                                        const LeafGeometry& geometry) {
  if (!IsBroken(Mutant::kR1Trailer)) return TrailerView::Parse(bytes, leaf, geometry);
  std::array<std::byte, kTrailerBytes> sealed;
  std::copy_n(bytes.begin(), kTrailerBytes, sealed.begin());
  Seal(UnitSeed(leaf, geometry.units()), sealed);
  return TrailerView::Parse(sealed, leaf, geometry);
}

std::optional<std::string_view> ParseBlock(const BlockRef& block,
                                           std::span<const std::byte> bytes) {
  if (!IsBroken(Mutant::kR1Generation)) return DecodeBlock(block, bytes);
  // As if neither the seed nor the entry told generations apart.
  BlockRef any = block;
  std::memcpy(&any.checksum, bytes.data(), sizeof any.checksum);
  std::optional<std::string_view> value;
  do {
    any.pointer = any.ptr().NextGeneration().word();
    value = DecodeBlock(any, bytes);
  } while (!value && any.pointer != block.pointer);
  return value;
}

std::optional<std::string_view> ParseAlong(const BlockRef& named, const BlockRef& guess,
                                           std::span<const std::byte> bytes) {
  const bool is_named = named.pointer == guess.pointer && named.length == guess.length;
  if (is_named || !IsBroken(Mutant::kR10)) {
    return is_named ? ParseBlock(named, bytes) : std::nullopt;
  }
  // Whole, and of the place and generation where it was read.
  BlockRef taken = guess;
  std::memcpy(&taken.checksum, bytes.data(), sizeof taken.checksum);
  return DecodeBlock(taken, bytes);
}

}  // namespace gossamer::rules::broken
