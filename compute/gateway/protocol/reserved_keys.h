// The keys of the store that are Gossamer's own, and no clients': commands/large_composite.h has
// their forms.
#pragma once

#include <string_view>

namespace gossamer::gateway {

// What they begin with, which is no part of any UTF-8 text. They come behind all others.
inline constexpr std::string_view kReserved = "\xff\xff\xff\xff";
inline bool IsReserved(std::string_view key) { return key.starts_with(kReserved); }

}  // namespace gossamer::gateway
