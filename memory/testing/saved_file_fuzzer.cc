// Fuzzes the reading of saved files. With an odd first byte, the rest is the file, byte by byte.
// Otherwise it is the content of a header and of blocks, whose checksums are made right, so that
// what lies behind them is reached.
//
// Whatever the file is: it is refused or loaded; loading writes nothing outside the region; and a
// file that loads without --salvage loads with it to the same memory.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "memory/chunk_allocator.h"
#include "memory/saved_file.h"

namespace gossamer {
namespace {

constexpr uint64_t kRegionBytes = uint64_t{1} << 20;

std::vector<std::byte> Sealed(std::span<const std::byte> content) {
  SavedFileHeader header{};
  const size_t head = std::min(content.size(), sizeof header);
  std::memcpy(&header, content.data(), head);
  header.magic = kSavedFileMagic;
  header.version = kSavedFileVersion;
  header.region.magic = kRegionMagic;
  header.region.format_version = kFormatVersion;
  header.region.checksum = HeaderChecksum(header.region);
  header.file.version = kRegionFileVersion;
  header.file.region_bytes = kRegionBytes;
  header.file.map_bytes = ChunkAllocator::MapBytes(kRegionBytes);
  header.checksum = HeaderChecksum(header);
  std::vector<std::byte> file(sizeof header);
  std::memcpy(file.data(), &header, sizeof header);
  content = content.subspan(head);
  SavedBlock block;
  while (content.size() >= sizeof block) {
    std::memcpy(&block, content.data(), sizeof block);
    content = content.subspan(sizeof block);
    if (block.at != kSavedEnd) block.at = block.at % 8 * kSavedBlockBytes;
    block.stored_bytes %= 4096;
    const auto stored = content.first(std::min<size_t>(content.size(), block.stored_bytes));
    block.stored_bytes = static_cast<uint32_t>(stored.size());
    block.checksum = ChecksumOf(block, stored);
    const auto of_block = std::as_bytes(std::span(&block, 1));
    file.insert(file.end(), of_block.begin(), of_block.end());
    file.insert(file.end(), stored.begin(), stored.end());
    content = content.subspan(stored.size());
  }
  return file;
}

std::unique_ptr<RegionInMemory> NewRegion() {
  return RegionInMemory::New(kRegionBytes, ChunkAllocator::MapBytes(kRegionBytes)).value();
}

void Load(std::span<const std::byte> bytes) {
  const UniqueFd file(::memfd_create("saved", MFD_CLOEXEC));
  if (::write(file.get(), bytes.data(), bytes.size()) != static_cast<ssize_t>(bytes.size())) return;
  const auto opened = SavedFile::Open("/proc/self/fd/" + std::to_string(file.get()));
  if (!opened) return;
  const auto whole = NewRegion();
  const auto loaded = opened.value().LoadInto(*whole, false);
  const auto salvaged = NewRegion();
  const auto rest = opened.value().LoadInto(*salvaged, true);
  if (!loaded) return;
  if (!rest || rest.value().damaged != 0 ||
      !std::ranges::equal(whole->memory().region, salvaged->memory().region)) {
    __builtin_trap();
  }
}

}  // namespace
}  // namespace gossamer

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  const auto input = std::as_bytes(std::span(data, bytes));
  if (input.empty()) return 0;
  const bool is_raw = (std::to_integer<unsigned>(input.front()) & 1) != 0;
  const auto rest = input.subspan(1);
  if (is_raw) {
    gossamer::Load(rest);
  } else {
    gossamer::Load(gossamer::Sealed(rest));
  }
  return 0;
}
