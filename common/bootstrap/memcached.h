// Bootstrap in memcached: the text of store S is the item "gossamer/store/S".
//
// Changes are `add` and `cas`. As memcached cannot remove an item on a condition, an empty item
// that expires after a second stands for absence. Joining holds the item "gossamer/join/S", which
// expires by itself: a joiner that died, or was stopped for longer, finds at its compare-and-swap
// that others went ahead. Each call opens a connection of its own: calls are rare, and none
// inherits a broken one.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "common/bootstrap/bootstrap.h"

namespace gossamer {

Result<std::unique_ptr<Bootstrap>> OpenMemcached(const std::string& host, uint16_t port);

}  // namespace gossamer
