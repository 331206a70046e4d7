// A memory server of another store at the address of one that died: does any client mistake it for
// the dead server?
//
// Its store is filled at its start with values that no client of the run ever wrote. Only its own
// client may read or write there (rule U6), so it must be unchanged at the end.
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
  // Starts it at `address`, and fills it with `keys` keys named by `text(key)`. `number`
  // distinguishes the successors of a run. Blocks.
  static Result<std::unique_ptr<Successor>> Start(EmbeddedMemoryOptions options,
                                                  const std::string& address, uint32_t number,
                                                  uint32_t keys,
                                                  const std::function<std::string(uint32_t)>& text);

  // Returns a sentence that says what has changed since the start. Blocks.
  std::optional<std::string> FindChange();

 private:
  Successor() = default;

  std::unique_ptr<EmbeddedMemory> memory_;
  std::unique_ptr<OpenStore> store_;  // destroyed before the memory
  uint64_t keys_ = 0;
  uint64_t registered_ = 0;  // compute servers
};

}  // namespace gossamer::simulator
