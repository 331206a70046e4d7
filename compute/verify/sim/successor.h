// A memory server of another store, at the address of one that died: whether anybody takes it for that one.
//
// Its store is filled when it starts, with values that no client of the run ever wrote. Nobody but its own client may
// read or write there (rule U6), so that it must be as it was at the end.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "common/embedded_memory.h"
#include "common/fabric/sim/sim.h"
#include "compute/store/open_store.h"
#include "proto/store_record.h"

namespace gossamer::simulator {

class Successor {
 public:
  // Starts it at `address`, and fills it with `keys` keys as `text(key)` names them. `number` tells it from others of
  // the run. Blocks.
  static Result<std::unique_ptr<Successor>> Start(EmbeddedMemoryOptions options,
                                                  const std::string& address, uint32_t number,
                                                  uint32_t keys,
                                                  const std::function<std::string(uint32_t)>& text);

  // The sentence that says what has changed since. Blocks.
  std::optional<std::string> FindChange();

 private:
  Successor() = default;

  std::unique_ptr<EmbeddedMemory> memory_;
  std::unique_ptr<OpenStore> store_;  // ends before the memory
  uint64_t keys_ = 0;
  uint64_t registered_ = 0;  // compute servers
};

}  // namespace gossamer::simulator
