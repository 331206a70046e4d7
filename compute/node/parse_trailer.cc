#include "compute/node/parse_trailer.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "common/mutants.h"

namespace gossamer {

std::optional<TrailerView> ParseTrailer(std::span<const std::byte> bytes, RemotePtr leaf,
                                        const LeafGeometry& geometry) {
  if (!IsBroken(Mutant::kR1Trailer)) return TrailerView::Parse(bytes, leaf, geometry);
  std::array<std::byte, kTrailerBytes> sealed;
  std::copy_n(bytes.begin(), kTrailerBytes, sealed.begin());
  const uint32_t checksum =
      Crc32c(UnitSeed(leaf.word(), geometry.units()), std::span(sealed).subspan(sizeof(uint32_t)));
  std::memcpy(sealed.data(), &checksum, sizeof checksum);
  return TrailerView::Parse(sealed, leaf, geometry);
}

}  // namespace gossamer
