// Transparent huge pages: the kernel merges 4 KB pages of a mapping into pages of 2 MB.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace gossamer {

enum class PageKind : uint8_t { kPrivate, kShared };

// Whether this machine's settings let memory of that kind have them.
bool MayBeTransparent(PageKind kind);

// How many bytes of `memory`, a mapping or a part of one, lie in them now; 0 if the kernel does not
// tell. The kernel may have joined the mapping with a neighbour: bytes of the neighbour may then
// count in place of bytes of `memory`.
uint64_t BytesInTransparentPages(std::span<const std::byte> memory);

// Of memory that was touched: "2 MB pages (transparent)", "2 MB pages (transparent) for 93 %, else
// 4 KB", or `without` if it has none.
std::string DescribeTouched(std::span<const std::byte> memory, std::string without);

}  // namespace gossamer
