// The end of a run: whatever the clients did, the store that they leave behind is whole.
#pragma once

#include <memory>
#include <vector>

#include "compute/sim/client.h"
#include "compute/sim/run.h"

namespace gossamer::simulator {

// A client of its own reads every key into the history and walks the tree; then the history is checked. All of
// `living` are idle. What is wrong goes to the scene's verdict. `next_client`: numbers for clients, from there on.
void Audit(Scene& scene, const std::vector<std::unique_ptr<Client>>& living, uint32_t& next_client,
           RunCounts& counts);

}  // namespace gossamer::simulator
