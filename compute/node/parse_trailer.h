// The trailer of a leaf that may be torn.
#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include "proto/leaf.h"

namespace gossamer {

// Returns nothing unless `bytes` are the whole trailer of `leaf` (rule R1).
std::optional<TrailerView> ParseTrailer(std::span<const std::byte> bytes, RemotePtr leaf,
                                        const LeafGeometry& geometry);

}  // namespace gossamer
