// The first root of a store: an empty leaf on server 0.
#pragma once

#include <cstddef>
#include <span>

#include "proto/region.h"
#include "proto/remote_ptr.h"

namespace gossamer {

// Writes the leaf at kFirstLeafOffset and the root word that points to it. The region is zero so far.
void WriteFirstRoot(std::span<std::byte> region, const StoreParameters& parameters,
                    ServerId server);

}  // namespace gossamer
