// How often a test that draws its inputs does so.
#pragma once

namespace gossamer {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kIsSanitized = true;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
inline constexpr bool kIsSanitized = true;
#else
inline constexpr bool kIsSanitized = false;
#endif
#else
inline constexpr bool kIsSanitized = false;
#endif

// With a sanitizer, whose code is ten times slower, a fifth of them. The release build compares
// results in all rounds.
constexpr int Rounds(int all) { return kIsSanitized ? (all + 4) / 5 : all; }

}  // namespace gossamer
