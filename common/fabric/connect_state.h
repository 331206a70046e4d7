// ConnectState: how far a connection that is being made has come, for steps that do not block.
#pragma once

#include <cstdint>

namespace gossamer {

enum class ConnectState : uint8_t { kUnderWay, kDone };

}  // namespace gossamer
