#include "memory/saved_file.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <optional>
#include <span>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "common/errno_reason.h"
#include "common/text/human.h"
#include "memory/chunk_allocator.h"
#include "memory/heap_map.h"
#include "memory/repeated_sums.h"

namespace gossamer {
namespace {

constexpr int kLevel = 1;  // of zstd: level 3 takes twice the time for 1 % less
constexpr uint32_t kFrameMagic = ZSTD_MAGICNUMBER;

Error CannotUse(const std::string& path, Code code, const std::string& why) {
  return MakeError(code, path + ": " + why);
}

unsigned Threads() {
  return std::clamp(std::thread::hardware_concurrency(), 1U, kSavedFileThreads);
}

bool IsZero(std::span<const std::byte> bytes) {
  return bytes.empty() || (bytes[0] == std::byte{0} &&
                           std::memcmp(bytes.data(), bytes.data() + 1, bytes.size() - 1) == 0);
}

// The header of a region file with these parts.
RegionFileHeader FileHeaderOf(const KeptRegion::Parts& parts) {
  RegionFileHeader header{
      kRegionFileMagic,           kRegionFileVersion, 0,
      parts.memory.region.size(), parts.map.size(),   parts.memory.queue_pair_pages.size()};
  header.checksum = HeaderChecksum(header);
  return header;
}

// The block of `parts` that begins at `at` of the region file; shorter than kSavedBlockBytes at the
// end of a part. Empty between parts, and behind the last one.
std::span<std::byte> BlockAt(const KeptRegion::Parts& parts, uint64_t at) {
  const RegionFileHeader header = FileHeaderOf(parts);
  const auto of = [at](uint64_t first, std::span<std::byte> part) {
    if (at < first || at - first >= part.size()) return std::span<std::byte>();
    const uint64_t from = at - first;
    return part.subspan(from, std::min(kSavedBlockBytes, part.size() - from));
  };
  if (at < StateAt(header)) return of(0, parts.memory.region);
  if (at < MapAt(header)) return of(StateAt(header), parts.state);
  return of(MapAt(header), parts.map);
}

RestingRegion Resting(const KeptRegion::Parts& parts, const RegionHeader& header) {
  const std::span<std::byte> bytes = parts.memory.region;
  return {bytes, header,
          HeapMap::Left(parts.map, ChunkAllocator::GrainsOf(kHeapOffset, bytes.size()))};
}

// ---- Writing

// Writes the blocks in their order, each of which one of several threads compresses.
class BlockWriter {
 public:
  BlockWriter(int file, const KeptRegion::Parts& parts, const RegionHeader& header)
      : file_(file),
        parts_(parts),
        first_(StateAt(FileHeaderOf(parts))),
        end_(PagesAt(FileHeaderOf(parts))),
        resting_(Resting(parts, header)),
        repeated_(resting_, Threads()) {}

  Status Run(const SavedFileProgress& progress) {
    {
      std::vector<std::jthread> others;
      for (unsigned i = 1; i < Threads(); ++i) others.emplace_back([this] { Work({}); });
      Work(progress);
    }
    return failure_ ? Status(*failure_) : Ok();
  }

  uint64_t blocks() const { return blocks_; }

 private:
  void Work(const SavedFileProgress& progress) {
    std::vector<std::byte> plain(kSavedBlockBytes);
    std::vector<std::byte> packed(sizeof(SavedBlock) + ZSTD_compressBound(kSavedBlockBytes));
    ZSTD_CCtx* const context = ZSTD_createCCtx();
    for (;;) {
      const uint64_t turn = next_.fetch_add(kSavedBlockBytes);
      if (turn >= end_) break;
      // The state and the map come first: without them, nothing of a file that is cut can be used.
      const uint64_t at = (first_ + turn) % end_;
      const std::span<const std::byte> source = Source(at, plain);
      size_t bytes = 0;
      if (!IsZero(source)) {
        const size_t stored = ZSTD_compressCCtx(context, packed.data() + sizeof(SavedBlock),
                                                packed.size() - sizeof(SavedBlock), source.data(),
                                                source.size(), kLevel);
        SavedBlock block{at, static_cast<uint32_t>(stored), 0};
        block.checksum = ChecksumOf(block, std::span(packed).subspan(sizeof block, stored));
        std::memcpy(packed.data(), &block, sizeof block);
        bytes = sizeof block + stored;
      }
      if (!WriteInTurn(turn, std::span(packed).first(bytes))) break;
      if (progress) progress(turn, end_);
    }
    ZSTD_freeCCtx(context);
  }

  // What to save of the block: all of it, but free memory as zeros, and checksums that are
  // repeated, in `buffer`.
  std::span<const std::byte> Source(uint64_t at, std::span<std::byte> buffer) const {
    const std::span<const std::byte> block = BlockAt(parts_, at);
    if (at >= parts_.memory.region.size()) return block;
    const std::span<std::byte> copy = buffer.first(block.size());
    uint64_t from = std::min<uint64_t>(block.size(), kHeapOffset - std::min(at, kHeapOffset));
    std::memcpy(copy.data(), block.data(), from);
    const HeapMap& map = resting_.map;
    const uint64_t heap_end = kHeapOffset + map.grains() * HeapMap::kGrain;
    while (from < block.size() && at + from < heap_end) {
      const HeapMap::Run run = map.RunAt((at + from - kHeapOffset) / HeapMap::kGrain);
      const uint64_t end =
          std::min<uint64_t>(block.size(), kHeapOffset + run.end * HeapMap::kGrain - at);
      // What waits for its owner is free once that has ended, as it has.
      if (run.is_free() || run.use.is_waiting) {
        std::memset(copy.data() + from, 0, end - from);
      } else {
        std::memcpy(copy.data() + from, block.data() + from, end - from);
      }
      from = end;
    }
    std::memset(copy.data() + from, 0, block.size() - from);
    repeated_.LeaveOut(at, copy);
    return copy;
  }

  // Returns false once one of the threads has failed.
  bool WriteInTurn(uint64_t turn, std::span<const std::byte> bytes) {
    std::unique_lock lock(mutex_);
    turn_.wait(lock, [&] { return written_ == turn || failure_; });
    if (failure_) return false;
    const Status written = WriteAll(file_, bytes);
    if (!written) failure_ = written.error();
    if (!bytes.empty()) ++blocks_;
    written_ += kSavedBlockBytes;
    turn_.notify_all();
    return !failure_;
  }

 public:
  static Status WriteAll(int file, std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const ssize_t written = ::write(file, bytes.data(), bytes.size());
      if (written < 0 && errno == EINTR) continue;
      if (written < 0)
        return MakeError(Code::kNoResources, "it cannot be written: " + ErrnoReason());
      bytes = bytes.subspan(static_cast<size_t>(written));
    }
    return Ok();
  }

 private:
  const int file_;
  const KeptRegion::Parts& parts_;
  const uint64_t first_;  // the block that is written first,
  const uint64_t end_;    // and where all end
  const RestingRegion resting_;
  const RepeatedSums repeated_;
  std::atomic<uint64_t> next_ = 0;
  std::mutex mutex_;
  std::condition_variable turn_;
  uint64_t written_ = 0;  // guarded by mutex_, as all below
  uint64_t blocks_ = 0;
  std::optional<Error> failure_;
};

template <typename Object>
std::span<const std::byte> BytesOf(const Object& object) {
  return std::as_bytes(std::span(&object, 1));
}

Status WriteTo(int file, const SavedFileHeader& header, const KeptRegion::Parts& parts,
               const SavedFileProgress& progress) {
  BOOST_OUTCOME_TRYV(BlockWriter::WriteAll(file, BytesOf(header)));
  BlockWriter writer(file, parts, header.region);
  BOOST_OUTCOME_TRYV(writer.Run(progress));
  const uint64_t blocks = writer.blocks();
  SavedBlock end{kSavedEnd, sizeof blocks, 0};
  end.checksum = ChecksumOf(end, BytesOf(blocks));
  BOOST_OUTCOME_TRYV(BlockWriter::WriteAll(file, BytesOf(end)));
  BOOST_OUTCOME_TRYV(BlockWriter::WriteAll(file, BytesOf(blocks)));
  if (::fsync(file) != 0) {
    return MakeError(Code::kNoResources, "it cannot be written to its disk: " + ErrnoReason());
  }
  return Ok();
}

}  // namespace

Result<uint64_t> WriteSavedFile(const std::string& path, SavedFileHeader header,
                                const KeptRegion& region, const SavedFileProgress& progress) {
  header.magic = kSavedFileMagic;
  header.version = kSavedFileVersion;
  header.sequence = std::max(header.sequence, region.last_life()->sequence);
  header.region = region.last_life()->header;
  header.file = FileHeaderOf(region.parts());
  header.checksum = HeaderChecksum(header);
  const UniqueFd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  if (!file) {
    return CannotUse(path, Code::kInvalidArgument, "it cannot be created: " + ErrnoReason());
  }
  const Status written = WriteTo(file.get(), header, region.parts(), progress);
  if (!written) {
    ::unlink(path.c_str());
    return CannotUse(path, written.error().code, written.error().message);
  }
  struct stat info{};
  ::fstat(file.get(), &info);
  return static_cast<uint64_t>(info.st_size);
}

// ---- Reading

namespace {

// Reads the blocks one after the other, and checks each.
class BlockReader {
 public:
  struct Block {
    uint64_t at = 0;
    std::vector<std::byte> stored;
  };

  BlockReader(int file, uint64_t file_bytes, bool salvage)
      : file_(file), bytes_(file_bytes), salvages_(salvage) {}

  // The next one; none at the end, and where one is damaged. With `salvage`, only at the end.
  std::optional<Block> Next() {
    while (!is_at_end_) {
      const uint64_t from = offset_;
      std::optional<Block> block = ReadAt(from);
      if (block && block->at == kSavedEnd) {
        is_at_end_ = true;
        uint64_t blocks = 0;
        std::memcpy(&blocks, block->stored.data(), sizeof blocks);
        if (blocks != loaded_.blocks && loaded_.damaged == 0) NoteDamage(from);
        return std::nullopt;
      }
      if (block) {
        ++loaded_.blocks;
        return block;
      }
      NoteDamage(from);
      const std::optional<uint64_t> next = salvages_ ? FindAfter(from + 1) : std::nullopt;
      is_at_end_ = !next;
      loaded_.is_cut = !next;
      offset_ = next.value_or(from);
    }
    return std::nullopt;
  }

  void NoteDamage(uint64_t at) {
    if (loaded_.damaged++ == 0) loaded_.first_damaged_at = at;
    if (!salvages_) is_at_end_ = true;
  }

  uint64_t offset() const { return offset_; }
  const SavedFile::Loaded& loaded() const { return loaded_; }

 private:
  // The valid block there, if there is one. Moves behind it.
  std::optional<Block> ReadAt(uint64_t from) {
    SavedBlock head;
    if (!Read(from, std::as_writable_bytes(std::span(&head, 1)))) return std::nullopt;
    const bool is_end = head.at == kSavedEnd;
    if (is_end ? head.stored_bytes != sizeof(uint64_t)
               : head.at % kSavedBlockBytes != 0 || head.stored_bytes > kMaxStoredBytes) {
      return std::nullopt;
    }
    Block block{head.at, std::vector<std::byte>(head.stored_bytes)};
    if (!Read(from + sizeof head, block.stored)) return std::nullopt;
    if (head.checksum != ChecksumOf(head, block.stored)) return std::nullopt;
    offset_ = from + sizeof head + head.stored_bytes;
    return block;
  }

  // Where a valid block begins next: its frame begins with the magic of zstd, unless it is the end.
  std::optional<uint64_t> FindAfter(uint64_t from) {
    constexpr uint64_t kStep = uint64_t{1} << 20;
    std::vector<std::byte> bytes;
    const auto* const magic = reinterpret_cast<const std::byte*>(&kFrameMagic);
    for (uint64_t at = from; at + sizeof(SavedBlock) < bytes_; at += kStep) {
      bytes.resize(std::min(bytes_ - at, kStep + sizeof(SavedBlock) + sizeof kFrameMagic));
      if (!Read(at, bytes)) break;
      for (auto found = bytes.begin();; ++found) {
        found = std::search(found, bytes.end(), magic, magic + sizeof kFrameMagic);
        if (found == bytes.end()) break;
        const uint64_t frame = at + static_cast<uint64_t>(found - bytes.begin());
        if (frame < from + sizeof(SavedBlock)) continue;
        const uint64_t start = frame - sizeof(SavedBlock);
        if (ReadAt(start)) return start;
      }
    }
    constexpr uint64_t kEndBytes = sizeof(SavedBlock) + sizeof(uint64_t);
    const bool has_end = bytes_ >= from + kEndBytes && ReadAt(bytes_ - kEndBytes);
    return has_end ? std::optional(bytes_ - kEndBytes) : std::nullopt;
  }

  bool Read(uint64_t from, std::span<std::byte> bytes) const {
    while (!bytes.empty()) {
      const ssize_t got = ::pread(file_, bytes.data(), bytes.size(), static_cast<off_t>(from));
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) return false;
      from += static_cast<uint64_t>(got);
      bytes = bytes.subspan(static_cast<size_t>(got));
    }
    return true;
  }

  const int file_;
  const uint64_t bytes_;
  const bool salvages_;
  uint64_t offset_ = sizeof(SavedFileHeader);
  bool is_at_end_ = false;
  SavedFile::Loaded loaded_;
};

// Fills `parts` from the reader, by several threads.
void Unpack(BlockReader& reader, const KeptRegion::Parts& parts, uint64_t file_bytes,
            const SavedFileProgress& progress) {
  std::mutex mutex;
  const auto work = [&](bool shows) {
    for (;;) {
      std::optional<BlockReader::Block> block;
      uint64_t offset = 0;
      {
        const std::lock_guard lock(mutex);
        offset = reader.offset();
        block = reader.Next();
      }
      if (!block) return;
      const std::span<std::byte> memory = BlockAt(parts, block->at);
      const size_t unpacked =
          ZSTD_decompress(memory.data(), memory.size(), block->stored.data(), block->stored.size());
      if (memory.empty() || unpacked != memory.size()) {
        std::ranges::fill(memory, std::byte{0});
        const std::lock_guard lock(mutex);
        reader.NoteDamage(offset);
      }
      if (shows && progress) progress(offset, file_bytes);
    }
  };
  std::vector<std::jthread> others;
  for (unsigned i = 1; i < Threads(); ++i) others.emplace_back(work, false);
  work(true);
}

}  // namespace

Result<SavedFile> SavedFile::Open(const std::string& path) {
  UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) {
    return CannotUse(path, errno == ENOENT ? Code::kNotFound : Code::kInvalidArgument,
                     "it cannot be opened: " + ErrnoReason());
  }
  SavedFile opened(path, std::move(file));
  SavedFileHeader& header = opened.header_;
  struct stat info{};
  const ssize_t got = ::pread(opened.file_.get(), &header, sizeof header, 0);
  if (got < 0 || ::fstat(opened.file_.get(), &info) != 0) {
    return CannotUse(path, Code::kInvalidArgument, "it cannot be read: " + ErrnoReason());
  }
  opened.file_bytes_ = static_cast<uint64_t>(info.st_size);
  if (static_cast<size_t>(got) < sizeof header.magic || header.magic != kSavedFileMagic) {
    return CannotUse(path, Code::kInvalidArgument, "no memory server has saved it");
  }
  if (static_cast<size_t>(got) < sizeof header) {
    return CannotUse(
        path, Code::kCorruption,
        fmt::format("it ends at byte {}, within its header: nothing of it can be read", got));
  }
  const bool is_known =
      header.version >= kFirstSavedFileVersion && header.version <= kSavedFileVersion;
  if (!is_known || header.file.version != kRegionFileVersion ||
      header.region.format_version < kFirstFormatVersion ||
      header.region.format_version > kFormatVersion) {
    return CannotUse(
        path, Code::kUnsupported,
        fmt::format("it has version {} of saved files, {} of region files and {} of the store's "
                    "format; this build reads {} to {}, {} and {} to {}: load it with the build "
                    "that has saved "
                    "it, write the data to a file with `gossamer dump`, and load that into a new "
                    "store",
                    header.version, header.file.version, header.region.format_version,
                    kFirstSavedFileVersion, kSavedFileVersion, kRegionFileVersion,
                    kFirstFormatVersion, kFormatVersion));
  }
  std::string problem;
  if (header.checksum != HeaderChecksum(header)) {
    return CannotUse(path, Code::kCorruption, "its header does not match its checksum");
  }
  if (!ParseRegionHeader(BytesOf(header.region), problem, kFirstFormatVersion)) {
    return CannotUse(path, Code::kCorruption, problem);
  }
  return opened;
}

std::string SavedFile::store() const {
  return {header_.store.data(), ::strnlen(header_.store.data(), header_.store.size())};
}

Result<SavedFile::Loaded> SavedFile::LoadInto(KeptRegion& region, bool salvage,
                                              const SavedFileProgress& progress) const {
  const KeptRegion::Parts& parts = region.parts();
  const RegionFileHeader own = FileHeaderOf(parts);
  if (own.region_bytes != header_.file.region_bytes || own.map_bytes != header_.file.map_bytes) {
    return CannotUse(path_, Code::kInvalidArgument,
                     fmt::format("it has {0} bytes of memory, and --memory says {1}: give "
                                 "--memory={0}",
                                 header_.file.region_bytes, own.region_bytes));
  }
  BlockReader reader(file_.get(), file_bytes_, salvage);
  Unpack(reader, parts, file_bytes_, progress);
  const Loaded& loaded = reader.loaded();
  if (loaded.damaged != 0 && !salvage) {
    return CannotUse(
        path_, Code::kCorruption,
        fmt::format("it is damaged, or cut, at byte {} of {}; {} of memory before that can be "
                    "read: give --load=FILE with another one of this server, or --salvage to go on "
                    "with what can be read of this one",
                    loaded.first_damaged_at, file_bytes_,
                    HumanBytes(loaded.blocks * kSavedBlockBytes)));
  }
  const RestingRegion resting = Resting(parts, header_.region);
  // Whoever goes on with the region checks its map, too, and refuses it.
  if (resting.map.Check(kHeapOffset)) RepeatedSums::PutBack(resting, Threads());
  // The sizes of the parts are those of `region`, whatever the file's pages were.
  std::memcpy(parts.memory.region.data() + kRegionFileHeaderAt, &own, sizeof own);
  region.EndLife();
  if (!region.last_life()) {
    return CannotUse(path_, Code::kCorruption,
                     "what it says of the server that saved it is damaged: nothing of it can be "
                     "used");
  }
  return loaded;
}

}  // namespace gossamer
