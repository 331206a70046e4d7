// KeptRegion: a memory server's region that outlives its process, and what the next one goes on
// with: the lives on it, the numbers given, the store's record, and the map of the heap.
//
// All of it lies in memory that somebody has mapped: a file (region_file.h), or memory of the
// simulator, which has no processes. proto/region_file.h has the layout of the state.
//
// Thread-safety: one thread begins and closes; any thread may call NoteGiven and NoteRecord, each
// one at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/embedded_memory.h"
#include "common/fabric/memory_port.h"
#include "common/huge_pages.h"
#include "common/status.h"
#include "memory/lease_table.h"
#include "proto/region_file.h"

namespace gossamer {

class KeptRegion : public EmbeddedRegion {
 public:
  // Where the parts are.
  struct Parts {
    KeptMemory memory;
    std::span<std::byte> state;  // kStateBytes; zeros, or as a server before has left it
    std::span<std::byte> map;    // likewise
  };

  // The last life on this region before the present one; none if the region is new.
  const std::optional<RegionLife>& last_life() const { return last_; }
  // The region's memory, for a port. It lives as long as this object.
  const KeptMemory& memory() const { return parts_.memory; }
  std::span<std::byte> map() const { return parts_.map; }
  const Parts& parts() const { return parts_; }
  // How many bytes of it need no memory of the machine any more.
  virtual uint64_t bytes_in_place() const { return 0; }

  // Incarnations of this memory server before the present life.
  std::vector<uint64_t> earlier() const override;
  // Begins a life, or goes on with it under another header, and writes `header` to the region.
  void BeginLife(const RegionHeader& header);
  // Makes the region one that others find; see RegionFile.
  virtual Status Publish() { return Ok(); }
  // Ends the life: what was written stays.
  virtual Status Close() { return Ok(); }
  void EndLife() override { Use(parts()); }

  // The highest numbers that were given to compute servers. They are noted before they are given.
  GivenNumbers given() const;
  void NoteGiven(const GivenNumbers& given);
  // A digest of the last device, and its use, that has passed the litmus test; 0: none.
  uint64_t tested_device() const;
  void NoteTestedDevice(uint64_t digest);
  // The server's clock as it was last noted.
  ClockNote clock() const;
  void NoteClock(const ClockNote& clock);
  // Whether the last life began since this machine was started.
  bool IsOfThisBoot() const;
  // The store's record as it was last noted; empty: never.
  std::string record() const override;
  void NoteRecord(std::string_view text) override;

 protected:
  // Call once the memory is mapped. Whatever life was begun there has ended.
  void Use(Parts parts);
  const std::optional<RegionLife>& life() const { return life_; }
  void WriteLife(RegionLife life);

 private:
  std::byte* state() const { return parts_.state.data(); }
  // The valid one with the highest sequence.
  std::optional<RegionLife> ReadLife() const;
  struct Noted {
    uint64_t sequence = 0;  // 0: never
    std::string_view text;
  };
  // The valid one of the two records with the higher sequence.
  Noted ReadRecord() const;

  Parts parts_;
  std::optional<RegionLife> last_;
  std::optional<RegionLife> life_;
};

// In memory of this process, which it does not outlive.
class RegionInMemory final : public KeptRegion {
 public:
  static Result<std::unique_ptr<RegionInMemory>> New(uint64_t region_bytes, uint64_t map_bytes);

 private:
  explicit RegionInMemory(MemoryMapping mapping) : mapping_(std::move(mapping)) {}

  const MemoryMapping mapping_;
};

}  // namespace gossamer
