// Bootstrap in memcached: the text of store S is the item "gossamer/store/S".
//
// Changes are `add` and `cas`. Because memcached has no conditional removal, an empty item that
// expires after a second stands for absence. A join holds the item "gossamer/join/S", which
// expires: a joiner that died, or was stopped for longer, finds at its compare-and-swap that others
// have changed the text. Each call opens its own connection: calls are rare, and none inherits a
// broken one.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "common/bootstrap/bootstrap.h"

namespace gossamer {

Result<std::unique_ptr<Bootstrap>> OpenMemcached(const std::string& host, uint16_t port);

}  // namespace gossamer
